#include "reference/schedules/checker.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/processor_seconds_test.hpp"
#include "reference/schedules/schedule_samples_test.hpp"

namespace plumbline::schedules {
namespace {

using samples::from_rows;
using samples::RandomRun;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Kind and place of each problem: "dependency 0@1".
std::vector<std::string> problems_of(const CheckReport& report) {
  std::vector<std::string> texts;
  for (const Problem& problem : report.problems)
    texts.push_back(std::string(name_of(problem.kind)) + " " + std::to_string(problem.place.rank) + "@" +
                    (problem.place.position == kNoPosition ? "-" : std::to_string(problem.place.position)) + " " +
                    to_string(problem.place.action));
  return texts;
}
std::vector<std::string> problems_of(const Schedule& schedule, const CheckOptions& options = {}) {
  return problems_of(check(schedule, options));
}

const std::string kFirst = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1";
const std::string kSecond = "1RECV_F0,1F0,1B0,1RECV_F1,1SEND_B0,1F1,1B1,1SEND_B1";

TEST(Checker, PassesWhatIsRight) {
  for (const Schedule& schedule :
       {from_rows({"0F0,0B0"}, 1), from_rows({"0F0,,0I0,0W0"}, 1),
        from_rows({kFirst, "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1"}, 2),
        from_rows({"0F1,0SEND_F1,0F0,0SEND_F0,0RECV_B0,0I0,0RECV_B1,0B1,0W0",
                   "1RECV_F1,1F1,1RECV_F0,1F0,1I0,1SEND_B0,1W0,1B1,1SEND_B1"},
                  2),
        from_rows(
            {"0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD", "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD"}, 1),
        from_rows({"0F0,0SEND_META0,0SEND_F0,0RECV_B0,0B0", "1RECV_META0,1RECV_F0,1F0,1B0,1SEND_B0"}, 1),
        // There and back: stages 1 and 2 hand over on their rank.
        from_rows({"0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0",
                   "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0"},
                  1, {0, 1, 1, 0})}) {
    const CheckReport report = check(schedule);
    EXPECT_THAT(problems_of(report), IsEmpty()) << to_csv(schedule);
    EXPECT_TRUE(report.valid() && report.deadlock_free_rendezvous && report.deadlock_free_buffered);
  }
}

TEST(Checker, WantsEachComputationOnce) {
  EXPECT_THAT(problems_of(from_rows({"0F0,0F0,0B0"}, 1)), ElementsAre("doubled 0@1 0F0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0B0,0B0"}, 1)), ElementsAre("doubled 0@2 0B0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0I0,0W0,0W0"}, 1)), ElementsAre("doubled 0@3 0W0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0B0,0I0"}, 1)), ElementsAre("doubled 0@2 0I0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0B0,0W0"}, 1)), ElementsAre("doubled 0@2 0W0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0B0"}, 2)), ElementsAre("missing 0@- 0F1", "missing 0@- 0B1"));
  EXPECT_THAT(problems_of(from_rows({"0F0"}, 1)), ElementsAre("missing 0@- 0B0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0I0"}, 1)), ElementsAre("missing 0@- 0W0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0W0"}, 1)), ElementsAre("missing 0@- 0I0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD"}, 1)),
              ElementsAre("doubled 0@3 0REDUCE_GRAD"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1)),
              ElementsAre("missing 1@- 1REDUCE_GRAD"));
}

TEST(Checker, ForwardOnlyNeedsNoBackward) {
  const Schedule schedule = from_rows({"0F0,0SEND_F0", "1RECV_F0,1F0"}, 1);
  EXPECT_THAT(problems_of(schedule, {.forward_only = true}), IsEmpty());
  EXPECT_THAT(problems_of(schedule), ElementsAre("missing 0@- 0B0", "missing 1@- 1B0"));
  EXPECT_THAT(check(from_rows({"0F0,0F1"}, 2), {.forward_only = true}).peak_activations, ElementsAre(1));
}

TEST(Checker, KnowsStagesMicroBatchesAndRanks) {
  EXPECT_THAT(problems_of(from_rows({"0F0,0B0,0F1,1B0"}, 1)), ElementsAre("range 0@2 0F1", "range 0@3 1B0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0SEND_F0,0RECV_B0,0B0,1F0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1)),
              ElementsAre("wrong_rank 0@4 1F0"));
}

TEST(Checker, KeepsTheOrderOfARank) {
  EXPECT_THAT(problems_of(from_rows({"0B0,0F0"}, 1)), ElementsAre("dependency 0@0 0B0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0W0,0I0"}, 1)), ElementsAre("dependency 0@1 0W0"));
  EXPECT_THAT(problems_of(from_rows({"1F0,0F0,1B0,0B0"}, 1, {0, 0})), ElementsAre("dependency 0@0 1F0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,1F0,0B0,1B0"}, 1, {0, 0})), ElementsAre("dependency 0@2 0B0"));
  EXPECT_THAT(problems_of(from_rows({"(0F0;0B0)OVERLAP_F_B"}, 1)), ElementsAre("dependency 0@1 0B0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,(0B0;0F1)OVERLAP_F_B,0B1"}, 2)), IsEmpty());
  EXPECT_THAT(problems_of(from_rows({"0SEND_F0,0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1)),
              ElementsAre("dependency 0@0 0SEND_F0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0SEND_F0,0B0,0RECV_B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1)),
              ElementsAre("dependency 0@2 0B0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1RECV_F0,1B0,1SEND_B0"}, 1)),
              ElementsAre("dependency 1@0 1F0"));
  EXPECT_THAT(
      problems_of(from_rows({"0F0,0SEND_F0,0SEND_META0,0RECV_B0,0B0", "1RECV_F0,1RECV_META0,1F0,1B0,1SEND_B0"}, 1)),
      ElementsAre("dependency 0@1 0SEND_F0", "dependency 1@0 1RECV_F0"));
}

TEST(Checker, AllowsNothingAfterTheOptimizer) {
  EXPECT_THAT(problems_of(from_rows({"0F0,0I0,0REDUCE_GRAD,0W0"}, 1)), ElementsAre("after_reduction 0@3 0W0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0I0,0W0,0REDUCE_GRAD"}, 1)), IsEmpty());
  EXPECT_THAT(problems_of(from_rows({"0UNSHARD,0F0,0RESHARD,0B0"}, 1)), ElementsAre("resharded 0@3 0B0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0UNSHARD,0B0"}, 1)), ElementsAre("resharded 0@0 0F0"));
  EXPECT_THAT(problems_of(from_rows({"0UNSHARD,0F0,0RESHARD,0UNSHARD,0B0"}, 1)), IsEmpty());
}

TEST(Checker, WantsBothSidesOfEachMessage) {
  EXPECT_THAT(problems_of(from_rows({"0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1)),
              ElementsAre("missing_send 0@- 0SEND_F0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1B0,1SEND_B0"}, 1)),
              ElementsAre("missing_receive 1@- 1RECV_F0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0"}, 1)),
              ElementsAre("missing_send 1@- 1SEND_B0", "missing_receive 0@- 0RECV_B0"));
  EXPECT_THAT(problems_of(from_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0,1SEND_F0"}, 1)),
              ElementsAre("no_neighbour 1@4 1SEND_F0"));
  EXPECT_THAT(problems_of(from_rows({"0RECV_F0,0F0,0B0"}, 1)), ElementsAre("no_neighbour 0@0 0RECV_F0"));
  const CheckReport buffered = check(from_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1B0,1SEND_B0"}, 1));
  EXPECT_TRUE(buffered.deadlock_free_buffered);
  EXPECT_FALSE(buffered.deadlock_free_rendezvous);
}

TEST(Checker, FindsADoubledMessageAndMeetsSeveralInOrder) {
  const CheckReport once = check(from_rows({"0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1));
  EXPECT_THAT(problems_of(once), ElementsAre("doubled 0@2 0SEND_F0"));
  EXPECT_TRUE(once.deadlock_free_buffered);
  EXPECT_FALSE(once.deadlock_free_rendezvous);
  const CheckReport twice =
      check(from_rows({"0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1RECV_F0,1SEND_B0"}, 1));
  EXPECT_THAT(problems_of(twice), ElementsAre("doubled 0@2 0SEND_F0", "doubled 1@3 1RECV_F0"));
  EXPECT_TRUE(twice.deadlock_free_rendezvous);
}

TEST(Checker, FindsADeadlockOfSendsThatWait) {
  const Schedule schedule = from_rows({kFirst, kSecond}, 2);
  EXPECT_THAT(problems_of(schedule), IsEmpty());
  // Each of two ranks sends before it receives.
  const CheckReport report = check(from_rows(
      {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1", "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"},
      2));
  EXPECT_THAT(problems_of(report), ElementsAre("deadlock 0@3 0SEND_F1"));
  EXPECT_TRUE(report.deadlock_free_buffered);
  EXPECT_FALSE(report.deadlock_free_rendezvous || report.valid());
  EXPECT_THAT(report.problems[0].message,
              AllOf(HasSubstr("unless sends are buffered: 0SEND_F1 at position 3 of rank 0 waits for 1RECV_F1 at "
                              "position 4 of rank 1, 1SEND_B0 at position 3 of rank 1 waits for 0RECV_B0")));
  ASSERT_EQ(report.problems[0].cycle.size(), 2U);
  EXPECT_EQ(report.problems[0].cycle[1].position, 3);
  // Posted together they pass each other.
  EXPECT_THAT(problems_of(from_rows({"0F0,0SEND_F0,0F1,(0SEND_F1;0RECV_B0)P2P,0B0,0RECV_B1,0B1",
                                     "1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)P2P,1F1,1B1,1SEND_B1"},
                                    2)),
              IsEmpty());
}

TEST(Checker, FindsADeadlockThatBuffersDoNotSave) {
  const CheckReport report = check(from_rows({"0RECV_B0,0F0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1));
  EXPECT_THAT(problems_of(report), ElementsAre("deadlock 0@0 0RECV_B0"));
  EXPECT_FALSE(report.deadlock_free_buffered);
  EXPECT_THAT(report.problems[0].message, HasSubstr("even when sends are buffered"));
}

TEST(Checker, FindsACycleOfThreeRanks) {
  // Stages in turn on three ranks, each of which sends before it receives, round the ring.
  const CheckReport report =
      check(from_rows({"0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,3RECV_F0,3F0,3RECV_F1,3F1,3RECV_F2,3F2",
                       "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RECV_F2,1F2,1SEND_F2",
                       "2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,2RECV_F2,2F2,2SEND_F2"},
                      3, {0, 1, 2, 0}),
            {.forward_only = true});
  ASSERT_THAT(problems_of(report), ElementsAre("deadlock 0@5 0SEND_F2"));
  EXPECT_THAT(report.problems[0].cycle,
              ElementsAre(Place{0, 5, parse_row("0SEND_F2")[0]}, Place{1, 5, parse_row("1SEND_F1")[0]},
                          Place{2, 2, parse_row("2SEND_F0")[0]}));
  EXPECT_THAT(to_string(report.problems[0]),
              HasSubstr("error deadlock: rank 0, position 5, 0SEND_F2: the ranks wait for each other"));
}

TEST(Checker, FindsACycleBetweenComputations) {
  const CheckReport report = check(from_rows({"0F0,0B0,0F1,0B1", "1F0,1F1,1B1,1B0"}, 2));
  EXPECT_THAT(problems_of(report), ElementsAre("cycle 0@1 0B0"));
  EXPECT_THAT(report.problems[0].message, HasSubstr("1F1 at position 1 of rank 1 waits for 0F1 at position 2"));
  EXPECT_FALSE(report.deadlock_free_buffered || report.deadlock_free_rendezvous);
}

TEST(Checker, FindsWhatFifoMatchingWouldMisdeliver) {
  const std::vector<std::string> rows{"0F0,0F1,(0SEND_F0;0SEND_F1)P2P,0RECV_B0,0B0,0RECV_B1,0B1",
                                      "(1RECV_F1;1RECV_F0)P2P,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1"};
  const CheckReport by_name = check(from_rows(rows, 2));
  EXPECT_TRUE(by_name.valid());
  EXPECT_THAT(problems_of(by_name), ElementsAre("fifo_order 1@0 1RECV_F1"));
  EXPECT_EQ(by_name.problems[0].severity, ProblemSeverity::warning);
  EXPECT_FALSE(check(from_rows(rows, 2), {.matching = Matching::fifo}).valid());
  const std::vector<std::string> in_order{rows[0], "(1RECV_F0;1RECV_F1)P2P,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1"};
  EXPECT_THAT(problems_of(from_rows(in_order, 2), {.matching = Matching::fifo}), IsEmpty());
}

TEST(Checker, CountsActivationsUntilTheirLastUse) {
  EXPECT_THAT(check(from_rows({"0F0,0F1,0B0,0F2,0B1,0B2"}, 3)).peak_activations, ElementsAre(2));
  EXPECT_THAT(check(from_rows({"0F0,0F1,0I0,0F2,0W0,0B1,0B2"}, 3)).peak_activations, ElementsAre(3));
  EXPECT_THAT(check(from_rows({"0F0,0F1,(0B0;0F2)OVERLAP_F_B,0B1,0B2"}, 3)).peak_activations, ElementsAre(3));
  const Schedule schedule = from_rows({"0F0,0F1,0B0,0B1"}, 2);
  EXPECT_THAT(problems_of(schedule, {.activation_limits = {1}}), ElementsAre("activations 0@1 0F1"));
  EXPECT_THAT(problems_of(schedule, {.activation_limits = {2}}), IsEmpty());
}

TEST(Checker, CountsProblemsBeyondTheFirstOfAKind) {
  const CheckReport report = check(from_rows({"0F0"}, 100), {.most_of_a_kind = 3});
  EXPECT_EQ(report.problems.size(), 3U);
  EXPECT_EQ(report.omitted, 196U);
  EXPECT_EQ(report.errors, 199U);
  EXPECT_EQ(report.warnings, 0U);
  EXPECT_FALSE(report.valid());
  // Messages that cross, so that first-in-first-out would deliver others: a warning, beside the ranks' deadlock.
  const auto crossed = [](std::size_t most) {
    return check(from_rows({"0F0,0F1,0SEND_F0,0SEND_F1", "1RECV_F1,1RECV_F0,1F0,1F1"}, 2),
                 {.forward_only = true, .most_of_a_kind = most});
  };
  EXPECT_EQ(crossed(20).warnings, 1U);
  EXPECT_EQ(crossed(20).errors, crossed(20).problems.size() - 1);
  EXPECT_THAT(crossed(0).problems, IsEmpty());
  EXPECT_EQ(crossed(0).warnings, 1U);
  EXPECT_EQ(crossed(0).errors, crossed(20).errors);
  EXPECT_FALSE(crossed(0).valid());
}

TEST(Checker, RefusesWhatIsNoSchedule) {
  const auto refusal = [](const Schedule& schedule, const CheckOptions& options = {}) -> std::string {
    try {
      (void)check(schedule, options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({.stages = 1, .micro_batches = 0, .stage_to_rank = {0}, .ranks = {{}}}), HasSubstr("1 and 0"));
  EXPECT_THAT(refusal({.stages = 2, .micro_batches = 1, .stage_to_rank = {0}, .ranks = {{}}}),
              HasSubstr("1 entries for 2"));
  EXPECT_THAT(refusal({.stages = 1, .micro_batches = 1, .stage_to_rank = {3}, .ranks = {{}}}), HasSubstr("rank 3"));
  EXPECT_THAT(refusal({.stages = 1 << 20, .micro_batches = 1 << 20, .stage_to_rank = {}, .ranks = {{}}}),
              HasSubstr("1048576 stages x 1048576"));
  EXPECT_THAT(refusal(from_rows({"0F0,0B0"}, 1), {.activation_limits = {1, 2}}), HasSubstr("2 entries for 1"));
}

// Runs a schedule as a machine would, on values with names, which messages move, or, without messages, are at once
// where they are needed: a second opinion that shares nothing with the
// checker.
class Machine {
 public:
  explicit Machine(const Schedule& schedule, bool messages = true)
      : schedule_(schedule), messages_(messages), held_(schedule.ranks.size()) {}

  // Whether every rank comes to its end, under rendezvous, with each computation and message made exactly once.
  bool runs() {
    std::vector<std::size_t> at(schedule_.ranks.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < at.size(); ++rank)
        while (at[rank] < schedule_.ranks[rank].size() && step(rank, at)) moved = true;
    }
    for (std::size_t rank = 0; rank < at.size(); ++rank)
      if (at[rank] < schedule_.ranks[rank].size()) return false;
    for (int stage = 0; stage < schedule_.stages; ++stage)
      for (int micro_batch = 0; micro_batch < schedule_.micro_batches; ++micro_batch)
        if (trained_[{stage, micro_batch}] != 1) return false;
    return true;
  }

 private:
  using Value = std::string;
  bool take(std::size_t rank, const Value& value) { return held_[rank].erase(value) == 1; }
  bool give(std::size_t rank, const Value& value) { return held_[rank].insert(value).second; }
  // Where a result goes that the computation of `stage` needs.
  [[nodiscard]] std::size_t where(std::size_t rank, int stage) const {
    return messages_ ? rank : static_cast<std::size_t>(schedule_.stage_to_rank[static_cast<std::size_t>(stage)]);
  }
  static Value value(const char* what, int stage, int micro_batch) {
    return what + std::to_string(stage) + "." + std::to_string(micro_batch);
  }

  // One action; false when it cannot be made now.
  bool step(std::size_t rank, std::vector<std::size_t>& at) {
    const auto& [kind, joined, stage, micro_batch] = schedule_.ranks[rank][at[rank]];
    const bool last = stage == schedule_.stages - 1;
    switch (kind) {
      case ActionKind::forward:
        if (schedule_.stage_to_rank[static_cast<std::size_t>(stage)] != static_cast<int>(rank)) return false;
        if (stage == 0 ? !fed_.insert(micro_batch).second : !take(rank, value("input", stage, micro_batch)))
          return false;
        if (!last) give(where(rank, stage + 1), value("input", stage + 1, micro_batch));
        if (last) give(rank, value("gradient", stage, micro_batch));
        give(rank, value("activations", stage, micro_batch));
        break;
      case ActionKind::backward:
      case ActionKind::input_gradient:
        if (!held_[rank].contains(value("activations", stage, micro_batch))) return false;
        if (!take(rank, value("gradient", stage, micro_batch))) return false;
        if (stage > 0) give(where(rank, stage - 1), value("gradient", stage - 1, micro_batch));
        if (kind == ActionKind::backward) {
          take(rank, value("activations", stage, micro_batch));
          ++trained_[{stage, micro_batch}];
        } else {
          give(rank, value("halfway", stage, micro_batch));
        }
        break;
      case ActionKind::weight_gradient:
        if (!take(rank, value("halfway", stage, micro_batch))) return false;
        take(rank, value("activations", stage, micro_batch));
        ++trained_[{stage, micro_batch}];
        break;
      default:
        return exchange(rank, at);
    }
    ++at[rank];
    return true;
  }
  // Both sides of a message at the head of their ranks.
  bool exchange(std::size_t rank, std::vector<std::size_t>& at) {
    const auto& [kind, joined, stage, micro_batch] = schedule_.ranks[rank][at[rank]];
    if (!is_send(kind)) return false;
    const bool up = kind == ActionKind::send_forward;
    const Value moved = up ? value("input", stage + 1, micro_batch) : value("gradient", stage - 1, micro_batch);
    if (!held_[rank].contains(moved)) return false;
    for (std::size_t other = 0; other < at.size(); ++other) {
      if (other == rank || at[other] == schedule_.ranks[other].size()) continue;
      const Action& head = schedule_.ranks[other][at[other]];
      const bool meets = head.kind == (up ? ActionKind::recv_forward : ActionKind::recv_backward) &&
                         head.stage == stage + (up ? 1 : -1) && head.micro_batch == micro_batch;
      if (!meets || schedule_.stage_to_rank[static_cast<std::size_t>(head.stage)] != static_cast<int>(other)) continue;
      take(rank, moved);
      give(other, moved);
      ++at[rank];
      ++at[other];
      return true;
    }
    return false;
  }

  const Schedule& schedule_;
  bool messages_;
  std::vector<std::set<Value>> held_;
  std::set<int> fed_;
  std::map<std::pair<int, int>, int> trained_;
};

TEST(Checker, PassesRandomSchedulesOfAnyOrder) {
  for (std::uint64_t seed = 0; seed < 800; ++seed) {
    const bool messages = seed % 2 == 0;
    const Schedule schedule = RandomRun(1 + seed % 4, 1 + seed % 7, 1 + seed % 5, messages, seed).write();
    const CheckReport report = check(schedule);
    ASSERT_TRUE(report.valid() && report.deadlock_free_rendezvous) << to_csv(schedule);
    if (messages) {
      ASSERT_THAT(problems_of(report), IsEmpty()) << to_csv(schedule);
    }
    ASSERT_TRUE(Machine(schedule, messages).runs()) << to_csv(schedule);
  }
}

Schedule mutated(Schedule schedule, std::mt19937_64& random) {
  const auto pick = [&](std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random); };
  auto& actions = schedule.ranks[pick(schedule.ranks.size())];
  if (actions.empty()) return schedule;
  const std::size_t from = pick(actions.size()), to = pick(actions.size());
  const auto at = [&](std::size_t index) { return actions.begin() + static_cast<std::ptrdiff_t>(index); };
  const Action action = actions[from];
  switch (pick(6)) {
    case 0:
      std::swap(actions[from], actions[to]);
      break;
    case 1:
      actions.erase(at(from));
      break;
    case 2:
      actions.insert(at(to), action);
      break;
    case 3:  // moved
      actions.erase(at(from));
      actions.insert(at(std::min(to, actions.size())), action);
      break;
    case 4: {  // to another rank
      actions.erase(at(from));
      schedule.ranks[pick(schedule.ranks.size())].push_back(action);
      break;
    }
    default:
      std::swap(actions[from], actions[std::min(from + 1, actions.size() - 1)]);
  }
  return schedule;
}

TEST(Checker, JudgesMutationsAsAMachineDoes) {
  std::mt19937_64 random(5);
  int valid = 0, wrong = 0;
  for (std::uint64_t seed = 0; seed < 12'000; ++seed) {
    const bool messages = seed % 2 == 0;
    const Schedule schedule =
        mutated(RandomRun(1 + seed % 3, 1 + seed % 5, 1 + seed % 4, messages, seed).write(), random);
    const CheckReport report = check(schedule);
    ASSERT_EQ(report.valid(), Machine(schedule, messages).runs())
        << to_csv(schedule) << testing::PrintToString(problems_of(report));
    ++(report.valid() ? valid : wrong);
  }
  EXPECT_GT(valid, 1000);
  EXPECT_GT(wrong, 4000);
}

TEST(Checker, TakesLinearTime) {
  Schedule schedule = from_rows({"", ""}, 170'000);
  for (int i = 0; i < schedule.micro_batches; ++i) {
    for (const ActionKind kind :
         {ActionKind::forward, ActionKind::send_forward, ActionKind::recv_backward, ActionKind::backward})
      schedule.ranks[0].push_back({.kind = kind, .stage = 0, .micro_batch = i});
    for (const ActionKind kind :
         {ActionKind::recv_forward, ActionKind::forward, ActionKind::backward, ActionKind::send_backward})
      schedule.ranks[1].push_back({.kind = kind, .stage = 1, .micro_batch = i});
  }
  const double start = processor_seconds();
  EXPECT_TRUE(check(schedule).valid());
  EXPECT_LT(processor_seconds() - start, 5.0);  // generous: sanitizers
  std::ranges::reverse(schedule.ranks[0]);
  EXPECT_FALSE(check(schedule).valid());
}

TEST(Checker, ASendThatIsWaitedForDoesNotHoldItsRankUp) {
  // Both send before they receive: each send needs the other rank's next step.
  const auto crossing = [](const char* wait_0, const char* wait_1) {
    return from_rows({std::string("0F0,0SEND_F0,0F1,0SEND_F1,") + wait_0 + "0RECV_B0,0B0,0RECV_B1,0B1",
                      std::string("1RECV_F0,1F0,1B0,1SEND_B0,") + wait_1 + "1RECV_F1,1F1,1B1,1SEND_B1"},
                     2);
  };
  EXPECT_FALSE(check(crossing("", "")).deadlock_free_rendezvous);
  Schedule late = crossing("", "");
  late.ranks[0].insert(late.ranks[0].end(), {{.kind = ActionKind::wait_send_forward, .stage = 0, .micro_batch = 0},
                                             {.kind = ActionKind::wait_send_forward, .stage = 0, .micro_batch = 1}});
  late.ranks[1].insert(late.ranks[1].end(), {{.kind = ActionKind::wait_send_backward, .stage = 1, .micro_batch = 0},
                                             {.kind = ActionKind::wait_send_backward, .stage = 1, .micro_batch = 1}});
  EXPECT_TRUE(check(late).valid());
  Schedule early = crossing("0WAIT_SEND_F1,", "1WAIT_SEND_B0,");
  early.ranks[0].push_back({.kind = ActionKind::wait_send_forward, .stage = 0, .micro_batch = 0});
  early.ranks[1].push_back({.kind = ActionKind::wait_send_backward, .stage = 1, .micro_batch = 1});
  const CheckReport report = check(early);
  EXPECT_FALSE(report.deadlock_free_rendezvous);
  EXPECT_TRUE(report.deadlock_free_buffered);
}

}  // namespace
}  // namespace plumbline::schedules
