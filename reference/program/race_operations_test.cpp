// bucketing.race_check: what is read, what is answered, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// g is made, reduced on a stream of its ring, and read.
std::string question(const std::string& ring) {
  return R"({"rings": {"12": [0, 1]}, "program": {
      "vars": [{"name": "x", "shape": [4], "dtype": "float32"}, {"name": "g", "shape": [4], "dtype": "float32"},
               {"name": "y", "shape": [4], "dtype": "float32"}],
      "ops": [{"type": "relu", "inputs": {"X": ["x"]}, "outputs": {"Out": ["g"]}, "attrs": {"op_role": 1}},
              {"type": "c_wait_compute", "inputs": {}, "outputs": {}, "attrs": {"op_role": 1, "ring_id": )" +
         ring + R"(}},
              {"type": "all_reduce", "inputs": {"x": ["g"]}, "outputs": {"out": ["g"]},
               "attrs": {"op_role": 1, "ring_id": 12, "reduce_type": "sum", "use_calc_stream": false}},
              {"type": "relu", "inputs": {"X": ["g"]}, "outputs": {"Out": ["y"]}, "attrs": {"op_role": 1}}]}})";
}

TEST(BucketingRaceCheck, NamesTheOpsAndTheVariable) {
  EXPECT_EQ(ask("bucketing.race_check", question("12").c_str()),
            json::parse(R"({"races": [{"variable": "g", "first": 2, "second": 3, "why":
                "op 2 (all_reduce, ring 12) writes it, op 3 (relu, the default stream) reads it, and neither waits for the other"}]})"));
}

TEST(BucketingRaceCheck, RefusesInOneLine) {
  EXPECT_THAT(error_of("bucketing.race_check", question("13").c_str()),
              HasSubstr("ring 13, and there is no such ring"));
  const auto error_with = [](const char* field, const json& value) {
    json args = json::parse(question("12"));
    args[json::json_pointer(field)] = value;
    std::string words = error_of("bucketing.race_check", args.dump().c_str());
    EXPECT_EQ(words.find('\n'), std::string::npos) << words;
    return words;
  };
  EXPECT_THAT(error_with("/program/ops/0/type", "rellu"), HasSubstr("op 0 has the type 'rellu', which is not known"));
  EXPECT_THAT(error_with("/program/ops/0/inputs/Z", {"x"}), HasSubstr("op 0 (relu) has inputs 'Z'; there are X"));
  EXPECT_THAT(error_with("/program/ops/0/inputs/X", {"y"}), HasSubstr("which needs what it makes itself: ops 0 <- 3"));
  EXPECT_THAT(error_with("/program/vars/0/shape", {-2}), HasSubstr("program.vars[0].shape[0] must be 0 or more"));
  EXPECT_THAT(error_with("/program/vars/0/shape", {1LL << 40, 1LL << 40}), HasSubstr("more elements than 64 bits"));
  EXPECT_THAT(error_with("/program/ops/2/attrs/ring_id", 1LL << 40), HasSubstr("more than 32 bits hold"));
  EXPECT_THAT(error_with("/program/ops/2/attrs/scale", 1e300), HasSubstr("more than a float32 holds"));
  EXPECT_THAT(error_of("bucketing.race_check", R"({"rings": {}})"), HasSubstr("program is missing"));
  EXPECT_THAT(error_of("bucketing.race_check", R"({"rings": {}, "program": {"vars": [], "ops": [], "more": 1}})"),
              HasSubstr("more"));
}

}  // namespace
}  // namespace plumbline::adapter
