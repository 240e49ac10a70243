#include "reference/schedules/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/processor_seconds_test.hpp"

namespace plumbline::schedules {
namespace {

std::string csv_refusal(std::string_view text) {
  try {
    (void)parse_csv(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Schedule, ReadsAndWritesPytorchsNotation) {
  const std::string text =
      "0UNSHARD,0F0,0SEND_F0,,(0F1;0B0)OVERLAP_F_B,0I1,0W1,0REDUCE_GRAD,0RESHARD\n"
      "1RECV_META0,1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)P2P,1F1\n";
  const Schedule schedule = parse_csv(text);
  EXPECT_EQ(to_csv(schedule), text);
  EXPECT_EQ(schedule.stages, 2);
  EXPECT_EQ(schedule.micro_batches, 2);
  EXPECT_EQ(schedule.stage_to_rank, (std::vector<int>{0, 1}));
  EXPECT_EQ(schedule.ranks[0][3], Action{});
  EXPECT_EQ(schedule.ranks[0][4], (Action{.kind = ActionKind::forward, .joined = true, .stage = 0, .micro_batch = 1}));
  EXPECT_EQ(schedule.ranks[0][5],
            (Action{.kind = ActionKind::backward, .joined = false, .stage = 0, .micro_batch = 0}));
  EXPECT_EQ(schedule.ranks[0].front(), (Action{.kind = ActionKind::unshard, .stage = 0}));
}

TEST(Schedule, IgnoresBlanksAndEndsOfLine) {
  EXPECT_EQ(to_csv(parse_csv(" 0F0 ,0B0\r\n1F0, 1B0")), "0F0,0B0\n1F0,1B0\n");
  EXPECT_EQ(to_csv(parse_row("( 0F0 ; 1B0 )OVERLAP_F_B")), "(0F0;1B0)OVERLAP_F_B");
}

TEST(Schedule, CountsWhatStandsInTheCells) {
  const Schedule schedule = parse_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n\n");
  EXPECT_EQ(schedule.stage_to_rank, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(schedule.micro_batches, 1);
  EXPECT_EQ(schedule.ranks.size(), 3u) << "an empty line is a rank that does nothing";
}

TEST(Schedule, NamesLineAndColumnOfABadCell) {
  const auto begins = [](std::string_view text) { return csv_refusal(text).substr(0, csv_refusal(text).find(';')); };
  EXPECT_EQ(begins("0F0,0B0\n1F0,1X0"), "schedule: line 2, column 2: '1X0' is no cell");
  EXPECT_EQ(begins("0F0,,0F0abc"), "schedule: line 1, column 3: '0F0abc' is no cell");
  for (const char* cell : {"F0",
                           "0F",
                           "0F-1",
                           "-1F0",
                           "0UNSHARD3",
                           "99999999999F0",
                           "2147483647F0",
                           "4194304F0",
                           "0f0",
                           "0SENDF0",
                           "0",
                           ")",
                           "()P2P",
                           "(0F0)OVERLAP_F_B",
                           "(0F0",
                           "(0F0;1B0)",
                           "(0F0;1B0)P2P",
                           "(0SEND_F0;0F0)OVERLAP_F_B",
                           "(0F0;;1B0)OVERLAP_F_B",
                           "0F0 0B0",
                           "+1F0"})
    EXPECT_EQ(csv_refusal(std::string("0F0,") + cell).substr(0, 27), "schedule: line 1, column 2:") << cell;
}

TEST(Schedule, ShowsWhatIsNoTextAndCutsWhatIsLong) {
  EXPECT_THAT(csv_refusal(std::string("0F0,0\0F\x1b", 8)), testing::HasSubstr("'0\\x00F\\x1b' is no cell"));
  EXPECT_THAT(csv_refusal(std::string(5000, 'x')), testing::HasSubstr("'" + std::string(60, 'x') + "…' is no cell"));
}

TEST(Schedule, RefusesStagesWithoutOneRank) {
  EXPECT_EQ(csv_refusal("0F0,1F0\n1B0"),
            "schedule: 1B0 is on line 2, but line 1 computes stage 1 too; a stage has one rank");
  EXPECT_EQ(csv_refusal("0F0\n2F0"), "schedule: no line computes stage 1, but there is a stage 2");
  EXPECT_EQ(csv_refusal("0F0,4194303F0"), "schedule: no line computes stage 1, but there is a stage 4194303");
  EXPECT_EQ(csv_refusal("0F0\n1RECV_F0"), "schedule: no line computes stage 1, but there is a stage 1");
  EXPECT_EQ(csv_refusal(""), "schedule: no line has an action");
  EXPECT_EQ(csv_refusal(",,\n"), "schedule: no line has an action");
}

TEST(Schedule, PlacesStagesInTurnOrThereAndBack) {
  EXPECT_EQ(stage_to_rank(2, 6, Placement::loop), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(stage_to_rank(3, 9, Placement::v), (std::vector<int>{0, 1, 2, 2, 1, 0, 0, 1, 2}));
  EXPECT_EQ(stage_to_rank(4, 7, Placement::loop), (std::vector<int>{0, 1, 2, 3, 0, 1, 2}));
  EXPECT_THROW((void)stage_to_rank(2, 3, Placement::v), InvalidArgument);
  EXPECT_THROW((void)stage_to_rank(0, 4, Placement::v), InvalidArgument);
  EXPECT_THROW((void)stage_to_rank(2, 0, Placement::v), InvalidArgument);
}

TEST(Schedule, ReadsAMillionActionsInWellUnderASecond) {
  Schedule schedule{.stages = 4, .micro_batches = 125'000, .stage_to_rank = {0, 1, 2, 3}, .ranks = {}};
  for (std::int32_t stage = 0; stage < 4; ++stage) {
    std::vector<Action>& actions = schedule.ranks.emplace_back();
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward})
      for (std::int32_t i = 0; i < 125'000; ++i) actions.push_back({.kind = kind, .stage = stage, .micro_batch = i});
  }
  const std::string text = to_csv(schedule);
  const double begin = processor_seconds();
  EXPECT_EQ(parse_csv(text), schedule);
  // Ten times what it takes unoptimised, so that it fails only for another order of growth.
  EXPECT_LT(processor_seconds() - begin, 2);
}

}  // namespace
}  // namespace plumbline::schedules
