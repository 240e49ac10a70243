// Rows recorded from the frameworks, legality, and that every computation is there once.
#include "reference/schedules/generate.hpp"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

std::string rows(ScheduleKind schedule_kind, int ranks, int micro_batches, int stages_per_rank) {
  return to_csv(
      generate(schedule_kind, {.ranks = ranks, .micro_batches = micro_batches, .stages_per_rank = stages_per_rank}));
}

std::string refusal_of(ScheduleKind schedule_kind, int ranks, int micro_batches, int stages_per_rank) {
  try {
    (void)rows(schedule_kind, ranks, micro_batches, stages_per_rank);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Generate, EqualsWhatPytorchRecorded) {
  EXPECT_EQ(rows(ScheduleKind::gpipe, 2, 3, 1), "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n");
  EXPECT_EQ(rows(ScheduleKind::one_f_one_b, 2, 4, 1),
            "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n");
  EXPECT_EQ(rows(ScheduleKind::interleaved, 2, 4, 2),
            "0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3\n"
            ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3\n");
  EXPECT_EQ(rows(ScheduleKind::looped_breadth_first, 2, 4, 2),
            "0F0,0F1,0F2,0F3,2F0,2F1,2F2,2F3,,,2B3,2B2,2B1,2B0,0B3,0B2,0B1,0B0\n"
            ",1F0,1F1,1F2,1F3,3F0,3F1,3F2,3F3,3B3,3B2,3B1,3B0,1B3,1B2,1B1,1B0\n");
  EXPECT_EQ(rows(ScheduleKind::interleaved_zero_bubble, 2, 2, 2),
            "0F0,0F1,2F0,,2F1,2I0,2W0,2I1,2W1,0I0,0W0,0I1,0W1\n,1F0,1F1,3F0,3I0,3F1,3I1,3W0,1I0,3W1,1I1,1W0,1W1\n");
  EXPECT_EQ(
      rows(ScheduleKind::dualpipev, 2, 4, 2),
      "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,0I2,0W2,"
      "0I3,0W3\n"
      "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,1I3,2W3,"
      "1W3\n");
}

TEST(Generate, KeepsTheCellsOfMicroBatchesThatZbvLacks) {
  const Schedule schedule = generate(ScheduleKind::zbv, {.ranks = 2, .micro_batches = 1, .stages_per_rank = 2});
  EXPECT_EQ(schedule.stage_to_rank, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(to_csv(without_idle(schedule)), "0F0,3F0,3I0,3W0,0I0,0W0\n1F0,2F0,2I0,2W0,1I0,1W0\n");
  EXPECT_GT(schedule.ranks[0].size(), 6u);
}

TEST(Generate, ZeroBubblesLagByTheRank) {
  EXPECT_EQ(rows(ScheduleKind::zb_h1, 2, 3, 1),
            "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n");
  EXPECT_EQ(rows(ScheduleKind::zb_h2, 2, 4, 1),
            "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n1F0,1I0,1F1,1I1,1F2,1I2,1W0,1F3,1I3,1W1,1W2,1W3\n");
}

TEST(Generate, VHalfGoesThereInTwoStepsAndVMinInOne) {
  EXPECT_EQ(rows(ScheduleKind::v_min, 2, 3, 2),
            "0F0,3F0,3I0,0F1,3W0,0I0,0W0,3F1,3I1,0F2,3W1,0I1,0W1,3F2,3I2,3W2,0I2,0W2\n"
            "1F0,2F0,2I0,1I0,1F1,2F1,2W0,1W0,2I1,1I1,1F2,2F2,2W1,1W1,2I2,1I2,2W2,1W2\n");
  EXPECT_EQ(rows(ScheduleKind::v_half, 2, 3, 2),
            "0F0,3F0,0F1,3I0,3W0,3F1,0F2,0I0,3I1,0W0,3W1,3F2,0I1,3I2,0W1,3W2,0I2,0W2\n"
            "1F0,2F0,1F1,2F1,2I0,1I0,2W0,1F2,1W0,2F2,2I1,1I1,2W1,1W1,2I2,1I2,2W2,1W2\n");
  EXPECT_EQ(rows(ScheduleKind::v_half, 1, 2, 2), rows(ScheduleKind::v_min, 1, 2, 2));
}

TEST(Generate, ForwardOnlyGoesInGroupsOfTheRanks) {
  EXPECT_EQ(rows(ScheduleKind::forward_only, 2, 3, 2), "0F0,0F1,2F0,2F1,0F2,2F2\n1F0,1F1,3F0,3F1,1F2,3F2\n");
}

TEST(Generate, GroupsOfMegatronAndForwardsFirstOfColossalai) {
  const Shape shape{.ranks = 4, .micro_batches = 4, .stages_per_rank = 2};
  EXPECT_EQ(to_csv(interleaved_in_groups(shape, 4).ranks[2]),
            "2F0,2F1,2F2,2F3,6F0,6F1,6F2,6B0,6F3,6B1,6B2,6B3,2B0,2B1,2B2,2B3");
  EXPECT_EQ(to_csv(interleaved_as_colossalai(shape).ranks[2]),
            "2F0,2F1,2F2,2F3,6F0,6F1,6F2,6F3,6B0,6B1,6B2,6B3,2B0,2B1,2B2,2B3");
  const Shape ten{.ranks = 4, .micro_batches = 10, .stages_per_rank = 2};
  EXPECT_THROW((void)interleaved_in_groups(ten, 3), InvalidArgument) << "fewer than the ranks";
  EXPECT_THROW((void)interleaved_in_groups(ten, 11), InvalidArgument) << "more than there are";
  EXPECT_THROW((void)interleaved_in_groups(ten, 8), InvalidArgument) << "two are left";
  EXPECT_NO_THROW((void)interleaved_in_groups(ten, 5));
  EXPECT_NO_THROW((void)interleaved_in_groups(ten, 6)) << "four are left";
  EXPECT_THROW((void)interleaved_as_colossalai(ten), InvalidArgument);
}

TEST(Generate, RefusesWithTheRule) {
  EXPECT_EQ(
      refusal_of(ScheduleKind::interleaved, 4, 9, 2),
      "interleaved: the micro-batches are a multiple of the rounds, max(1, micro-batches / ranks), but 9 micro-batches "
      "on 4 ranks make 2 rounds");
  EXPECT_EQ(refusal_of(ScheduleKind::interleaved_zero_bubble, 2, 5, 2).substr(0, 24), "interleaved-zero-bubble:");
  EXPECT_EQ(refusal_of(ScheduleKind::zbv, 4, 8, 1), "zbv: a rank has exactly 2 stages, got 1");
  EXPECT_EQ(refusal_of(ScheduleKind::v_half, 4, 8, 1), "v-half: a rank has exactly 2 stages, got 1");
  EXPECT_EQ(refusal_of(ScheduleKind::v_min, 4, 8, 4), "v-min: a rank has exactly 2 stages, got 4");
  EXPECT_EQ(refusal_of(ScheduleKind::automatic, 4, 8, 4), "auto: a rank has 1 or 2 stages, got 4");
  EXPECT_EQ(refusal_of(ScheduleKind::gpipe, 4, 8, 2), "gpipe: a rank has exactly 1 stage, got 2");
  EXPECT_EQ(refusal_of(ScheduleKind::dualpipev, 4, 7, 2),
            "dualpipev: there are at least as many micro-batches as stages, got 7 micro-batches and 8 stages");
  for (const ScheduleKind schedule_kind : schedule_kinds()) {
    EXPECT_THROW((void)generate(schedule_kind, {.ranks = 0, .micro_batches = 4, .stages_per_rank = 2}),
                 InvalidArgument);
    EXPECT_THROW((void)generate(schedule_kind, {.ranks = 2, .micro_batches = 0, .stages_per_rank = 2}),
                 InvalidArgument);
    EXPECT_THROW((void)generate(schedule_kind, {.ranks = 2, .micro_batches = 4, .stages_per_rank = 0}),
                 InvalidArgument);
    EXPECT_THROW(
        (void)generate(schedule_kind, {.ranks = 1 << 16, .micro_batches = 1 << 30, .stages_per_rank = 1 << 16}),
        InvalidArgument);
    EXPECT_EQ(schedule_kind_of(name_of(schedule_kind)), schedule_kind);
  }
  EXPECT_THROW((void)schedule_kind_of("1f2b"), NotFound);
}

TEST(Generate, OnlyPytorchRefusesFewMicroBatchesOf1F1B) {
  const Shape few{.ranks = 4, .micro_batches = 3};
  EXPECT_THROW((void)generate_as_torch(ScheduleKind::one_f_one_b, few), InvalidArgument);
  EXPECT_EQ(to_csv(generate(ScheduleKind::one_f_one_b, few).ranks[0]), "0F0,0F1,0F2,0B0,0B1,0B2");
  EXPECT_NO_THROW((void)generate_as_torch(ScheduleKind::gpipe, few));
  for (const ScheduleKind schedule_kind :
       {ScheduleKind::zb_h1, ScheduleKind::v_half, ScheduleKind::v_min, ScheduleKind::automatic})
    EXPECT_THROW((void)generate_as_torch(schedule_kind, few), Unsupported) << name_of(schedule_kind);
}

// How often each computation of a stage and micro-batch is there.
struct Counts {
  int forward = 0, backward = 0, input = 0, weight = 0;
};
std::map<std::pair<int, int>, Counts> count(const Schedule& schedule) {
  std::map<std::pair<int, int>, Counts> counts;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (const Action& action : schedule.ranks[rank]) {
      if (action.kind == ActionKind::idle) continue;
      EXPECT_EQ(schedule.stage_to_rank.at(static_cast<std::size_t>(action.stage)), static_cast<int>(rank));
      Counts& of = counts[{action.stage, action.micro_batch}];
      switch (action.kind) {
        case ActionKind::forward:
          ++of.forward;
          break;
        case ActionKind::backward:
          ++of.backward;
          break;
        case ActionKind::input_gradient:
          ++of.input;
          break;
        case ActionKind::weight_gradient:
          ++of.weight;
          break;
        default:
          ADD_FAILURE() << to_string(action) << " is no computation";
      }
    }
  return counts;
}

TEST(Generate, HasEachComputationOnceForEveryLegalShape) {
  std::map<ScheduleKind, int> legal, illegal;
  for (const ScheduleKind schedule_kind : schedule_kinds())
    for (const int p : {1, 2, 3, 4, 8})
      for (const int m : std::set<int>{1, std::max(1, p - 1), p, p + 1, 2 * p, 2 * p + 1})
        for (const int v : {1, 2, 4}) {
          SCOPED_TRACE(std::string(name_of(schedule_kind)) + " " + std::to_string(p) + " " + std::to_string(m) + " " +
                       std::to_string(v));
          Schedule schedule;
          try {
            schedule = generate(schedule_kind, {.ranks = p, .micro_batches = m, .stages_per_rank = v});
          } catch (const InvalidArgument&) {
            ++illegal[schedule_kind];
            continue;
          }
          ++legal[schedule_kind];
          ASSERT_EQ(schedule.stages, p * v);
          ASSERT_EQ(schedule.micro_batches, m);
          const auto counts = count(schedule);
          ASSERT_EQ(counts.size(), static_cast<std::size_t>(p * v * m));
          for (const auto& [which, of] : counts) {
            ASSERT_TRUE(which.first < p * v && which.second < m);
            ASSERT_EQ(of.forward, 1);
            ASSERT_EQ(of.input, of.weight);
            ASSERT_EQ(of.backward + of.input, schedule_kind == ScheduleKind::forward_only ? 0 : 1);
          }
          EXPECT_NO_THROW((void)lower(schedule)) << "the order can be kept";
        }
  // 26 pairs of ranks and micro-batches: for small p some of the six fall together.
  EXPECT_EQ(legal[ScheduleKind::gpipe], 26);
  EXPECT_EQ(legal[ScheduleKind::one_f_one_b], 26);
  EXPECT_EQ(legal[ScheduleKind::looped_breadth_first], 78);
  EXPECT_EQ(legal[ScheduleKind::forward_only], 78);
  for (const ScheduleKind schedule_kind : {ScheduleKind::zbv, ScheduleKind::v_half, ScheduleKind::v_min})
    EXPECT_EQ(legal[schedule_kind], 26);
  EXPECT_EQ(legal[ScheduleKind::automatic], 52) << "one stage and two";
  // Two rounds of 2p+1 micro-batches, for p > 1, are unequal.
  EXPECT_EQ(illegal[ScheduleKind::interleaved], 8);  // of one stage a rank, none
  EXPECT_EQ(illegal[ScheduleKind::interleaved_zero_bubble], 12);
  EXPECT_EQ(legal[ScheduleKind::dualpipev], 10) << "m = 2p and 2p+1";
}

// When all computations last one step: first start and last end of each rank.
struct Span {
  int first = 0;
  int last = 0;
};
std::vector<Span> unit_spans(const Schedule& schedule) {
  std::map<std::tuple<ActionKind, int, int>, int> end;
  std::vector<std::size_t> next(schedule.ranks.size());
  std::vector<Span> spans(schedule.ranks.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank)
      while (next[rank] < schedule.ranks[rank].size()) {
        const auto [kind, joined, stage, micro_batch] = schedule.ranks[rank][next[rank]];
        std::optional<std::tuple<ActionKind, int, int>> needs;
        if (kind == ActionKind::forward && stage > 0) needs = {kind, stage - 1, micro_batch};
        if (kind == ActionKind::input_gradient && stage + 1 < schedule.stages) needs = {kind, stage + 1, micro_batch};
        if (needs && !end.contains(*needs)) break;
        const int start = std::max(spans[rank].last, needs ? end[*needs] : 0);
        if (next[rank] == 0) spans[rank].first = start;
        spans[rank].last = end[{kind, stage, micro_batch}] = start + 1;
        ++next[rank];
        moved = true;
      }
  }
  return spans;
}

TEST(Generate, ZbH1HasAThirdOfTheBubbleAndZbH2None) {
  for (const int p : {2, 4, 8})
    for (const int m : {2 * p, 3 * p + 1}) {
      int longest = 0;
      for (const Span& span : unit_spans(generate(ScheduleKind::zb_h1, {.ranks = p, .micro_batches = m})))
        longest = std::max(longest, span.last);
      EXPECT_EQ(longest, 3 * m + p - 1) << p << " " << m;
      for (const Span& span : unit_spans(generate(ScheduleKind::zb_h2, {.ranks = p, .micro_batches = m})))
        EXPECT_EQ(span.last - span.first, 3 * m) << p << " " << m;
    }
}

}  // namespace
}  // namespace plumbline::schedules
