// Timelines of measured periods: what is said of them, and where their idle time went.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::IdleTime;
using schedules::Period;
using schedules::Schedule;
using schedules::SimulationOptions;
using schedules::Timeline;
using suite::Context;

namespace {

using RankPeriods = std::vector<std::vector<Period>>;

// Whole numbers, so that sums are exact in any order.
SimulationOptions drawn_options(Random& random) {
  SimulationOptions options;
  options.stages = {{.forward = static_cast<double>(random.between(1, 5)),
                     .input_gradient = static_cast<double>(random.between(1, 5)),
                     .weight_gradient = static_cast<double>(random.between(1, 5))}};
  options.activation_bytes = {8};
  return options;
}

RankPeriods periods_of(const Timeline& timeline, int ranks) {
  RankPeriods all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto of_rank = timeline.of_rank(rank);
    all.emplace_back(of_rank.begin(), of_rank.end());
  }
  return all;
}

// What is said of a simulation is said of the same periods, measured.
void as_simulated(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    const Schedule schedule = random_plan(random, context.parameters().text("rows") == "messages");
    const SimulationOptions options = drawn_options(random);
    const Timeline simulated = schedules::simulate(schedule, options);
    const auto ranks = static_cast<int>(schedule.ranks.size());
    const Timeline measured = schedules::timeline_of(schedule, periods_of(simulated, ranks), options);
    EXPECT_EQ(measured.makespan, simulated.makespan) << "SCHED-122";
    EXPECT_EQ(measured.barrier_bubble(), simulated.barrier_bubble()) << "SCHED-122";
    double busiest = 0, bubble = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      const schedules::RankTimes &got = measured.ranks.at(at), &right = simulated.ranks.at(at);
      EXPECT_EQ(got.work, right.work) << "SCHED-122: rank " << rank;
      EXPECT_EQ(got.first_start, right.first_start) << "SCHED-122: rank " << rank;
      EXPECT_EQ(got.last_end, right.last_end) << "SCHED-122: rank " << rank;
      EXPECT_EQ(got.barrier_bubble, simulated.makespan - got.work) << "SCHED-122: rank " << rank;
      EXPECT_EQ(got.span_bubble, got.last_end - got.first_start - got.work) << "SCHED-122: rank " << rank;
      EXPECT_EQ(got.peak_activations, right.peak_activations) << "SCHED-122: rank " << rank;
      EXPECT_EQ(got.peak_activation_bytes, 8 * right.peak_activations) << "SCHED-122: rank " << rank;
      EXPECT_EQ(measured.ratio_of_total(rank), got.barrier_bubble / measured.makespan) << "SCHED-122: rank " << rank;
      EXPECT_EQ(measured.ratio_of_work(rank), got.work == 0 ? 0 : got.barrier_bubble / got.work) << "SCHED-122";
      if (got.work > busiest) busiest = got.work, bubble = got.barrier_bubble;
    }
    EXPECT_EQ(measured.barrier_bubble(), bubble) << "SCHED-122: of the busiest rank";
  }
}

// Ranks that are late, each computation by another time: all of the idle time has a cause, and what every rank needed
// was there before it began.
void idle_time_of_late_ranks(Context& context) {
  const bool is_late = context.parameters().text("ranks") == "late";
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    const Schedule schedule = random_plan(random, false);
    const SimulationOptions options = drawn_options(random);
    const auto ranks = static_cast<int>(schedule.ranks.size());
    const Timeline simulated = schedules::simulate(schedule, options);
    RankPeriods periods = periods_of(simulated, ranks);
    double shift = 0;  // all of a moment are late together, so that no order changes
    std::vector<double> moments;
    for (const auto& of_rank : periods)
      for (const Period& period : of_rank) moments.push_back(period.start), moments.push_back(period.end);
    std::ranges::sort(moments);
    moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
    std::vector<double> late;
    for (std::size_t i = 0; i < moments.size(); ++i)
      late.push_back(moments[i] + (shift += is_late ? random.between(0, 3) : 0));
    const auto moved = [&](double moment) {
      return late[static_cast<std::size_t>(std::ranges::lower_bound(moments, moment) - moments.begin())];
    };
    for (auto& of_rank : periods)
      for (Period& period : of_rank) period = {.start = moved(period.start), .end = moved(period.end)};
    const Timeline measured = schedules::timeline_of(schedule, periods, options);
    const std::vector<IdleTime> idle = schedules::attribute_measured_idle_time(schedule, options, measured);
    const std::vector<IdleTime> simulated_idle = schedules::attribute_idle_time(schedule, options, simulated);
    ASSERT_EQ(idle.size(), schedule.ranks.size()) << "SCHED-122";
    for (std::size_t rank = 0; rank < idle.size(); ++rank) {
      const IdleTime& one = idle[rank];
      EXPECT_NEAR(one.sum(), measured.makespan - measured.ranks[rank].work, 1e-9) << "SCHED-122: rank " << rank;
      for (const double part :
           {one.transfer, one.straggler, one.imbalance, one.fill, one.drain, one.dependency, one.overhead})
        EXPECT_GE(part, 0) << "SCHED-122: rank " << rank;
      if (is_late) continue;
      EXPECT_EQ(one.overhead, 0) << "SCHED-122: nobody is late";
      EXPECT_EQ(one.fill + one.drain + one.dependency,
                simulated_idle[rank].fill + simulated_idle[rank].drain + simulated_idle[rank].dependency)
          << "SCHED-122: rank " << rank;
    }
  }
}

// Two ranks, a micro-batch forward: the first computes for 2 s; the second gets it after 1 s, and is 3 s late itself.
void idle_time_by_hand(Context&) {
  const Schedule schedule{.stages = 2,
                          .micro_batches = 2,
                          .stage_to_rank = {0, 1},
                          .ranks = {schedules::parse_row("0F0,0F1", 1), schedules::parse_row("1F0,1F1", 2)}};
  SimulationOptions options;
  options.stages = {{.forward = 2, .input_gradient = 0, .weight_gradient = 0}};
  options.forward_only = true;
  const RankPeriods periods{{{0, 2}, {2, 4}}, {{3, 5}, {8, 10}}};
  const Timeline measured = schedules::timeline_of(schedule, periods, options);
  EXPECT_EQ(measured.makespan, 10) << "SCHED-122";
  const auto idle = schedules::attribute_measured_idle_time(schedule, options, measured);
  EXPECT_EQ(idle[1].fill, 2) << "SCHED-122: while the first rank computes";
  EXPECT_EQ(idle[1].transfer, 1) << "SCHED-122: from its end to the second one's begin";
  EXPECT_EQ(idle[1].overhead, 3) << "SCHED-122: its input is there";
  EXPECT_EQ(idle[1].sum(), 6) << "SCHED-122";
  EXPECT_EQ(idle[0].overhead, 3) << "SCHED-122: it waits for who is late";
  EXPECT_EQ(idle[0].drain, 3) << "SCHED-122: and for what is computed after its last";
  EXPECT_EQ(idle[0].sum(), 6) << "SCHED-122";
}

// However a rank took them: one begins with the first, and ends with the last of them.
void joined_computations(Context&) {
  Schedule schedule{.stages = 2,
                    .micro_batches = 2,
                    .stage_to_rank = {0, 0},
                    .ranks = {schedules::parse_row("0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,1B1,0B0,0B1", 1)}};
  RankPeriods periods(1);
  for (int i = 0; i < 8; ++i) periods[0].push_back({.start = 10.0 * i, .end = 10.0 * i + 4});
  const Timeline measured = schedules::timeline_of(schedule, periods, {});
  for (std::size_t i = 0; i < 8; ++i) {
    const bool is_joined = i == 2 || i == 3;
    EXPECT_EQ(measured.periods[i].start, is_joined ? 20 : periods[0][i].start) << "SCHED-122: action " << i;
    EXPECT_EQ(measured.periods[i].end, is_joined ? 34 : periods[0][i].end) << "SCHED-122: action " << i;
  }
  EXPECT_EQ(measured.ranks[0].work, 6 * 4 + 14) << "SCHED-122";
  // Messages that are posted together keep their own periods.
  schedule.ranks = {schedules::parse_row("0F0,(0SEND_F0;0RECV_B0)P2P,0B0", 1)};
  const Timeline posted = schedules::timeline_of(schedule, {{{0, 4}, {5, 6}, {7, 8}, {9, 10}}}, {});
  for (const std::size_t i : {1U, 2U}) EXPECT_EQ(posted.periods[i].end, i == 1 ? 6 : 8) << "SCHED-122";
  EXPECT_EQ(posted.ranks[0].work, 5) << "SCHED-122";
}

// Where nothing takes time, nothing is idle.
void no_time_at_all(Context&) {
  const Schedule schedule{
      .stages = 1, .micro_batches = 1, .stage_to_rank = {0}, .ranks = {schedules::parse_row("0F0,0B0", 1), {}}};
  SimulationOptions options;
  options.stages = {{.forward = 0, .input_gradient = 0, .weight_gradient = 0}};
  const Timeline found = schedules::simulate(schedule, options);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(found.ratio_of_total(rank), 0) << "SCHED-122";
    EXPECT_EQ(found.ratio_of_work(rank), 0) << "SCHED-122";
  }
  EXPECT_EQ(found.barrier_bubble(), 0) << "SCHED-122";
  EXPECT_EQ(Timeline().barrier_bubble(), 0) << "SCHED-122";
  const Timeline usual = schedules::simulate(schedule);
  EXPECT_EQ(usual.ratio_of_total(0), 0) << "SCHED-122";
  EXPECT_EQ(usual.ratio_of_total(1), 1) << "SCHED-122: a rank without work is idle";
  EXPECT_EQ(usual.ratio_of_work(1), 0) << "SCHED-122";
}

void timelines_refused(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  const Schedule schedule{
      .stages = 1, .micro_batches = 1, .stage_to_rank = {0}, .ranks = {schedules::parse_row("0F0,0B0", 1)}};
  RankPeriods periods{{{0, 1}, {1, 2}}};
  SimulationOptions options;
  if (fault == "rank_too_few") periods.pop_back();
  if (fault == "rank_too_many") periods.push_back({});
  if (fault == "period_too_few") periods[0].pop_back();
  if (fault == "period_too_many") periods[0].push_back({2, 3});
  if (fault == "options") options.stages.resize(3);
  const std::string said = refusal<InvalidArgument>([&] { (void)schedules::timeline_of(schedule, periods, options); });
  EXPECT_EQ(said == kNotRefused, fault == "nothing") << "SCHED-122: " << said;
  EXPECT_EQ(said.find("another error"), std::string::npos) << "SCHED-122: " << said;
}

// ---- the same, asked of an adapter ----

constexpr const char* kTimelineOf = "schedules.simulate";

json question_of_periods(const Schedule& schedule, const RankPeriods& periods) {
  json rows = json::array();
  for (const auto& of_rank : periods) {
    json& row = rows.emplace_back(json::array());
    for (const Period& period : of_rank) row.push_back({period.start, period.end});
  }
  return {{"ranks", rows_of(schedule)},
          {"stage_to_rank", schedule.stage_to_rank},
          {"num_stages", schedule.stages},
          {"durations", {{"F", 1}, {"I", 1}, {"W", 1}, {"B", 2}}},  // of which nothing measured depends
          {"periods", std::move(rows)}};
}

// Computations as early as they can be, each with a time of its own and late by some.
RankPeriods measured_periods(Random& random, const Schedule& schedule) {
  const Times times{.forward = static_cast<double>(random.between(1, 4)),
                    .input_gradient = static_cast<double>(random.between(1, 4)),
                    .weight_gradient = static_cast<double>(random.between(1, 4)),
                    .latency = static_cast<double>(random.between(0, 2))};
  const Run run = run_of(schedule, times);
  RankPeriods periods;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    auto& row = periods.emplace_back();
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const schedules::ActionKind kind = schedule.ranks[rank][i].kind;
      const double seconds = kind == schedules::ActionKind::forward          ? times.forward
                             : kind == schedules::ActionKind::input_gradient ? times.input_gradient
                             : kind == schedules::ActionKind::weight_gradient
                                 ? times.weight_gradient
                                 : times.input_gradient + times.weight_gradient;
      const double start = 2 * run.starts[rank][i];  // so that all are late, and nobody before its input
      row.push_back({.start = start, .end = start + seconds});
    }
  }
  return periods;
}

std::string problem_of_idle(const json& idle, double total) {
  double sum = 0;
  for (const auto& [cause, seconds] : idle.items()) {
    if (seconds.get<double>() < 0) return fmt::format("{} s of cause {}", seconds.dump(), cause);
    sum += seconds.get<double>();
  }
  return std::abs(sum - total) < 1e-9 ? "" : fmt::format("{} s of {} s of idle time have a cause", sum, total);
}
std::string problem_of_timeline(const Schedule& schedule, const RankPeriods& periods, const json& result) {
  double makespan = 0, most_work = 0;
  std::vector<double> works, spans;
  for (const auto& row : periods) {
    double work = 0;
    for (const Period& period : row) work += period.end - period.start;
    most_work = std::max(most_work, work);
    works.push_back(work);
    spans.push_back(row.empty() ? 0 : row.back().end - row.front().start - work);
    if (!row.empty()) makespan = std::max(makespan, row.back().end);
  }
  const json expected{{"makespan", makespan},
                      {"barrier_bubble", makespan - most_work},
                      {"span_bubble", spans},
                      {"peak_activations", peaks_of(schedule)}};
  if (std::string words = first_difference(expected, result); !words.empty()) return words;
  for (std::size_t rank = 0; rank < works.size(); ++rank)
    if (std::string words = problem_of_idle(result.at("idle").at(rank), makespan - works[rank]); !words.empty())
      return fmt::format("rank {}: {}", rank, words);
  return "";
}

void measured_timelines(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 40; ++trial) {
    const Schedule schedule = random_plan(random, false);
    const RankPeriods periods = measured_periods(random, schedule);
    const json args = question_of_periods(schedule, periods);
    const std::string problem = problem_of(context.adapter(), kTimelineOf, args, [&](const json& result) {
      return problem_of_timeline(schedule, periods, result);
    });
    if (!problem.empty()) return report_words(args.dump().substr(0, 500) + ": " + problem);
  }
}

const Schedule& two_that_overlap() {
  static const Schedule schedule{.stages = 1,
                                 .micro_batches = 2,
                                 .stage_to_rank = {0},
                                 .ranks = {schedules::parse_row("0F0,(0F1;0B0)OVERLAP_F_B,0B1")}};
  return schedule;
}
const RankPeriods& periods_that_overlap() {
  static const RankPeriods periods{
      {{.start = 0, .end = 1}, {.start = 2, .end = 4}, {.start = 2, .end = 5}, {.start = 5, .end = 7}}};
  return periods;
}
// Computations that start together are one, from 2 to 5.
void measured_overlap(Context& context) {
  report_words(problem_of(
      context.adapter(), kTimelineOf, question_of_periods(two_that_overlap(), periods_that_overlap()),
      [](const json& result) {
        return first_difference(
            {{"makespan", 7}, {"barrier_bubble", 1}, {"span_bubble", {1}}, {"peak_activations", {2}}}, result);
      }));
}

void measured_refused(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  RankPeriods periods = periods_that_overlap();
  report_words(problem_of(context.adapter(), kTimelineOf, question_of_periods(two_that_overlap(), periods),
                          [](const json& result) { return first_difference({{"makespan", 7}}, result); }));
  if (fault == "rank_too_few") periods.clear();
  if (fault == "rank_too_many") periods.push_back(periods.front());
  if (fault == "period_too_few") periods.front().pop_back();
  if (fault == "period_too_many") periods.front().push_back({.start = 7, .end = 8});
  report_words(problem_of_refusal_beside_answers(context.adapter(), kTimelineOf,
                                                 question_of_periods(two_that_overlap(), periods)));
}

// ---- where activations are kept ----

// Each one in a place of its own from its forward to what gives it up, and in no more places than there are at once.
void slots_of_their_own(Context& context) {
  const bool forward_only = context.parameters().text("run") == "forward_only";
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    Schedule schedule = random_plan(random, trial % 2 == 1);
    for (auto& actions : schedule.ranks)
      if (forward_only)
        std::erase_if(actions, [](const schedules::Action& one) {
          return schedules::is_compute(one.kind) && one.kind != schedules::ActionKind::forward;
        });
    const schedules::ActivationSlots found = schedules::activation_slots(schedule, forward_only);
    ASSERT_EQ(found.slots.size(), schedule.ranks.size()) << "SCHED-123";
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      std::map<std::pair<int, int>, int> kept;  // of stage and micro-batch
      int most = 0;
      for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
        const schedules::Action& action = schedule.ranks[rank][i];
        const int slot = found.slots[rank].at(i);
        const std::pair which{action.stage, action.micro_batch};
        if (!schedules::is_compute(action.kind)) {
          EXPECT_EQ(slot, schedules::kNoSlot) << "SCHED-123: of no computation";
          continue;
        }
        if (action.kind == schedules::ActionKind::forward) {
          for (const auto& [other, taken] : kept) EXPECT_NE(slot, taken) << "SCHED-123: two in one place";
          kept[which] = slot;
        }
        EXPECT_EQ(slot, kept.at(which)) << "SCHED-123: another place than the forward's";
        most = std::max(most, static_cast<int>(kept.size()));
        if (forward_only || action.kind == schedules::ActionKind::backward ||
            action.kind == schedules::ActionKind::weight_gradient)
          kept.erase(which);
      }
      EXPECT_EQ(found.counts.at(rank), most) << "SCHED-123: places of rank " << rank;
    }
  }
}

void slots_by_hand(Context&) {
  const auto slots = [](const char* row, bool forward_only) {
    return schedules::activation_slots(
        {.stages = 2, .micro_batches = 3, .stage_to_rank = {0, 0}, .ranks = {schedules::parse_row(row, 1)}},
        forward_only);
  };
  constexpr int kNone = schedules::kNoSlot;
  const auto reused = slots("0F0,,0F1,0B0,0F2,0I1,0W1,0B2", false);
  EXPECT_EQ(reused.slots[0], (std::vector<int>{0, kNone, 1, 0, 0, 1, 1, 0})) << "SCHED-123";
  EXPECT_EQ(reused.counts, (std::vector<int>{2})) << "SCHED-123";
  // Joined computations begin together: what one gives up, another one cannot have.
  const auto joined = slots("0F0,(0F1;0B0)OVERLAP_F_B,0F2", false);
  EXPECT_EQ(joined.slots[0], (std::vector<int>{0, 1, 0, 0})) << "SCHED-123";
  const auto forward_only = slots("0F0,(0F1;1F0)OVERLAP_F_B,0F2", true);
  EXPECT_EQ(forward_only.slots[0], (std::vector<int>{0, 0, 1, 0})) << "SCHED-123";
  EXPECT_EQ(forward_only.counts, (std::vector<int>{2})) << "SCHED-123";
  const auto said = [&](const char* row) { return refusal<InvalidArgument>([&] { (void)slots(row, false); }); };
  EXPECT_EQ(said("0F0,0B0,0F0,0B0"), kNotRefused) << "SCHED-123";
  EXPECT_NE(said("1F0,0F0,0F1,0F0").find("rank 0, position 3 (0F0), but its activation is already there"),
            std::string::npos)
      << "SCHED-123";
  EXPECT_NE(said("0F0,0B0,0B0").find("rank 0, position 2 (0B0), but its activation is not there"), std::string::npos)
      << "SCHED-123";
  EXPECT_NE(said("0F0,1W0").find("position 1 (1W0), but its activation is not there"), std::string::npos)
      << "SCHED-123";
}

}  // namespace

void add_timeline_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, std::vector<suite::Axis> axes, void (*body)(Context&)) {
    axes.push_back(suite::worlds({1}));
    suite.add({.id = std::string("schedules.timeline.") + name,
               .verifies = {"SCHED-122@2b2d"},
               .axes = std::move(axes),
               .body = body});
  };
  const auto add_asked = [&](const char* name, std::vector<suite::Axis> axes, void (*body)(Context&)) {
    suite.add({.id = std::string("schedules.timeline.") + name,
               .verifies = {"SCHED-122@2b2d"},
               .door = suite::Door::adapter,
               .axes = std::move(axes),
               .operations = {kTimelineOf},
               .options = options_of({{kTimelineOf, "fields", {"periods"}}}),
               .body = body});
  };
  add_asked("measured", {}, measured_timelines);
  add_asked("measured_overlap", {}, measured_overlap);
  add_asked("measured_refused", {{"fault", {"rank_too_few", "rank_too_many", "period_too_few", "period_too_many"}}},
            measured_refused);
  add("as_simulated", {{"rows", {"computations", "messages"}}}, as_simulated);
  add("idle_time", {{"ranks", {"in_time", "late"}}}, idle_time_of_late_ranks);
  add("idle_time_by_hand", {}, idle_time_by_hand);
  add("joined", {}, joined_computations);
  add("no_time", {}, no_time_at_all);
  suite.add({.id = "schedules.slots.of_their_own",
             .verifies = {"SCHED-123@3c42"},
             .axes = {{"run", {"trained", "forward_only"}}, suite::worlds({1})},
             .body = slots_of_their_own});
  suite.add({.id = "schedules.slots.by_hand",
             .verifies = {"SCHED-123@3c42"},
             .axes = {suite::worlds({1})},
             .body = slots_by_hand});
  add("refused",
      {{"fault", {"nothing", "rank_too_few", "rank_too_many", "period_too_few", "period_too_many", "options"}}},
      timelines_refused);
}

}  // namespace plumbline::conformance
