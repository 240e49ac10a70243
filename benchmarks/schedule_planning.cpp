// What planning a pipeline costs: ninja schedule_planning && build/tests/schedule_planning
//
// Model   A row a step and schedule, "<step>/<schedule>/<ranks>/<micro-batches>", two stages a rank where it has
//         several.
//         Steps: generate (its computations), lower (messages put in, ours), simulate (with the messages), all (the
//         three, one after the other), first (the same in memory that the system hands out again), check (that the
//         lowered schedule is right), torch (PyTorch's order with PyTorch's lowering, which anchors/schedules_torch.py
//         holds against PyTorch). CPU time of one thread; per_action is that time over the actions of the lowered
//         schedule, for generate too. Beside the mean stands the least of all times, in seconds: what it costs where
//         nothing else wants the processor and its cache. What is made is freed outside of it.
// Answers Before the rows of a schedule its bubble is compared with the closed form of it, and check() has to find it
//         right, unless it is very large.
// Memory  What is freed is kept for the next time where the C library can be told so: else the rows would show how long
//         the system takes to hand out fresh pages. A first plan pays for those: the step first.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <benchmark/benchmark.h>

#include "reference/schedules/checker.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/schedules/simulator.hpp"

namespace {

using namespace plumbline::schedules;

constexpr std::size_t kManyActions = 10'000'000;  // checked once elsewhere, and measured once

struct Case {
  ScheduleKind schedule_kind = ScheduleKind::one_f_one_b;
  Shape shape;
  // The barrier bubble with computations of a second each, over the ranks but one.
  double bubble_of_hop = 3;
  [[nodiscard]] std::string name() const {
    return std::string(name_of(schedule_kind)) + '/' + std::to_string(shape.ranks) + '/' +
           std::to_string(shape.micro_batches);
  }
};

std::vector<Case> cases() {
  struct Row {
    ScheduleKind schedule_kind;
    int stages_per_rank;
    double bubble_of_hop;
  };
  const std::vector<Row> rows{{ScheduleKind::gpipe, 1, 3},       {ScheduleKind::one_f_one_b, 1, 3},
                              {ScheduleKind::interleaved, 2, 3}, {ScheduleKind::interleaved_zero_bubble, 2, 1},
                              {ScheduleKind::zbv, 2, 1},         {ScheduleKind::dualpipev, 2, 2}};
  std::vector<Case> cases;
  for (const auto& [ranks, micro_batches] : {std::pair{8, 64}, {8, 512}, {64, 128}, {64, 512}})
    for (const Row& row : rows)
      cases.push_back({row.schedule_kind, {ranks, micro_batches, row.stages_per_rank}, row.bubble_of_hop});
  for (const auto& [ranks, micro_batches] : {std::pair{64, 2560}, {64, 10240}, {1024, 8192}})
    cases.push_back({ScheduleKind::one_f_one_b, {ranks, micro_batches, 1}, 3});
  return cases;
}

std::size_t count_actions(const Schedule& schedule) {
  std::size_t count = 0;
  for (const auto& row : schedule.ranks) count += row.size();
  return count;
}

[[noreturn]] void fail(const Case& one, const std::string& what) {
  std::fprintf(stderr, "schedule_planning: %s: %s\n", one.name().c_str(), what.c_str());
  std::exit(1);
}

// The lowered schedule of the case, whose answers are right.
Schedule prepare(const Case& one) {
  Schedule lowered = lower(generate(one.schedule_kind, one.shape));
  const double bubble = simulate(lowered).barrier_bubble(), expected = one.bubble_of_hop * (one.shape.ranks - 1);
  if (bubble != expected) fail(one, "the bubble is " + std::to_string(bubble) + ", not " + std::to_string(expected));
  if (count_actions(lowered) < kManyActions && !check(lowered).valid()) fail(one, "the lowered schedule is not right");
  return lowered;
}

void keep_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}
void give_memory_back() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Times `step`, whose result is thrown away. Before each time comes `prepare`, while the clock stands still.
template <class Step, class Prepare>
void measure(benchmark::State& state, std::size_t actions, const Step& step, const Prepare& prepare) {
  double least = std::numeric_limits<double>::infinity();
  for ([[maybe_unused]] const auto _ : state) {
    state.PauseTiming();
    prepare();
    state.ResumeTiming();
    const double begin = processor_seconds();
    const auto made = step();
    least = std::min(least, processor_seconds() - begin);
    benchmark::DoNotOptimize(made);
  }
  state.counters["actions"] = static_cast<double>(actions);
  state.counters["least"] = least;
  state.counters["per_action"] = benchmark::Counter(
      static_cast<double>(actions), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
template <class Step>
void measure(benchmark::State& state, std::size_t actions, const Step& step) {
  measure(state, actions, step, [] {});
}

using Step = void (*)(benchmark::State&, const Case&);

// Inputs are made, and answers checked, once a row and outside of what is timed.
void time_generate(benchmark::State& state, const Case& one) {
  measure(state, count_actions(prepare(one)), [&] { return generate(one.schedule_kind, one.shape); });
}
void time_lower(benchmark::State& state, const Case& one) {
  const Schedule schedule = generate(one.schedule_kind, one.shape);
  measure(state, count_actions(prepare(one)), [&] { return lower(schedule); });
}
void time_simulate(benchmark::State& state, const Case& one) {
  const Schedule lowered = prepare(one);
  measure(state, count_actions(lowered), [&] { return simulate(lowered); });
}
struct Planned {
  Schedule schedule, lowered;
  Timeline timeline;
};
Planned plan(const Case& one) {
  Planned planned{.schedule = generate(one.schedule_kind, one.shape), .lowered = {}, .timeline = {}};
  planned.lowered = lower(planned.schedule);
  planned.timeline = simulate(planned.lowered);
  return planned;
}
void time_all(benchmark::State& state, const Case& one) {
  measure(state, count_actions(prepare(one)), [&] { return plan(one); });
}
void time_first(benchmark::State& state, const Case& one) {
  measure(state, count_actions(prepare(one)), [&] { return plan(one); }, give_memory_back);
}
void time_check(benchmark::State& state, const Case& one) {
  const Schedule lowered = prepare(one);
  measure(state, count_actions(lowered), [&] { return check(lowered); });
}
void time_torch(benchmark::State& state, const Case& one) {
  measure(state, count_actions(add_send_recv(generate_as_torch(one.schedule_kind, one.shape))),
          [&] { return add_send_recv(generate_as_torch(one.schedule_kind, one.shape)); });
}

void add_rows() {
  const std::vector<std::pair<const char*, Step>> steps{
      {"generate", time_generate}, {"lower", time_lower}, {"simulate", time_simulate}, {"all", time_all},
      {"first", time_first},       {"check", time_check}, {"torch", time_torch}};
  for (const Case& one : cases()) {
    const bool large = one.shape.ranks * std::int64_t{one.shape.micro_batches} > 1'000'000;
    for (const auto& [name, step] : steps) {
      auto* const row = benchmark::RegisterBenchmark((std::string(name) + '/' + one.name()).c_str(),
                                                     [step = step, one](benchmark::State& state) { step(state, one); });
      row->Unit(benchmark::kMillisecond);
      if (large) row->Iterations(1);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  keep_memory();
  add_rows();
  benchmark::Initialize(&count, words);
  if (benchmark::ReportUnrecognizedArguments(count, words)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
