#include "harness/cli/json_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(JsonText, SaysLineAndColumn) {
  EXPECT_THAT([] { (void)parse_json("{\n  \"vars\": [,]}", "p.json"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("p.json, line 2, column 12: this is not JSON")));
  EXPECT_THAT([] { (void)parse_json("", "p.json"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("p.json, line 1, column 1: this is not JSON")));
  EXPECT_THAT([] { (void)parse_json(R"({"ops": [], "ops": [1]})", "p.json"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("p.json: an object has the field 'ops' twice")));
  EXPECT_THAT([] { (void)parse_json("[1e999]", "p.json"); }, ThrowsMessage<OutOfRange>(HasSubstr("'1e999'")));
  EXPECT_EQ(parse_json(" [1, {\"a\": {\"a\": 2}}]", "p.json"), json::parse("[1, {\"a\": {\"a\": 2}}]"));
}

}  // namespace
}  // namespace plumbline::cli
