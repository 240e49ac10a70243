// bucketing.race_check: what is read, what is answered, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/subject/adapter/ask_reference.hpp"

namespace plumbline::subject {
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
  EXPECT_THAT(error_of("bucketing.race_check", question("13").c_str()), HasSubstr("ring 13, and there is no such ring"));
  EXPECT_THAT(error_of("bucketing.race_check", R"({"rings": {}})"), HasSubstr("program is missing"));
  EXPECT_THAT(error_of("bucketing.race_check", R"({"rings": {}, "program": {"vars": [], "ops": [], "more": 1}})"),
              HasSubstr("more"));
}

}  // namespace
}  // namespace plumbline::subject
