// The README says how to renew its table.
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/describe.hpp"
#include "reference/adapter/reference_service.hpp"

namespace plumbline::subject {
namespace {

TEST(Readme, HasTheTableOfTheRows) {
  std::ifstream file(ADAPTER_README);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(),
              testing::HasSubstr("<!-- operations -->\n" + describe(adapter::reference_service(), adapter::Format::md) +
                                 "<!-- end of operations -->\n"));
}

}  // namespace
}  // namespace plumbline::subject
