#include "reference/schedules/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/schedules/processor_seconds_test.hpp"
#include "reference/schedules/schedule_samples_test.hpp"

namespace plumbline::schedules {
namespace {

using samples::from_rows;
using samples::RandomRun;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

SimulationOptions times(double forward, double input, double weight, int chunks = 1) {
  return {.stages = {{forward / chunks, input / chunks, weight / chunks, {}}}};
}

std::vector<double> starts_of(const Timeline& timeline, int rank) {
  std::vector<double> starts;
  for (const Period& period : timeline.of_rank(rank)) starts.push_back(period.start);
  return starts;
}

template <class Value>
std::vector<Value> by_rank(const Timeline& timeline, Value RankTimes::* field) {
  std::vector<Value> values;
  for (const RankTimes& times : timeline.ranks) values.push_back(times.*field);
  return values;
}

TEST(Simulator, RunsByHand) {
  // F takes 1, B 2.
  const Schedule schedule = from_rows({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"}, 2);
  const Timeline timeline = simulate(schedule);
  EXPECT_THAT(starts_of(timeline, 0), ElementsAre(0, 1, 4, 7));
  EXPECT_THAT(starts_of(timeline, 1), ElementsAre(1, 2, 4, 5));
  EXPECT_EQ(timeline.makespan, 9);
  EXPECT_EQ(timeline.barrier_bubble(), 3);
  EXPECT_THAT(by_rank(timeline, &RankTimes::span_bubble), ElementsAre(3, 0));
  EXPECT_DOUBLE_EQ(timeline.ratio_of_total(0), 3.0 / 9);
  EXPECT_DOUBLE_EQ(timeline.ratio_of_work(0), 3.0 / 6);
}

TEST(Simulator, MovesMessagesBesideTheComputations) {
  const SimulationOptions options{.links = {.latency = 0.5, .bandwidth = 4}, .message_bytes = {2}};
  const Timeline alone = simulate(from_rows({"0F0,0B0", "1F0,1B0"}, 1), options);
  EXPECT_THAT(starts_of(alone, 0), ElementsAre(0, 6));
  EXPECT_THAT(alone.links, ElementsAre(LinkTraffic{0, 1, 1, 2}, LinkTraffic{1, 0, 1, 2}));
  const Schedule schedule = from_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1);
  const Timeline timeline = simulate(schedule, options);
  EXPECT_EQ(timeline.makespan, alone.makespan);
  EXPECT_EQ(timeline.links, alone.links);
  EXPECT_EQ(timeline.of_rank(0)[1], (Period{1, 2}));
  EXPECT_EQ(timeline.of_rank(1)[0], (Period{0, 0}));
}

TEST(Simulator, ALinkTakesOneMessageAtATime) {
  const Schedule schedule = from_rows({"0F0,0F1,0F2", "1F0,1F1,1F2"}, 3);
  const Timeline timeline =
      simulate(schedule, {.links = {.latency = 1, .bandwidth = 1}, .message_bytes = {3}, .forward_only = true});
  EXPECT_THAT(starts_of(timeline, 1), ElementsAre(5, 8, 11));
}

TEST(Simulator, UnderRendezvousAMessageWaitsForItsReceive) {
  // Rank 1 comes to its receive of micro-batch 1 at 4, after 1F0 and 1B0; the message takes 2.
  const std::vector<std::string> rows{"0F0,0SEND_F0,0F1,(0SEND_F1;0RECV_B0)P2P,0B0,0RECV_B1,0B1",
                                      "1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)P2P,1F1,1B1,1SEND_B1"};
  SimulationOptions options{.links = {.latency = 2}};
  const Timeline buffered = simulate(from_rows(rows, 2), options);
  EXPECT_EQ(buffered.of_rank(1)[5].start, 6);
  options.rendezvous = true;
  const Timeline meeting = simulate(from_rows(rows, 2), options);
  EXPECT_EQ(meeting.of_rank(0)[3], (Period{6, 8}));
  EXPECT_EQ(meeting.of_rank(1)[5].start, 8);
}

TEST(Simulator, JoinedComputationsBeginAndEndTogether) {
  const Schedule schedule = from_rows({"0F0,(0B0;0F1)OVERLAP_F_B,0B1"}, 2);
  const Timeline timeline = simulate(schedule, {.overlap = 0.5});
  EXPECT_THAT(timeline.of_rank(0), ElementsAre(Period{0, 1}, Period{1, 2.5}, Period{1, 2.5}, Period{2.5, 4.5}));
  EXPECT_EQ(timeline.ranks[0].work, 4.5);
  EXPECT_EQ(timeline.ranks[0].barrier_bubble, 0);
}

TEST(Simulator, StagesRanksAndJitterChangeTheTimes) {
  const Schedule schedule = from_rows({"0F0,0B0", "1F0,1B0"}, 1);
  const Timeline unequal = simulate(schedule, {.stages = {{1, 1, 1, {}}, {4, 2, 3, 7}}});
  EXPECT_THAT(starts_of(unequal, 1), ElementsAre(1, 5));
  EXPECT_EQ(unequal.makespan, 14);
  const Timeline slow = simulate(schedule, {.rank_slowdown = {1, 3}});
  EXPECT_EQ(slow.makespan, 1 + 3 + 6 + 2);
  const auto jittered = [&](std::uint64_t seed) { return simulate(schedule, {.jitter = 0.5, .seed = seed}).makespan; };
  EXPECT_EQ(jittered(1), jittered(1));
  EXPECT_NE(jittered(1), jittered(2));
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_GT(jittered(seed), 6);
    EXPECT_LT(jittered(seed), 9);
  }
}

TEST(Simulator, CountsActivationsAndTheirBytes) {
  const Schedule schedule = from_rows({"0F0,0F1,1F0,1B0,0B0,1F1,1B1,0B1"}, 2, {0, 0});
  const Timeline timeline = simulate(schedule, {.activation_bytes = {10, 1}});
  EXPECT_EQ(timeline.ranks[0].peak_activations, 3);
  EXPECT_EQ(timeline.ranks[0].peak_activation_bytes, 21);
  const Schedule forward = from_rows({"0F0,0F1,0F2"}, 3);
  EXPECT_EQ(simulate(forward, {.forward_only = true}).ranks[0].peak_activations, 1);
}

TEST(Simulator, RefusesWhatItCannotRun) {
  const auto refusal = [](const Schedule& schedule, const SimulationOptions& options = {}) -> std::string {
    try {
      (void)simulate(schedule, options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  const Schedule schedule = from_rows({"0F0,0B0", "1F0,1B0"}, 1);
  EXPECT_THAT(refusal(from_rows({"0F0,0B0,0F1,0B1", "1F0,1F1,1B1,1B0"}, 2)),
              HasSubstr("rank 0 at position 1 for what 0B0 needs, rank 1 at position 1 for what 1F1 needs"));
  EXPECT_THAT(refusal(from_rows({"0F7"}, 1)), HasSubstr("0F7 is not one of 1 stages and 1 micro-batches"));
  EXPECT_THAT(refusal(schedule, {.stages = std::vector<StageTimes>(3)}), HasSubstr("stages has 3 entries for 2"));
  EXPECT_THAT(refusal(schedule, {.stages = {{-1, 1, 1, {}}}}),
              HasSubstr("the time of F must be a number from 0 on, got -1"));
  EXPECT_THAT(refusal(schedule, {.stages = {{1, std::nan(""), 1, {}}}}), HasSubstr("nan"));
  EXPECT_THAT(refusal(schedule, {.links = {.latency = -1}}), HasSubstr("latency"));
  EXPECT_THAT(refusal(schedule, {.links = {.bandwidth = 0}}), HasSubstr("bandwidth"));
  EXPECT_THAT(refusal(schedule, {.message_bytes = {1, 2, 3}}), HasSubstr("message_bytes has 3 entries for 1"));
  EXPECT_THAT(refusal(schedule, {.rank_slowdown = {1}}), HasSubstr("straggling has 1 entries for 2"));
  EXPECT_THAT(refusal(schedule, {.jitter = -0.5}), HasSubstr("jitter"));
  EXPECT_THAT(refusal({.stages = 2, .micro_batches = 1, .stage_to_rank = {0, 5}, .ranks = {{}}}), HasSubstr("[0, 1)"));
  EXPECT_THAT(refusal(schedule, {.stages = {{1e308, 1e308, 1e308, {}}}}), HasSubstr("number from 0 on, got inf"));
  EXPECT_THAT(refusal({.stages = 1, .micro_batches = 1 << 28, .stage_to_rank = {0}, .ranks = {{}}}),
              HasSubstr("more than 134217728 pairs"));
}

TEST(Simulator, MeasuredPeriodsGiveTheSameSummary) {
  const Schedule schedule = from_rows({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"}, 2);
  const Timeline simulated = simulate(schedule);
  std::vector<std::vector<Period>> periods;
  for (int rank = 0; rank < 2; ++rank)
    periods.emplace_back(simulated.of_rank(rank).begin(), simulated.of_rank(rank).end());
  const Timeline measured = timeline_of(schedule, periods);
  EXPECT_EQ(measured.makespan, simulated.makespan);
  EXPECT_EQ(by_rank(measured, &RankTimes::span_bubble), by_rank(simulated, &RankTimes::span_bubble));
  periods[1].pop_back();
  EXPECT_THROW((void)timeline_of(schedule, periods), InvalidArgument);
}

TEST(Simulator, RefusesPeriodsThatNobodyMeasured) {
  const Schedule schedule = from_rows({"", "0F0"}, 1, {1});
  const double infinite = std::numeric_limits<double>::infinity();
  for (const Period& period : {Period{-2, -1}, Period{2, 1}, Period{1, infinite}, Period{std::nan(""), 1}})
    EXPECT_THROW((void)timeline_of(schedule, {{}, {period}}), InvalidArgument) << period.start << " " << period.end;
  const std::vector<std::vector<Period>> periods{{{1, 2}, {2, 3}}, {{1, 2}, {2, 3}}};
  const Schedule deadlock = from_rows({"0B0,0F0", "1F0,1B0"}, 1);
  const Timeline unmeasured = timeline_of(deadlock, periods);
  EXPECT_THROW((void)attribute_measured_idle_time(deadlock, {}, unmeasured), InvalidArgument);
  EXPECT_THROW((void)timeline_of(from_rows({"0F0,9F0", "1F0,1B0"}, 1), periods), InvalidArgument) << "no such stage";
}

// The closed forms. All numbers are exact in binary.
struct Case {
  int p, m, v;
  double f, i, w;
};
void for_cases(const std::vector<int>& chunks, const std::function<void(const Case&)>& visit) {
  for (const int p : {1, 2, 3, 4, 8})
    for (const int v : chunks)
      for (const int m : {p, 2 * p, 3 * p, 2 * p + 1})
        for (const auto& [f, i, w] :
             {std::tuple{1.0, 1.0, 1.0}, std::tuple{4.0, 6.0, 3.0}, std::tuple{8.0, 4.0, 12.0}}) {
          SCOPED_TRACE(testing::Message()
                       << "p " << p << " m " << m << " v " << v << " times " << f << " " << i << " " << w);
          visit({p, m, v, f, i, w});
        }
}
Timeline run(ScheduleKind schedule_kind, const Case& c) {
  const Schedule schedule = generate(schedule_kind, {c.p, c.m, c.v});
  const Timeline timeline = simulate(schedule, times(c.f, c.i, c.w, c.v));
  EXPECT_EQ(simulate(lower(schedule), times(c.f, c.i, c.w, c.v)).makespan, timeline.makespan);
  EXPECT_EQ(by_rank(timeline, &RankTimes::peak_activations), check(schedule).peak_activations);
  return timeline;
}

TEST(ClosedForms, GpipeAnd1F1B) {
  for_cases({1}, [](const Case& c) {
    const double bubble = (c.p - 1) * (c.f + c.i + c.w);
    const Timeline gpipe = run(ScheduleKind::gpipe, c), one = run(ScheduleKind::one_f_one_b, c);
    EXPECT_THAT(by_rank(gpipe, &RankTimes::barrier_bubble), Each(bubble));
    EXPECT_THAT(by_rank(one, &RankTimes::barrier_bubble), Each(bubble));
    EXPECT_DOUBLE_EQ(gpipe.ratio_of_total(0), double(c.p - 1) / (c.m + c.p - 1));
    EXPECT_THAT(by_rank(gpipe, &RankTimes::peak_activations), Each(c.m));
    for (int rank = 0; rank < c.p; ++rank)
      EXPECT_EQ(one.ranks[static_cast<std::size_t>(rank)].peak_activations, std::min(c.p - rank, c.m));
  });
}

TEST(ClosedForms, InterleavedAndBreadthFirst) {
  for_cases({1, 2, 4}, [](const Case& c) {
    const double bubble = (c.p - 1) * (c.f + c.i + c.w) / c.v;
    const Timeline breadth = run(ScheduleKind::looped_breadth_first, c);
    EXPECT_THAT(by_rank(breadth, &RankTimes::barrier_bubble), Each(bubble));
    EXPECT_THAT(by_rank(breadth, &RankTimes::peak_activations), Each(c.v * c.m));
    if (c.m % c.p != 0) return;
    const Timeline interleaved = run(ScheduleKind::interleaved, c);
    EXPECT_THAT(by_rank(interleaved, &RankTimes::barrier_bubble), Each(bubble));
    for (int rank = 0; rank < c.p; ++rank)
      EXPECT_EQ(interleaved.ranks[static_cast<std::size_t>(rank)].peak_activations,
                c.v == 1 ? std::min(c.p - rank, c.m)  // is 1F1B
                         : std::min(c.v * c.m, (c.v - 1) * c.p + 2 * (c.p - rank - 1) + 1));
  });
  // Groups larger than the ranks: two of 6, and 5 with a rest of 4.
  for (const auto& [m, group] : {std::pair{6, 6}, std::pair{12, 6}, std::pair{9, 5}}) {
    const Schedule schedule = interleaved_in_groups({4, m, 2}, group);
    EXPECT_EQ(simulate(schedule, times(1, 1, 1, 2)).barrier_bubble(), 3 * 3.0 / 2) << m << " " << group;
  }
}

TEST(ClosedForms, ZeroBubble) {
  const std::vector<double> kinds{1, 2, 4, 8};
  for (const int p : {1, 2, 3, 4, 8})
    for (const int m : {p, 2 * p, 2 * p + 1})
      for (const double f : kinds)
        for (const double i : kinds)
          for (const double w : kinds) {
            SCOPED_TRACE(testing::Message() << "p " << p << " m " << m << " times " << f << " " << i << " " << w);
            const Timeline h1 = run(ScheduleKind::zb_h1, {p, m, 1, f, i, w});
            EXPECT_EQ(h1.barrier_bubble(), (p - 1) * std::max({f, i, f + i - w}));
            EXPECT_THAT(by_rank(h1, &RankTimes::peak_activations), Each(p));
            if (m < 2 * p - 1) continue;
            const Timeline h2 = run(ScheduleKind::zb_h2, {p, m, 1, f, i, w});
            EXPECT_EQ(h2.ranks[0].peak_activations, 2 * p - 1);
            if (f != i || i != w) continue;
            EXPECT_THAT(by_rank(h2, &RankTimes::span_bubble), Each(0));
            EXPECT_EQ(h2.barrier_bubble(), (p - 1) * f);
          }
}

TEST(ClosedForms, ZeroBubbleOfSeveralChunks) {
  for (const int p : {1, 2, 3, 4, 8})
    for (const int rounds : {2, 3, 4}) {
      SCOPED_TRACE(testing::Message() << p << " " << rounds);
      for (const int v : {2, 4})
        for (const auto& [f, i, w] :
             {std::tuple{4.0, 4.0, 4.0}, std::tuple{16.0, 24.0, 12.0}, std::tuple{8.0, 8.0, 16.0}}) {
          const Timeline interleaved = run(ScheduleKind::interleaved_zero_bubble, {p, rounds * p, v, f, i, w});
          EXPECT_EQ(interleaved.barrier_bubble(), (p - 1) * std::max({f, i, f + i - w}) / v);
          EXPECT_THAT(by_rank(interleaved, &RankTimes::peak_activations), Each(p * v));
        }
      const Timeline zbv = run(ScheduleKind::zbv, {p, rounds * p, 2, 2, 2, 2});
      EXPECT_THAT(by_rank(zbv, &RankTimes::span_bubble), Each(0));
      EXPECT_EQ(zbv.barrier_bubble(), (p - 1) * 2 / 2);
      EXPECT_THAT(by_rank(zbv, &RankTimes::peak_activations), Each(2 * p));
      // P = 2p stages of times 1: (P/2 - 1)(F&B + B - 3W).
      const Timeline dual = run(ScheduleKind::dualpipev, {p, rounds * p, 2, 2, 2, 2});
      EXPECT_EQ(dual.barrier_bubble(), (p - 1) * (3 + 2 - 3));
      EXPECT_EQ(dual.ranks[0].peak_activations, 2 * p + 1);
    }
}

int most_activations(const Timeline& timeline) {
  return std::ranges::max(by_rank(timeline, &RankTimes::peak_activations));
}

// A chunk's forward, input and weight gradient take 1 each, so that 1F1B's bubble is 6(p-1).
TEST(ClosedForms, LessMemoryInAV) {
  for (int p = 1; p <= 12; ++p)
    for (int m = 1; m <= 3 * p; ++m) {
      SCOPED_TRACE(testing::Message() << p << " " << m);
      const Timeline half = run(ScheduleKind::v_half, {p, m, 2, 2, 2, 2}),
                     least = run(ScheduleKind::v_min, {p, m, 2, 2, 2, 2});
      EXPECT_EQ(most_activations(half), std::min(2 * m, 2 * (p / 2) + 2));
      EXPECT_EQ(most_activations(least), std::min(2 * m, 2 * ((p + 4) / 3)));
      if (m > p / 2) {
        EXPECT_EQ(half.barrier_bubble(), p == 1 ? 0 : 3 * (p - 1) - p % 2);
      }
      if (m > 1 || p % 3 != 0) {
        EXPECT_EQ(least.barrier_bubble(), p == 1 ? 0 : 4 * p - (p % 3 == 0 ? 3 : 5));
      }
    }
}

TEST(ClosedForms, DoNotHoldForChunksOfUnequalTimes) {
  // A chunk's forward, input and weight gradient take 5, 6 and 4.
  const Timeline zbv = run(ScheduleKind::zbv, {4, 8, 2, 10, 12, 8});
  EXPECT_EQ(std::ranges::max(by_rank(zbv, &RankTimes::span_bubble)), 12);
  EXPECT_EQ(zbv.barrier_bubble(), 18);                                                 // the form says 15
  EXPECT_EQ(run(ScheduleKind::dualpipev, {4, 8, 2, 10, 12, 8}).barrier_bubble(), 36);  // and 39
}

void expect_attributed(const Schedule& schedule, const SimulationOptions& options) {
  const Timeline timeline = simulate(schedule, options);
  const std::vector<IdleTime> idle = attribute_idle_time(schedule, options, timeline);
  ASSERT_EQ(idle.size(), schedule.ranks.size());
  for (std::size_t rank = 0; rank < idle.size(); ++rank) {
    EXPECT_NEAR(idle[rank].sum(), timeline.ranks[rank].barrier_bubble, 1e-9 * timeline.makespan) << rank;
    for (const double part : {idle[rank].fill, idle[rank].drain, idle[rank].dependency, idle[rank].transfer,
                              idle[rank].sent_late, idle[rank].imbalance, idle[rank].straggler})
      EXPECT_GE(part, 0);
  }
}

IdleTime idle_of(const Schedule& schedule, const SimulationOptions& options, std::size_t rank) {
  return attribute_idle_time(schedule, options, simulate(schedule, options))[rank];
}

TEST(Attribution, NamesEachCauseAlone) {
  const Schedule schedule = from_rows({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"}, 2);
  const IdleTime first = idle_of(schedule, {}, 0), second = idle_of(schedule, {}, 1);
  EXPECT_EQ(first.dependency, 3);  // waits 2 for 1B0, and 1 for 1F1 before 1B1
  EXPECT_EQ(first.sum(), 3);
  EXPECT_EQ(second.fill, 1);
  EXPECT_EQ(second.drain, 2);
  EXPECT_EQ(second.sum(), 3);

  const IdleTime moved = idle_of(schedule, {.links = {.latency = 2}}, 1);
  EXPECT_EQ(moved.fill, 1);
  EXPECT_GE(moved.transfer, 4);
  const IdleTime slow = idle_of(schedule, {.rank_slowdown = {1, 2}}, 0);
  EXPECT_GT(slow.straggler, 0);
  EXPECT_EQ(slow.imbalance, 0);
  const IdleTime heavy = idle_of(schedule, {.stages = {{1, 1, 1, {}}, {2, 2, 2, {}}}}, 0);
  EXPECT_EQ(heavy.straggler, 0);
  EXPECT_EQ(heavy.imbalance, slow.straggler);
  EXPECT_EQ(idle_of(schedule, {.stages = {{1, 1, 1, {}}, {2, 2, 2, {}}}}, 1).imbalance, 0);
}

TEST(Attribution, NamesWhatIsSentLate) {
  // Rank 0 sends the first output after its second forward, rank 1 the first gradient after a weight gradient.
  const Schedule late = from_rows({"0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0I1,0W1",
                                   "1RECV_F0,1F0,1I0,1W0,1SEND_B0,1RECV_F1,1F1,1I1,1SEND_B1,1W1"},
                                  2);
  const IdleTime first = idle_of(late, {}, 0), second = idle_of(late, {}, 1);
  EXPECT_EQ(first.sent_late, 1) << "the gradient, during W; the second one comes at once";
  EXPECT_EQ(first.dependency, 2);
  EXPECT_EQ(second.sent_late, 1) << "the output, during 0F1";
  EXPECT_EQ(second.fill, 1);
  const IdleTime moved = idle_of(late, {.links = {.latency = 2}, .rendezvous = true}, 1);
  EXPECT_EQ(moved.sent_late, 1) << "from when it is ready to when it is sent, however long it moves";
  const IdleTime slow = idle_of(late, {.rank_slowdown = {2, 1}}, 1);
  EXPECT_EQ(slow.sent_late, 2) << "whatever the sender does meanwhile";
}

TEST(Attribution, TakesAMessageOfNothingComputedForOneInTime) {
  const Schedule early = from_rows({"0F0,0SEND_F1,0F1,0SEND_F0", "1RECV_F1,1F1,1RECV_F0,1F0"}, 2);
  EXPECT_EQ(idle_of(early, {}, 1).sent_late, 0);
  EXPECT_EQ(idle_of(from_rows({"0SEND_F0,0F0", "1RECV_F0,1F0"}, 1), {}, 1).sent_late, 0);
}

TEST(Attribution, SumsToTheBubble) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 4), stages = 1 + static_cast<int>(seed % 6);
    SCOPED_TRACE(seed);
    const Schedule schedule = RandomRun(ranks, stages, 1 + seed % 5, seed % 2 == 0, seed).write();
    std::vector<StageTimes> stage_times;
    for (int stage = 0; stage < stages; ++stage) stage_times.push_back({1.0 + stage % 3, 1.5, 0.75 * (stage % 2), {}});
    SimulationOptions options{.stages = stage_times,
                              .links = {.latency = 0.25 * (seed % 3), .bandwidth = 8},
                              .message_bytes = {double(seed % 7)},
                              .rendezvous = seed % 3 == 0};
    expect_attributed(schedule, options);
    options.jitter = 0.3;
    options.rank_slowdown.assign(static_cast<std::size_t>(ranks), 1);
    options.rank_slowdown.back() = 2;
    expect_attributed(schedule, options);
  }
}

// One of them would send a walk back in time in cycles, if it followed the last message of a name.
TEST(Attribution, EndsWhereAComputationIsThereTwice) {
  const Schedule schedule = generate(ScheduleKind::one_f_one_b, {.ranks = 2, .micro_batches = 2});
  int counted = 0;
  for (std::size_t rank = 0; rank < 2; ++rank)
    for (const Action& action : schedule.ranks[rank])
      for (std::ptrdiff_t place = 0; place <= std::ssize(schedule.ranks[rank]); ++place) {
        Schedule twice = schedule;
        twice.ranks[rank].insert(twice.ranks[rank].begin() + place, action);
        try {
          twice = add_send_recv(twice);
          (void)simulate(twice);
        } catch (const InvalidArgument&) {
          continue;  // too early to be computed there
        }
        expect_attributed(twice, {});
        ++counted;
      }
  EXPECT_GT(counted, 10);
}

TEST(Attribution, OfTheSchedulesThereAre) {
  for (const ScheduleKind schedule_kind : schedule_kinds()) {
    if (schedule_kind == ScheduleKind::forward_only) continue;
    const bool chunks = schedule_kind == ScheduleKind::zbv || schedule_kind == ScheduleKind::v_half ||
                        schedule_kind == ScheduleKind::v_min || schedule_kind == ScheduleKind::dualpipev ||
                        schedule_kind == ScheduleKind::interleaved;
    const Schedule schedule = generate(schedule_kind, {4, 8, chunks ? 2 : 1});
    const SimulationOptions options{.links = {.latency = 0.5}, .rank_slowdown = {1, 1, 1.5, 1}};
    expect_attributed(schedule, options);
    expect_attributed(lower(schedule), options);
  }
}

std::vector<std::vector<Period>> periods_of(const Timeline& timeline) {
  std::vector<std::vector<Period>> periods;
  for (int rank = 0; rank < static_cast<int>(timeline.ranks.size()); ++rank)
    periods.emplace_back(timeline.of_rank(rank).begin(), timeline.of_rank(rank).end());
  return periods;
}

TEST(Attribution, OfMeasuredPeriodsNamesMessagesAndOverhead) {
  const Schedule schedule = from_rows({"0F0,0B0", "1F0,1B0"}, 1);
  // A message takes 1/4, what a rank does between two computations 1/8, and 1F0 half as long again.
  const Timeline timeline = timeline_of(schedule, {{{0, 1}, {5.125, 7.125}}, {{1.25, 2.75}, {2.875, 4.875}}});
  const std::vector<IdleTime> idle = attribute_measured_idle_time(schedule, {}, timeline);
  EXPECT_EQ(idle[0].transfer, 0.5);
  EXPECT_EQ(idle[0].overhead, 0.125);
  EXPECT_EQ(idle[0].straggler, 0.5);
  EXPECT_EQ(idle[0].dependency, 3);
  EXPECT_EQ(idle[0].sum(), timeline.ranks[0].barrier_bubble);
  EXPECT_EQ(idle[1].fill, 1);
  EXPECT_EQ(idle[1].drain, 2);
  EXPECT_EQ(idle[1].transfer, 0.5);
  EXPECT_EQ(idle[1].overhead, 0.125);
  EXPECT_EQ(idle[1].sum(), timeline.ranks[1].barrier_bubble);
}

TEST(Attribution, OfMeasuredPeriodsBlamesTheRankThatHadItsInput) {
  const Schedule schedule = from_rows({"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"}, 2);
  // Rank 1 begins 1F1 a quarter after 1F0, when its input was there.
  const Timeline timeline = timeline_of(
      schedule, {{{0, 1}, {1, 2}, {5.5, 7.5}, {7.5, 9.5}}, {{1, 2}, {2.25, 3.25}, {3.25, 5.25}, {5.25, 7.25}}});
  const std::vector<IdleTime> idle = attribute_measured_idle_time(schedule, {}, timeline);
  EXPECT_EQ(idle[1].overhead, 0.25);
  EXPECT_EQ(idle[1].drain, 2.25);
  EXPECT_EQ(idle[1].transfer, 0);
  EXPECT_EQ(idle[0].overhead, 0.25) << "rank 0 waits for it";
  EXPECT_EQ(idle[0].transfer, 0.25);
}

// Of two inputs the one that was made last, whatever the messages look like.
TEST(Attribution, OfMeasuredPeriodsFollowsTheLastOfSeveralInputs) {
  const Schedule schedule =
      from_rows({"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1RECV_B0,(1F1;1B0)OVERLAP_F_B",
                 "2RECV_F0,2F0,2B0,2SEND_B0"},
                2);
  const Timeline timeline = timeline_of(
      schedule, {{{0, 1}, {}, {1, 2}, {}}, {{}, {1, 2}, {}, {}, {}, {5.5, 6.5}, {6.5, 8.5}}, {{}, {2, 3}, {3, 5}, {}}});
  const IdleTime idle = attribute_measured_idle_time(schedule, {}, timeline)[1];
  EXPECT_EQ(idle.dependency, 3);
  EXPECT_EQ(idle.transfer, 0.5);
  EXPECT_EQ(idle.overhead, 0);
}

// As a machine would measure what it is that the simulator says: each computation later and longer than it says, by
// random parts.
TEST(Attribution, OfMeasuredPeriodsSumsToTheBubble) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const int ranks = 1 + static_cast<int>(seed % 4), stages = 1 + static_cast<int>(seed % 6);
    const Schedule schedule = RandomRun(ranks, stages, 1 + seed % 5, seed % 2 == 0, seed).write();
    const Timeline late = simulate(schedule, {.links = {.latency = 0.125 * (seed % 3)}, .jitter = 0.5, .seed = seed});
    std::vector<std::vector<Period>> periods = periods_of(late);
    for (auto& row : periods)
      for (Period& period : row) period.start = std::min(period.end, period.start + 0.0625 * (seed % 2));
    const Timeline timeline = timeline_of(schedule, periods);
    const std::vector<IdleTime> idle = attribute_measured_idle_time(schedule, {}, timeline);
    for (std::size_t rank = 0; rank < idle.size(); ++rank) {
      EXPECT_NEAR(idle[rank].sum(), timeline.ranks[rank].barrier_bubble, 1e-9 * timeline.makespan) << rank;
      for (const double part : {idle[rank].fill, idle[rank].drain, idle[rank].dependency, idle[rank].transfer,
                                idle[rank].sent_late, idle[rank].imbalance, idle[rank].straggler, idle[rank].overhead})
        EXPECT_GE(part, 0);
    }
  }
}

// Where nothing is late, both ways of asking have one answer.
TEST(Attribution, OfMeasuredPeriodsIsThatOfSimulatedOnes) {
  for (const ScheduleKind schedule_kind : schedule_kinds()) {
    if (schedule_kind == ScheduleKind::forward_only) continue;
    const bool several = schedule_kind == ScheduleKind::zbv || schedule_kind == ScheduleKind::v_half ||
                         schedule_kind == ScheduleKind::v_min || schedule_kind == ScheduleKind::dualpipev;
    const Schedule schedule = lower(generate(schedule_kind, {4, 8, several ? 2 : 1}));
    const Timeline simulated = simulate(schedule);
    std::vector<std::vector<Period>> computations = periods_of(simulated);  // of messages nothing is measured
    for (std::size_t rank = 0; rank < computations.size(); ++rank)
      for (std::size_t i = 0; i < computations[rank].size(); ++i)
        if (!is_compute(schedule.ranks[rank][i].kind)) computations[rank][i] = {};
    const std::vector<IdleTime> expected = attribute_idle_time(schedule, {}, simulated),
                                found = attribute_measured_idle_time(schedule, {}, timeline_of(schedule, computations));
    for (std::size_t rank = 0; rank < found.size(); ++rank) {
      SCOPED_TRACE(testing::Message() << name_of(schedule_kind) << " rank " << rank);
      EXPECT_EQ(found[rank].fill, expected[rank].fill);
      EXPECT_EQ(found[rank].drain, expected[rank].drain);
      EXPECT_EQ(found[rank].dependency, expected[rank].dependency);
      EXPECT_EQ(found[rank].transfer + found[rank].overhead, 0);
    }
  }
}

TEST(Simulator, JoinedComputationsThatWereMeasuredOneByOneAreOnePeriod) {
  const Schedule schedule = from_rows({"0F0,(0B0;0F1)OVERLAP_F_B,0B1"}, 2);
  const Timeline timeline = timeline_of(schedule, {{{0, 1}, {1.5, 3}, {3, 4}, {4, 6}}});
  EXPECT_EQ(timeline.of_rank(0)[1], (Period{1.5, 4}));
  EXPECT_EQ(timeline.of_rank(0)[2], (Period{1.5, 4}));
  EXPECT_EQ(timeline.ranks[0].work, 5.5);
  EXPECT_EQ(attribute_measured_idle_time(schedule, {}, timeline)[0].overhead, 0.5);
}

TEST(Simulator, TakesLinearTime) {
  const auto seconds = [](int micro_batches) {
    const double start = processor_seconds();
    const Schedule schedule = lower(generate(ScheduleKind::one_f_one_b, {16, micro_batches, 1}));
    EXPECT_GT(simulate(schedule).makespan, 0);
    return processor_seconds() - start;
  };
  double small = HUGE_VAL, large = HUGE_VAL;
  for (int i = 0; i < 5; ++i) small = std::min(small, seconds(2'000)), large = std::min(large, seconds(16'000));
  EXPECT_LT(large, 5 * 8 * small);
}

}  // namespace
}  // namespace plumbline::schedules
