// schedules.table and schedules.warmup: names of what is read and answered, and what is rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ScheduleTable, GroupsMicroBatches) {
  EXPECT_EQ(ask("schedules.table", R"({"microbatches": 3, "stages_per_rank": 2, "microbatch_group_size": 2})"),
            json::parse(R"({"table": [[0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [2, 1]]})"));
  EXPECT_EQ(ask("schedules.table", R"({"convention": "megatron", "microbatches": 2, "stages_per_rank": 2,
                                       "microbatch_group_size": 2147483647})"),
            json::parse(R"({"table": [[0, 0], [1, 0], [0, 1], [1, 1]]})"));
  EXPECT_THAT(error_of("schedules.table", R"({"microbatches": 3, "stages_per_rank": 2, "microbatch_group_size": 0})"),
              HasSubstr("at least 1 micro-batch, got 0"));
  EXPECT_THAT(
      error_of("schedules.table", R"({"microbatches": 1024, "stages_per_rank": 1024, "microbatch_group_size": 4})"),
      HasSubstr("1024 x 1024; it must be at most 524288"));
}

TEST(Warmup, IsCountedByRank) {
  const auto counts = [](const char* args) {
    const json answer = ask("schedules.warmup", args);
    json list = json::array();
    for (const json& rank : answer.at("ranks")) list.push_back(rank.at("warmup"));
    return list;
  };
  EXPECT_EQ(ask("schedules.warmup", R"({"pp": 2, "microbatches": 1})"), json::parse(R"({"ranks": [
              {"rank": 0, "total": 1, "warmup": 1, "remaining": 0, "all_in_warmup": true},
              {"rank": 1, "total": 1, "warmup": 0, "remaining": 1, "all_in_warmup": false}]})"));
  EXPECT_EQ(counts(R"({"pp": 3, "microbatches": 9, "stages_per_rank": 2})"), json::array({7, 5, 3}));
  EXPECT_EQ(counts(R"({"pp": 3, "microbatches": 9, "stages_per_rank": 2, "microbatch_group_size": 4})"),
            json::array({8, 6, 4}));
  EXPECT_EQ(counts(R"({"pp": 3, "microbatches": 9, "stages_per_rank": 2, "forward_only": true})"),
            json::array({18, 18, 18}));
  EXPECT_EQ(counts(R"({"pp": 3, "microbatches": 9, "overlap_moe_expert_parallel_comm": true})"),
            json::array({2, 1, 0}));
  EXPECT_EQ(counts(R"({"pp": 1, "microbatches": 9, "stages_per_rank": 2})"), json::array({0}));
  EXPECT_THAT(error_of("schedules.warmup", R"({"pp": 2, "microbatches": 2, "microbatch_group_size": 0})"),
              HasSubstr("at least 1 micro-batch, got 0"));
  EXPECT_THAT(error_of("schedules.warmup", R"({"pp": 0, "microbatches": 2})"), HasSubstr("pp must be from 1"));
  EXPECT_THAT(error_of("schedules.warmup", R"({"pp": 2, "microbatches": 2147483647, "stages_per_rank": 2147483647})"),
              HasSubstr("2147483647"));
}

}  // namespace
}  // namespace plumbline::adapter
