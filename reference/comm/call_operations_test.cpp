// comm.calls: what the reference answers, and what it refuses to be asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json ask_calls(const json& args) { return ask("comm.calls", args); }

std::string error_of_calls(const json& args) {
  try {
    return ask_calls(args).dump();
  } catch (const Refused& error) {
    return error.what();
  }
}

json sum_of(int first, int count) {
  return {{"operation", "all_reduce"},
          {"in", {{"first", first}, {"count", count}}},
          {"out", {{"first", first}, {"count", count}}}};
}

json two_ranks(const std::vector<json>& calls, const char* dtype = "float32") {
  return {{"world_size", 2}, {"dtype", dtype}, {"memory", json::parse("[[1, 2, 3], [10, 20, 30]]")}, {"calls", calls}};
}

TEST(Calls, AreMadeInOrderOnTheRanksMemory) {
  json gather{{"operation", "all_gather"}, {"in", {{"first", 2}, {"count", 1}}}, {"out", {{"first", 0}, {"count", 2}}}};
  const json result = ask_calls(two_ranks({sum_of(1, 2), gather}, "int32")).at("calls");
  EXPECT_EQ(result[0], json::parse(R"({"errors": [null, null], "memory": [[1, 22, 33], [10, 22, 33]]})"));
  EXPECT_EQ(result[1], json::parse(R"({"errors": [null, null], "memory": [[33, 33, 33], [33, 33, 33]]})"));
}

TEST(Calls, ThatAreRefusedMoveNothingAndTheGroupGoesOn) {
  json bad = sum_of(0, 2);
  bad["in"].erase("first");
  json average = sum_of(0, 2);
  average["op"] = "avg";
  const json result = ask_calls(two_ranks({bad, average, sum_of(0, 2)}, "int64")).at("calls");
  const json memory = two_ranks({}).at("memory");
  EXPECT_EQ(result[0], (json{{"errors", {"invalid_argument", "invalid_argument"}}, {"memory", memory}}));
  EXPECT_EQ(result[1], (json{{"errors", {"unsupported", "unsupported"}}, {"memory", memory}}));
  EXPECT_EQ(result[2].at("memory"), json::parse("[[11, 22, 3], [11, 22, 30]]"));
}

TEST(Calls, MakeGroupsOfAListPerRank) {
  const json lists{{"operation", "create_group"}, {"ranks", json::parse("[[0], [0]]")}};
  EXPECT_EQ(ask_calls(two_ranks({lists})).at("calls")[0].at("errors"), json::parse(R"([null, "invalid_argument"])"));
}

TEST(Calls, RefuseQuestionsThatReachBeyondTheMemory) {
  EXPECT_THAT(error_of_calls(two_ranks({sum_of(2, 2)})),
              HasSubstr("out_of_range: comm.calls: in has elements 2 to 3, the memory has 3"));
  json wide = sum_of(0, 1);
  wide["out"]["dtype"] = "float64";
  EXPECT_THAT(error_of_calls(two_ranks({wide})), HasSubstr("may not be wider"));
  EXPECT_THAT(error_of_calls(two_ranks({json{{"operation", "all_to_none"}}})), HasSubstr("no operation 'all_to_none'"));
  json halves = two_ranks({}, "int32");
  halves["memory"][0][0] = 0.5;
  EXPECT_THAT(error_of_calls(halves), HasSubstr("memory has 0.5; integers here are whole numbers"));
  halves["memory"].erase(1);
  EXPECT_THAT(error_of_calls(halves), HasSubstr("a list for each of the 2 ranks"));
  const json one_list{{"operation", "create_group"}, {"ranks", json::parse("[[0]]")}};
  EXPECT_THAT(error_of_calls(two_ranks({one_list})), HasSubstr("ranks must have a list"));
}

}  // namespace
}  // namespace plumbline::adapter
