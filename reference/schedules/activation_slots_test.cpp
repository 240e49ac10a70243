// Slots are as many as the peak, no two activations share one while they live, and none is missing.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/schedule_samples_test.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules {
namespace {

using samples::from_rows;
using samples::RandomRun;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ActivationSlots, TheLowestFreeSlotIsTaken) {
  const ActivationSlots slots = activation_slots(from_rows({"0F0,0F1,0B0,0F2,,0I1,0F3,0W1,0B2,0F4,0B3,0B4"}, 5));
  EXPECT_THAT(slots.slots[0], ElementsAre(0, 1, 0, 0, kNoSlot, 1, 2, 1, 0, 0, 2, 0));
  EXPECT_THAT(slots.counts, ElementsAre(3));
}

TEST(ActivationSlots, OfTwoAtOnceTheForwardComesFirst) {
  const ActivationSlots slots = activation_slots(from_rows({"0F0,(0B0;0F1)OVERLAP_F_B,0B1"}, 2));
  EXPECT_THAT(slots.slots[0], ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(slots.counts, ElementsAre(2));
}

TEST(ActivationSlots, AreKeptWhileAForwardRunsWhereNothingGoesBack) {
  const Schedule schedule =
      generate(ScheduleKind::forward_only, {.ranks = 2, .micro_batches = 3, .stages_per_rank = 2});
  EXPECT_THAT(activation_slots(schedule, true).counts, ElementsAre(1, 1));
  EXPECT_THAT(activation_slots(schedule).counts, ElementsAre(6, 6));
}

std::string refusal(const char* row) {
  try {
    (void)activation_slots(from_rows({row}, 2));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}
TEST(ActivationSlots, RefuseWhatIsNotThere) {
  EXPECT_THAT(refusal("0F0,0B1"), HasSubstr("rank 0, position 1 (0B1), but its activation is not there"));
  EXPECT_THAT(refusal("0F0,0I0,0W0,0W0"), HasSubstr("position 3 (0W0), but its activation is not there"));
  EXPECT_THAT(refusal("0F0,0F0"), HasSubstr("position 1 (0F0), but its activation is already there"));
}

// In any valid order: each slot has one activation at a time, from its forward to its last use.
void expect_slots(const Schedule& schedule) {
  const ActivationSlots slots = activation_slots(schedule);
  EXPECT_EQ(slots.counts, check(schedule).peak_activations);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::map<int, std::pair<int, int>> held;  // by slot
    ASSERT_EQ(slots.slots[rank].size(), schedule.ranks[rank].size());
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const Action& action = schedule.ranks[rank][i];
      const int slot = slots.slots[rank][i];
      if (!is_compute(action.kind)) {
        ASSERT_EQ(slot, kNoSlot);
        continue;
      }
      ASSERT_TRUE(slot >= 0 && slot < slots.counts[rank]);
      const std::pair<int, int> which{action.stage, action.micro_batch};
      if (action.kind == ActionKind::forward) {
        ASSERT_FALSE(held.contains(slot)) << to_string(action);
        held[slot] = which;
      }
      ASSERT_EQ(held.at(slot), which) << to_string(action);
      if (action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient) held.erase(slot);
    }
    EXPECT_TRUE(held.empty());
  }
}

TEST(ActivationSlots, AreThePeakOfAnyOrder) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    expect_slots(RandomRun(1 + static_cast<int>(seed % 4), 1 + static_cast<int>(seed % 6),
                           1 + static_cast<int>(seed % 5), seed % 2 == 0, seed)
                     .write());
  }
}

TEST(ActivationSlots, OfTheSchedulesThereAre) {
  for (const ScheduleKind schedule_kind : schedule_kinds()) {
    if (schedule_kind == ScheduleKind::forward_only || schedule_kind == ScheduleKind::dualpipev)
      continue;  // joined: counted above
    for (const int chunks : {1, 2}) {
      Schedule schedule;
      try {
        schedule = generate(schedule_kind, {.ranks = 4, .micro_batches = 8, .stages_per_rank = chunks});
      } catch (const InvalidArgument&) {
        continue;
      }
      SCOPED_TRACE(name_of(schedule_kind));
      expect_slots(schedule);
    }
  }
  const Schedule dual = generate(ScheduleKind::dualpipev, {.ranks = 4, .micro_batches = 8, .stages_per_rank = 2});
  EXPECT_EQ(activation_slots(dual).counts, check(dual).peak_activations);
}

}  // namespace
}  // namespace plumbline::schedules
