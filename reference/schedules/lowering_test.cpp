// Rows recorded from PyTorch; our own order; and that both can be kept when a send returns only after its receive is
// posted.
#include "reference/schedules/lowering.hpp"

#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/processor_seconds_test.hpp"

namespace plumbline::schedules {
namespace {

using testing::HasSubstr;

std::string lowering_refusal(const Schedule& schedule, Schedule (*lowering)(const Schedule&)) {
  try {
    (void)lowering(schedule);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}
Schedule ours(const Schedule& schedule) { return lower(schedule); }

TEST(TorchLowering, EqualsWhatWasRecorded) {
  const Schedule schedule = generate(ScheduleKind::interleaved, {.ranks = 2, .micro_batches = 2, .stages_per_rank = 2});
  EXPECT_EQ(to_csv(lower_as_torch(parse_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0"))),
            "0UNSHARD,3UNSHARD,0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,3REDUCE_GRAD,3RESHARD,0RECV_B0,0B0,0REDUCE_GRAD,"
            "0RESHARD\n"
            "1UNSHARD,2UNSHARD,1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,2REDUCE_GRAD,2RESHARD,1B0,1SEND_B0,1REDUCE_GRAD,"
            "1RESHARD\n");
  EXPECT_EQ(to_csv(lower_as_torch(parse_csv("0F0,0F1,(0B0;0F2)OVERLAP_F_B,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2"))),
            "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,(0B0;0F2)OVERLAP_F_B,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2,"
            "0REDUCE_GRAD,0RESHARD\n"
            "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1RECV_F2,1F1,1B1,1SEND_B1,1F2,1B2,1SEND_B2,1REDUCE_GRAD,"
            "1RESHARD\n");
}

TEST(TorchLowering, DefersReceivesUnlessTheyAreDueFromAHigherRank) {
  const Schedule schedule = generate(ScheduleKind::interleaved, {.ranks = 2, .micro_batches = 4, .stages_per_rank = 2});
  const Schedule lowered = lower_as_torch(schedule);
  EXPECT_EQ(to_csv(std::span(defer_receives(lowered).ranks[0]).first(14)),
            "0UNSHARD,2UNSHARD,0F0,0SEND_F0,0F1,2RECV_F0,0SEND_F1,2F0,2RECV_F1,2SEND_F0,2F1,2SEND_F1,0F2,2RECV_B0");
  EXPECT_EQ(to_csv(std::span(lowered.ranks[0]).first(12)),
            "0UNSHARD,2UNSHARD,0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2RECV_F1,2F0,2SEND_F0,2F1,2SEND_F1");
  EXPECT_THROW((void)defer_receives(parse_csv("0F0,0SEND_F0\n1F1,1RECV_F0")), InvalidArgument) << "nothing needs it";
}

// Stages that are computed at once are given up at once: in the order in which CPython iterates over a set of them.
std::string given_up(const char* row, int most_gathered = 3) {
  const Schedule sharded = add_unshard_reshard({.stages = 64, .ranks = {parse_row(row)}}, most_gathered);
  std::string stages;
  for (const Action& action : sharded.ranks[0])
    if (action.kind == ActionKind::reshard) stages += std::to_string(action.stage) + " ";
  return stages;
}

TEST(TorchLowering, GivesStagesUpInTheOrderOfAPythonSet) {
  EXPECT_EQ(given_up("(3F0;1F0)OVERLAP_F_B"), "1 3 ");
  EXPECT_EQ(given_up("(5F0;13F0)OVERLAP_F_B"), "13 5 ");
  EXPECT_EQ(given_up("(3F0;11F0;19F0;27F0)OVERLAP_F_B"), "11 19 3 27 ");
  // Stage 3 takes the slot of one that was removed.
  EXPECT_EQ(given_up("0F0,1F0,2F0,3F0,0F1,1F1,(3B0;2F1)OVERLAP_F_B,(2B0;3F1)OVERLAP_F_B,(3B1;1B0)OVERLAP_F_B,"
                     "(0B0;2B1)OVERLAP_F_B,1B1,0B1",
                     2),
            "0 1 2 3 0 1 2 1 3 2 1 0 ");
}

TEST(TorchLowering, MergesHalvesThatAreNeighbours) {
  EXPECT_EQ(to_csv(merge_backward_halves({.ranks = {parse_row("0I0,,0W0,0I1,0F2,0W1,0I3,0W2,0W3")}})),
            "0B0,0I1,0F2,0W1,0I3,0W2,0W3\n");
}

// An idle cell is of no stage, whatever number it has.
TEST(Lowering, TakesNoStageOfAnIdleCell) {
  const Schedule schedule = generate(ScheduleKind::one_f_one_b, {.ranks = 2, .micro_batches = 3});
  Schedule with_idle = schedule;
  for (const int stage : {-1, 1'000'000})
    for (auto& row : with_idle.ranks)
      row.insert(row.begin() + 1, {.kind = ActionKind::idle, .stage = stage, .micro_batch = stage});
  for (const Metadata metadata : {Metadata::none, Metadata::once, Metadata::each})
    EXPECT_EQ(to_csv(without_idle(lower(with_idle, metadata))), to_csv(without_idle(lower(schedule, metadata))));
}

TEST(Lowering, PostsTogetherWhatStandsBetweenTwoComputations) {
  EXPECT_EQ(to_csv(lower(generate(ScheduleKind::one_f_one_b, {.ranks = 2, .micro_batches = 3}))),
            "0F0,0SEND_F0,0F1,(0SEND_F1;0RECV_B0)P2P,0B0,0F2,(0SEND_F2;0RECV_B1)P2P,0B1,0RECV_B2,0B2\n"
            "1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)P2P,1F1,1B1,(1SEND_B1;1RECV_F2)P2P,1F2,1B2,1SEND_B2\n");
}

TEST(Lowering, ReceivesEarlierWhereTheOrderCrosses) {
  EXPECT_EQ(to_csv(lower(parse_csv("0F0,0F1,0B0,0B1\n1F1,1B1,1F0,1B0"))),
            "0F0,0SEND_F0,0F1,(0SEND_F1;0RECV_B1;0RECV_B0)P2P,0B0,0B1\n"
            "(1RECV_F0;1RECV_F1)P2P,1F1,1B1,1SEND_B1,1F0,1B0,1SEND_B0\n");
}

TEST(Lowering, RefusesWhatCannotBeKept) {
  const Schedule cycle = parse_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B1,1B0");
  for (const auto lowering : {ours, add_send_recv})
    EXPECT_EQ(
        lowering_refusal(cycle, lowering),
        "lowering: the computations of 2 ranks wait for each other: rank 0 for what 0B0 needs, rank 1 for what 1F1 "
        "needs");
  for (const auto lowering : {ours, add_send_recv}) {
    EXPECT_THAT(lowering_refusal(parse_csv("0F0,0SEND_F0\n1F0"), lowering), HasSubstr("rank 0, position 1: 0SEND_F0"));
    Schedule elsewhere = parse_csv("0F0\n1F0");
    elsewhere.stage_to_rank = {1, 0};
    EXPECT_THAT(lowering_refusal(elsewhere, lowering), HasSubstr("its stage is on rank 1"));
    elsewhere.stage_to_rank = {0, 2};
    EXPECT_THAT(lowering_refusal(elsewhere, lowering), HasSubstr("a stage is on rank 2, but the schedule has 2 ranks"));
    Schedule fewer = parse_csv("0F0,0F1\n1F0,1F1");
    fewer.micro_batches = 1;
    EXPECT_THAT(lowering_refusal(fewer, lowering), HasSubstr("0F1 has a micro-batch"));
    fewer.stages = 3;
    EXPECT_THAT(lowering_refusal(fewer, lowering), HasSubstr("3 stages"));
    EXPECT_THAT(lowering_refusal(parse_csv("1F0,0F0"), lowering), HasSubstr("rank 0 for what 1F0 needs"));
  }
  EXPECT_THAT(lowering_refusal(parse_csv("0F0,0F0\n1F0"), ours), HasSubstr("what 0SEND_F0 sends is made twice"));
  const Schedule twice = parse_csv("0F0,0F1,0F0,0B1,0B0\n1F1,1B1,1F0,1B0");
  for (const Metadata metadata : {Metadata::none, Metadata::once, Metadata::each})
    EXPECT_THROW((void)lower(twice, metadata), InvalidArgument) << static_cast<int>(metadata);
  EXPECT_THROW((void)add_unshard_reshard(cycle, 0), InvalidArgument);
  Schedule sparse{.stages = 1 << 20, .micro_batches = 1 << 20, .stage_to_rank = {}, .ranks = {{}}};
  sparse.stage_to_rank.assign(1 << 20, 0);
  for (const auto lowering : {ours, add_send_recv, defer_receives})
    EXPECT_THAT(lowering_refusal(sparse, lowering), HasSubstr("need more than the 0 actions"));
}

TEST(Lowering, SizesRowsAheadSoThatNoneIsCopiedWhileItGrows) {
  for (const auto& [schedule_kind, chunks] : {std::pair{ScheduleKind::one_f_one_b, 1},
                                              {ScheduleKind::zb_h2, 1},
                                              {ScheduleKind::interleaved, 2},
                                              {ScheduleKind::zbv, 2},
                                              {ScheduleKind::dualpipev, 2}}) {
    const Schedule schedule = generate(schedule_kind, {.ranks = 4, .micro_batches = 16, .stages_per_rank = chunks});
    for (const auto& row : lower(schedule).ranks) EXPECT_EQ(row.capacity(), row.size()) << name_of(schedule_kind);
  }
}

TEST(Lowering, TellsShapesAheadOfTheFirstActivationOrOfEach) {
  const Schedule schedule = generate(ScheduleKind::one_f_one_b, {.ranks = 2, .micro_batches = 2});
  EXPECT_EQ(to_csv(lower(schedule, Metadata::once)),
            "0F0,0SEND_META0,0SEND_F0,0F1,(0SEND_F1;0RECV_B0)P2P,0B0,0RECV_B1,0B1\n"
            "1RECV_META0,1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)P2P,1F1,1B1,1SEND_B1\n");
  EXPECT_EQ(to_csv(lower(schedule, Metadata::each).ranks[1]),
            "1RECV_META0,1RECV_F0,1F0,1B0,1RECV_META1,(1SEND_B0;1RECV_F1)P2P,1F1,1B1,1SEND_B1");
}

// A naive rendezvous: every rank posts its group of messages and goes on when all of them have their counterparts
// posted.
class Rendezvous {
 public:
  explicit Rendezvous(const Schedule& schedule) : schedule_(schedule), next_(schedule.ranks.size()) {}

  /// Whether all ranks come to their ends. Computations must find what they need.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank)
        while (next_[rank] < schedule_.ranks[rank].size() && step(rank)) moved = true;
    }
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (next_[rank] < schedule_.ranks[rank].size()) return false;
    return true;
  }
  /// By sending and receiving rank, messages in the order in which the sender has them, and in the receiver's.
  std::map<std::pair<int, int>, std::vector<std::string>> sent, received;

 private:
  using Name = std::tuple<bool, bool, int, int>;  // metadata, forward, receiving stage, micro-batch

  static Name name_of(const Action& action) {
    const bool forward = action.kind != ActionKind::send_backward && action.kind != ActionKind::recv_backward;
    const bool metadata = action.kind == ActionKind::send_metadata || action.kind == ActionKind::recv_metadata;
    const int hop = is_send(action.kind) ? (forward ? 1 : -1) : 0;
    return {metadata, forward, action.stage + hop, action.micro_batch};
  }

  std::size_t group_end(std::size_t rank) const {
    std::size_t end = next_[rank];
    while (schedule_.ranks[rank][end].joined) ++end;
    return end + 1;
  }

  bool step(std::size_t rank) {
    const std::size_t end = group_end(rank);
    bool through = true;
    for (std::size_t i = next_[rank]; i < end; ++i) {
      const Action& action = schedule_.ranks[rank][i];
      if (!is_message(action.kind)) continue;
      const Name name = name_of(action);
      auto& mine = is_send(action.kind) ? sends_ : receives_;
      if (mine.insert(name).second) note(rank, action, name);
      through = through && (is_send(action.kind) ? receives_ : sends_).contains(name);
    }
    if (!through) return false;
    for (std::size_t i = next_[rank]; i < end; ++i) compute(schedule_.ranks[rank][i]);
    next_[rank] = end;
    return true;
  }

  void note(std::size_t rank, const Action& action, const Name& name) {
    const auto [metadata, forward, receiver, micro_batch] = name;
    const int sender = forward ? receiver - 1 : receiver + 1;
    const std::pair pair{schedule_.stage_to_rank[static_cast<std::size_t>(sender)],
                         schedule_.stage_to_rank[static_cast<std::size_t>(receiver)]};
    EXPECT_EQ(is_send(action.kind) ? pair.first : pair.second, static_cast<int>(rank));
    (is_send(action.kind) ? sent : received)[pair].push_back((metadata  ? "shape "
                                                              : forward ? "F "
                                                                        : "B ") +
                                                             std::to_string(receiver) + " " +
                                                             std::to_string(micro_batch));
  }

  void compute(const Action& action) {
    if (!is_compute(action.kind) || action.kind == ActionKind::weight_gradient) return;
    const bool forward = action.kind == ActionKind::forward;
    const int hop = forward ? -1 : 1;
    const int before = action.stage + hop;
    if (before >= 0 && before < schedule_.stages) {
      const bool near = schedule_.stage_to_rank[static_cast<std::size_t>(before)] ==
                        schedule_.stage_to_rank[static_cast<std::size_t>(action.stage)];
      const bool there = near ? done_.contains({forward, before, action.micro_batch})
                              : receives_.contains({false, forward, action.stage, action.micro_batch});
      EXPECT_TRUE(there) << to_string(action);
    }
    done_.insert({forward, action.stage, action.micro_batch});
  }

  const Schedule& schedule_;
  std::vector<std::size_t> next_;
  std::set<Name> sends_, receives_;
  std::set<std::tuple<bool, int, int>> done_;
};

Schedule without_messages(Schedule schedule) {
  for (auto& actions : schedule.ranks)
    std::erase_if(actions, [](const Action& action) { return is_message(action.kind); });
  return schedule;
}

// The lowering keeps the computations, can be followed to its end, and has the messages of each pair in one order.
void expect_sound(const Schedule& schedule, const Schedule& lowered) {
  EXPECT_EQ(without_messages(lowered), without_idle(schedule));
  Rendezvous rendezvous(lowered);
  ASSERT_TRUE(rendezvous.run()) << to_csv(lowered);
  EXPECT_EQ(rendezvous.sent, rendezvous.received) << to_csv(lowered);
}

TEST(Lowering, IsSoundForEveryFamily) {
  int seen = 0;
  for (const ScheduleKind schedule_kind : schedule_kinds())
    for (const int p : {1, 2, 3, 4, 8})
      for (const int m : std::set<int>{1, std::max(1, p - 1), p, p + 1, 2 * p, 2 * p + 1})
        for (const int v : {1, 2, 4}) {
          Schedule schedule;
          try {
            schedule = generate(schedule_kind, {.ranks = p, .micro_batches = m, .stages_per_rank = v});
          } catch (const InvalidArgument&) {
            continue;
          }
          SCOPED_TRACE(std::string(name_of(schedule_kind)) + " " + std::to_string(p) + " " + std::to_string(m) + " " +
                       std::to_string(v));
          ++seen;
          for (const Metadata metadata : {Metadata::none, Metadata::once, Metadata::each})
            expect_sound(schedule, lower(schedule, metadata));
          expect_sound(schedule, add_send_recv(schedule));
        }
  EXPECT_GT(seen, 400);
}

// Computations in an order that respects what they need, on ranks at random.
Schedule random_schedule(std::mt19937& random) {
  const auto pick = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  const int ranks = 1 + pick(5), stages = ranks + pick(6), micro_batches = 1 + pick(5);
  Schedule schedule{.stages = stages, .micro_batches = micro_batches, .stage_to_rank = {}, .ranks = {}};
  for (int stage = 0; stage < stages; ++stage) schedule.stage_to_rank.push_back(stage < ranks ? stage : pick(ranks));
  std::ranges::shuffle(schedule.stage_to_rank, random);
  schedule.ranks.resize(static_cast<std::size_t>(ranks));
  // Of each micro-batch, how many of its forwards and backwards are done.
  std::vector<int> done(static_cast<std::size_t>(micro_batches));
  std::vector<Action> weights;
  const bool in_halves = pick(2) == 0;
  for (int left = 2 * stages * micro_batches; left > 0;) {
    const int micro_batch = pick(micro_batches);
    int& at = done[static_cast<std::size_t>(micro_batch)];
    if (at == 2 * stages) continue;
    const bool forward = at < stages;
    const std::int32_t stage = forward ? at : 2 * stages - 1 - at;
    const ActionKind back = in_halves ? ActionKind::input_gradient : ActionKind::backward;
    auto& row = schedule.ranks[static_cast<std::size_t>(schedule.stage_to_rank[static_cast<std::size_t>(stage)])];
    row.push_back({.kind = forward ? ActionKind::forward : back, .stage = stage, .micro_batch = micro_batch});
    if (pick(4) == 0) row.emplace_back();
    if (!forward && in_halves)
      row.push_back({.kind = ActionKind::weight_gradient, .stage = stage, .micro_batch = micro_batch});
    ++at;
    --left;
  }
  return schedule;
}

TEST(Lowering, IsSoundForAnyOrderThatCanBeKept) {
  std::mt19937 random(7);
  int crossed = 0;
  for (int i = 0; i < 500; ++i) {
    SCOPED_TRACE(i);
    const Schedule schedule = random_schedule(random);
    const Schedule lowered = lower(schedule);
    expect_sound(schedule, lowered);
    for (const auto& actions : lowered.ranks) {
      int receives = 0;
      for (const Action& action : actions) {
        receives = is_message(action.kind) && !is_send(action.kind) ? receives + 1 : 0;
        crossed += receives > 1 ? 1 : 0;
      }
    }
    for (const Metadata metadata : {Metadata::once, Metadata::each}) expect_sound(schedule, lower(schedule, metadata));
    expect_sound(schedule, add_send_recv(schedule));
    if (HasFailure()) break;
  }
  EXPECT_GT(crossed, 100) << "orders that cross were among them";
}

TEST(Lowering, IsLinear) {
  const Schedule schedule = generate(ScheduleKind::one_f_one_b, {.ranks = 64, .micro_batches = 8192});
  const double begin = processor_seconds();
  EXPECT_EQ(lower(schedule).ranks[1].size(), 6u * 8192);
  EXPECT_EQ(add_send_recv(schedule).ranks[1].size(), 6u * 8192);
  // Unoptimised this takes half of it; with the square of the micro-batches it would take minutes.
  EXPECT_LT(processor_seconds() - begin, 5);
}

TEST(SendWaits, KeepAtMostSoManySendsUnderWay) {
  const Schedule schedule = parse_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1");
  EXPECT_EQ(to_csv(add_send_waits(schedule, 1)),
            "0F0,0SEND_F0,0F1,0WAIT_SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0WAIT_SEND_F1\n"
            "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1WAIT_SEND_B0,1SEND_B1,1WAIT_SEND_B1\n");
  EXPECT_EQ(parse_csv(to_csv(add_send_waits(schedule, 1))), add_send_waits(schedule, 1));
  EXPECT_EQ(to_csv(add_send_waits(schedule, 2).ranks[0]),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0WAIT_SEND_F0,0WAIT_SEND_F1");
  EXPECT_THROW((void)add_send_waits(schedule, 0), InvalidArgument);
  EXPECT_THROW((void)add_send_waits(add_send_waits(schedule, 1), 1), InvalidArgument);
  EXPECT_THAT(lowering_refusal(add_send_waits(schedule, 1), ours), HasSubstr("is a message"));
}

TEST(SendWaits, AreProvedForAllFamilies) {
  for (const ScheduleKind schedule_kind : schedule_kinds())
    for (const int chunks : {1, 2})
      for (const int most : {1, 2, 5}) {
        Schedule schedule;
        try {
          schedule = generate(schedule_kind, {.ranks = 4, .micro_batches = 8, .stages_per_rank = chunks});
        } catch (const InvalidArgument&) {
          continue;
        }
        const CheckReport report =
            check(add_send_waits(lower(schedule), most), {.forward_only = schedule_kind == ScheduleKind::forward_only});
        EXPECT_TRUE(report.valid() && report.deadlock_free_rendezvous) << name_of(schedule_kind) << " " << most;
      }
}

}  // namespace
}  // namespace plumbline::schedules
