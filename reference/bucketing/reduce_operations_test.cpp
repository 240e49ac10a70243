// bucketing.reduce: what is read, what is answered, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Two ranks with two gradients of 1 and 3 times their index and one, in one step.
json reduce_question(const char* changes) {
  json args = json::parse(R"({"world_size": 2, "numel": [1, 2], "buckets": [[1], [0]]})");
  for (const double value : {1.0, 3.0})
    args["steps"][0].push_back(
        {{"passes",
          {{{{"gradient", 1}, {"values", {2 * value, 4 * value}}}, {{"gradient", 0}, {"values", {value}}}}}}});
  args.update(json::parse(changes));
  return args;
}
json reduced(const char* changes) { return ask("bucketing.reduce", reduce_question(changes).dump().c_str())["steps"]; }
std::string reduce_refusal(const char* changes) {
  return error_of("bucketing.reduce", reduce_question(changes).dump().c_str());
}

TEST(BucketingReduce, AveragesAndSaysWhatItStarts) {
  const json steps = reduced("{}");
  for (const json& rank : steps[0]) {
    EXPECT_EQ(rank["grads"], json::parse("[[2.0], [4.0, 8.0]]"));
    EXPECT_EQ(rank["launches"], json::parse(R"([[{"gradients": [1], "elements": 2, "ready_before": 1},
                                                 {"gradients": [0], "elements": 1, "ready_before": 2}]])"));
  }
  EXPECT_EQ(reduced(R"({"average": false})")[0][0]["grads"], json::parse("[[4.0], [8.0, 16.0]]"));
  EXPECT_EQ(reduced(R"({"divisor": 4})")[0][0]["grads"], json::parse("[[1.0], [2.0, 4.0]]"));
}

TEST(BucketingReduce, LeavesEachRankItsPart) {
  const json steps = reduced(R"({"sharded": true})");
  EXPECT_EQ(steps[0][0]["shards"], json::parse("[[4.0], [2.0]]"));
  EXPECT_EQ(steps[0][1]["shards"], json::parse("[[8.0], [0.0]]"));
}

TEST(BucketingReduce, EndsARankWithItsError) {
  const json steps = reduced(R"({"largest": 5})");
  EXPECT_EQ(steps[0][1]["error"]["kind"], "invalid_argument");
  const json late = reduced(R"({"steps": [[{"passes": [[]]}, {"passes": [[]]}]]})");
  EXPECT_EQ(late[0][0]["error"]["kind"], "state");
}

TEST(BucketingReduce, NamesWhatIsWrong) {
  EXPECT_THAT(reduce_refusal(R"({"buckets": [[0], [2]]})"), HasSubstr("gradient 2"));
  EXPECT_THAT(reduce_refusal(R"({"buckets": [[0, 0], [1]]})"), HasSubstr("gradient 0"));
  EXPECT_THAT(reduce_refusal(R"({"divide_before": 3})"), HasSubstr("divide_before is 3"));
  EXPECT_THAT(reduce_refusal(R"({"steps": [[{}]]})"), HasSubstr("steps[0] has 1 entries for 2 ranks"));
  EXPECT_THAT(reduce_refusal(R"({"initial": [[1]]})"), HasSubstr("initial has 1 entries for 2 ranks"));
  EXPECT_THAT(reduce_refusal(R"({"compression": {"kind": "zip"}})"), HasSubstr("kind"));
  EXPECT_THAT(reduce_refusal(R"({"compression": {"kind": "bytes", "chanel": 1}})"), HasSubstr("chanel"));
  EXPECT_THAT(reduce_refusal(R"({"world_size": 17})"), HasSubstr("17"));
  EXPECT_THAT(reduce_refusal(R"({"exchange": "max"})"), HasSubstr("exchange"));
  EXPECT_THAT(reduce_refusal(R"({"exchange": "sum", "compression": {"kind": "bytes"}})"), HasSubstr("compression"));
  EXPECT_THAT(reduce_refusal(R"({"positions": [0]})"), HasSubstr("positions has 1 entries for 2 gradients"));
  EXPECT_THAT(reduce_refusal(R"({"positions": [0, -1]})"), HasSubstr("positions has -1"));
  EXPECT_THAT(reduce_refusal(R"({"sparse": [2]})"), HasSubstr("sparse has gradient 2; there are 2"));
  EXPECT_THAT(reduce_refusal(R"({"sharded": true, "ranks_per_instance": 3})"), HasSubstr("ranks_per_instance is 3"));
  EXPECT_THAT(reduce_refusal(R"({"plans": [{"numel": [1], "buckets": []}]})"), HasSubstr("plans has 1 entries"));
  EXPECT_THAT(reduce_refusal(R"({"initial": [[1], [1, 2]]})"), HasSubstr("initial has 1 elements of one rank and 2"));
}

TEST(BucketingReduce, ExchangesInPlaceOfReducing) {
  const json first = reduced(R"({"exchange": "first_rank", "callbacks": true})")[0];
  for (const json& rank : first) {
    EXPECT_EQ(rank["grads"], json::parse("[[1.0], [2.0, 4.0]]"));
    EXPECT_EQ(rank["finished"], json::parse("[[1], [0]]"));
    EXPECT_EQ(rank["callbacks"], json::parse(R"([{"gradients": [1], "values": [[2.0, 4.0]]},
                                                 {"gradients": [0], "values": [[1.0]]}])"));
  }
  EXPECT_EQ(first[1]["exchanges"], json::parse(R"([{"gradients": [1], "values": [[6.0, 12.0]]},
                                                   {"gradients": [0], "values": [[3.0]]}])"));
  EXPECT_EQ(reduced(R"({"exchange": "sum_twice"})")[0][0]["grads"], json::parse("[[8.0], [16.0, 32.0]]"));
}

TEST(BucketingReduce, SaysWhatItBeginsAndCopies) {
  const json row = reduced(R"({"collectives": true, "overlap": false, "positions": [0, 1]})")[0][1];
  EXPECT_EQ(row["copied"], json::parse("[0]"));
  const json& calls = row["collectives"][0];
  EXPECT_EQ(calls.back()["operation"], "all_reduce");
  EXPECT_EQ(calls.back()["ranks"], 2);
  EXPECT_EQ(calls.back()["bytes"], 4);
  EXPECT_EQ(calls.back()["completed"], calls.size() - 1);
}

TEST(BucketingReduce, ReducesRows) {
  json args = json::parse(R"({"world_size": 2, "numel": [6], "buckets": [[0]], "sparse": [0], "average": false})");
  for (const int row : {2, 0})
    args["steps"][0].push_back({{"passes", {{{{"gradient", 0}, {"rows", {row, 1}}, {"values", {1, 2, 3, 4}}}}}}});
  EXPECT_EQ(ask("bucketing.reduce", args.dump().c_str())["steps"][0][1]["grads"],
            json::parse(R"([{"rows": [0, 1, 2], "values": [1.0, 2.0, 6.0, 8.0, 1.0, 2.0]}])"));
}

TEST(BucketingReduce, GoesOnAfterARejectedCall) {
  json args = reduce_question(R"({"after_rejections": true})");
  for (json& rank : args["steps"][0]) rank["passes"][0].push_back({{"gradient", 0}, {"values", {100}}});
  const json row = ask("bucketing.reduce", args.dump().c_str())["steps"][0][0];
  EXPECT_EQ(row["rejected"][0][2]["kind"], "state");
  EXPECT_EQ(row["rejected"][0][0], nullptr);
  EXPECT_EQ(row["grads"], json::parse("[[2.0], [4.0, 8.0]]"));
}

TEST(BucketingReduce, TakesAPlanOfEachRank) {
  const json plans = {
      {"plans", {{{"numel", {1, 2}}, {"buckets", {{1}, {0}}}}, {{"numel", {1, 2}}, {"buckets", {{1, 0}}}}}}};
  EXPECT_TRUE(reduced(plans.dump().c_str())[0][0].contains("error"));
}

// A rank that has no gradients at all, and one that has fewer than positions.
TEST(BucketingReduce, HasRanksWithoutGradients) {
  const json none = ask("bucketing.reduce", R"({"world_size": 1, "numel": [], "buckets": [], "after_rejections": true,
      "steps": [[{"passes": [[{"gradient": 0, "values": [1]}]]}]]})")["steps"][0][0];
  EXPECT_EQ(none["rejected"][0][0]["kind"], "out_of_range");
  EXPECT_EQ(none["grads"], json::array());
  EXPECT_THAT(reduce_refusal(R"({"positions": [0, 4], "plans": [{"numel": [], "buckets": []},
                                                               {"numel": [1, 2], "buckets": [[1], [0]]}]})"),
              HasSubstr("positions has 2 entries for 0 gradients"));
}

// Elements that nobody has sent are made, too.
TEST(BucketingReduce, RefusesWhatIsTooLarge) {
  EXPECT_THAT(reduce_refusal(R"({"wire": "bf16", "wire_buffers": 2147483647})"),
              HasSubstr("wire_buffers is 2147483647"));
  EXPECT_THAT(reduce_refusal(json{{"numel", std::vector<int>(262145)}, {"steps", json::array()}}.dump().c_str()),
              HasSubstr("524288"))
      << "empty gradients take memory, too";
  EXPECT_THAT(reduce_refusal(R"({"numel": [-1, 2]})"), HasSubstr("numel has -1"));
  EXPECT_THAT(reduce_refusal(R"({"numel": [4611686018427387904, 4611686018427387904]})"), HasSubstr("numel"));
  EXPECT_THAT(reduce_refusal(R"({"numel": [9223372036854775807, 1], "steps": []})"), HasSubstr("524288"));
  EXPECT_THAT(reduce_refusal(R"({"numel": [262144, 1], "steps": []})"), HasSubstr("for 2 ranks times steps"));
  EXPECT_EQ(reduced(R"({"numel": [262143, 1], "steps": []})"), json::array());
}

// The last one's would be written after the end of the first one's.
TEST(BucketingReduce, RefusesBuffersOfAnotherLength) {
  const auto refusal = [&](const std::string& first, const std::string& second) {
    json args = json::parse(R"({"world_size": 1, "numel": [1], "buckets": [[0]], "steps": []})");
    for (const std::string& buffers : {first, second})
      args["steps"].push_back(
          {{{"passes", {{{{"gradient", 0}, {"values", {1}}}}}}, {"buffers", json::parse(buffers)}}});
    return error_of("bucketing.reduce", args.dump().c_str());
  };
  EXPECT_THAT(refusal("[[1]]", "[[1, 2, 3]]"), HasSubstr("steps[1] has buffers of 3 elements, others have 1"));
  EXPECT_THAT(refusal("[[1, 2, 3]]", "[[1]]"), HasSubstr("steps[1] has buffers of 1 elements"));
  EXPECT_THAT(refusal("null", "[[1, 2, 3]]"), HasSubstr("steps[1] has buffers of 3 elements, others have 0"));
  EXPECT_THAT(refusal("[[1]]", "null"), HasSubstr("steps[1] has buffers of 0 elements"));
}

}  // namespace
}  // namespace plumbline::adapter
