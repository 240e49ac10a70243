// The runner: Google Benchmark on rank 0 decides, every rank runs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sched.h>

#include "benchmarks/device_timing.hpp"
#include "benchmarks/windows.hpp"
#include "harness/bench/benchmark.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::bench {
namespace {

using Clock = std::chrono::steady_clock;
using comm::DType;

// The ranks that measure together. What they tell each other is where their data are: a backend may know no other
// memory.
class Ranks {
 public:
  Ranks(comm::Communicator& group, const device::MemorySpace& place) : world(group), place_(place) {
    if (place.is_host()) return;
    stream_.emplace(place.use().runtime, place.index());
    place_.use_stream(stream_->get());
    world.use_stream(stream_->get());
    timer_.emplace(place.use().runtime, place.index(), stream_->get());
  }
  ~Ranks() { world.use_stream(nullptr); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  comm::Communicator& world;

  [[nodiscard]] const device::MemorySpace& place() const { return place_; }
  /// Rank 0's number.
  [[nodiscard]] std::int64_t agree(std::int64_t number) {
    return told(number, DType::i64, [&](comm::Buffer at) { world.broadcast(at, 0); });
  }
  [[nodiscard]] double largest(double number) {
    return told(number, DType::f64, [&](comm::Buffer at) { world.all_reduce(at, at, comm::ReduceOp::max); });
  }
  [[nodiscard]] double smallest(double number) { return -largest(-number); }
  [[nodiscard]] std::int32_t sum(std::int32_t number) {
    return told(number, DType::i32, [&](comm::Buffer at) { world.all_reduce(at, at, comm::ReduceOp::sum); });
  }
  /// From now on, timed() has iterations begin at agreed times. Throws Unsupported where ranks have no clock in common.
  void begin_windows(Operation& operation) {
    require_one_clock();
    constexpr int kTries = 20, kTogether = 5;
    constexpr double kEnough = 0.2;  // seconds
    double shortest = timed(operation, 1), all = shortest;
    // The shortest: on a busy host others are as long as a rank has no core. All ranks have the same, by largest().
    for (int i = 0; i < kTries && all + kTogether * shortest < kEnough; ++i) {
      const double seconds = timed(operation, kTogether);
      all += seconds;
      shortest = std::min(shortest, seconds / kTogether);
    }
    windows_.emplace(shortest);
  }
  [[nodiscard]] std::map<std::string, double> window_facts() const {
    if (!windows_) return {};
    return {{"window_seconds", windows_->seconds()}, {"windows_missed_ratio", windows_->missed_ratio()}};
  }
  /// Seconds that the slowest rank needed for so many iterations.
  [[nodiscard]] double timed(Operation& operation, std::int64_t iterations) {
    if (windows_) return timed_in_windows(operation, iterations);
    world.barrier();
    if (timer_) timer_->begin();
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < iterations; ++i) operation.run();
    if (timer_) timer_->end();
    return largest(timer_ ? timer_->seconds() : std::chrono::duration<double>(Clock::now() - begin).count());
  }

 private:
  template <class Number, class Call>
  Number told(Number number, DType dtype, const Call& call) {
    std::byte* const at = room_.take(place_, sizeof number);
    place_.copy(at, &number, sizeof number);
    call(comm::Buffer{at, 1, dtype, place_.device()});
    place_.copy(&number, at, sizeof number);
    place_.synchronize();
    return number;
  }
  // Processes of one boot of one machine have one steady clock.
  void require_one_clock() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string boot;
    std::getline(file, boot);
    const auto hash = static_cast<double>(comm::Fnv1a().add(boot).value() >> 12);  // exact as f64
    if (largest(hash) != smallest(hash))
      throw Unsupported("--sync window: the ranks are on several machines, whose clocks differ; use --sync barrier");
  }
  // As if all iterations had taken the mean of a part of them.
  double timed_in_windows(Operation& operation, std::int64_t iterations) {
    for (;;) {
      const std::int64_t count = windows_->count(iterations);
      world.barrier();
      const auto window =
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(windows_->seconds()));
      // Ranks hear of it when they have a core, which windows that grew allow for.
      const auto lead =
          std::clamp<Clock::duration>(2 * window, std::chrono::microseconds(100), std::chrono::milliseconds(100));
      const auto first = Clock::time_point(Clock::duration(agree((Clock::now() + lead).time_since_epoch().count())));
      std::vector<double> slowest = run_in_windows(operation, count, first, window);
      world.all_reduce(comm::Buffer::of(slowest), comm::Buffer::of(slowest), comm::ReduceOp::max);
      const WindowTimes times = times_of_met(slowest);
      if (windows_->is_enough(times.met, count)) return times.mean * static_cast<double>(iterations);
    }
  }
  std::optional<WindowPlan> windows_;  // none: ranks begin when they leave a barrier
  device::MemorySpace place_;
  std::optional<device::OwnStream> stream_;  // of a device
  std::optional<StreamTimer> timer_;
  device::ScratchBuffer room_;
};

class Samples final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      seconds.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
      iterations = run.iterations;
    }
  }
  std::vector<double> seconds;
  std::int64_t iterations = 0;
};

void initialize_once() {
  static const bool done = [] {
    int count = 1;
    char name[] = "plumbline";
    char* arguments[] = {name, nullptr};
    benchmark::Initialize(&count, arguments);
    return true;
  }();
  (void)done;
}

nlohmann::json lead(Ranks& ranks, Operation& operation, int repetitions, double min_seconds) {
  initialize_once();
  benchmark::ClearRegisteredBenchmarks();
  std::exception_ptr failure;
  benchmark::RegisterBenchmark("operation",
                               [&](benchmark::State& state) {
                                 // One batch a run: an error of the subject must not leave Google Benchmark through its
                                 // C++ frames.
                                 const auto iterations = static_cast<std::int64_t>(state.max_iterations);
                                 while (state.KeepRunningBatch(state.max_iterations)) {
                                   try {
                                     if (failure)
                                       state.SetIterationTime(1);
                                     else
                                       state.SetIterationTime(ranks.timed(operation, ranks.agree(iterations)));
                                   } catch (...) {
                                     failure = std::current_exception();
                                     state.SetIterationTime(1);
                                   }
                                 }
                               })
      ->UseManualTime()
      ->MinTime(min_seconds)
      ->Repetitions(repetitions);
  Samples samples;
  benchmark::RunSpecifiedBenchmarks(&samples, "operation.*");
  benchmark::ClearRegisteredBenchmarks();
  if (failure) std::rethrow_exception(failure);
  (void)ranks.agree(0);  // that was all
  return {{"samples", samples.seconds}, {"iterations", samples.iterations}};
}

void follow(Ranks& ranks, Operation& operation) {
  while (const std::int64_t iterations = ranks.agree(-1)) (void)ranks.timed(operation, iterations);
}

// Until threads have found their cores, buffers their pages and processors their speed: until an iteration takes as
// long as in the window before, but for a twentieth, and not for ever on a busy host.
void warm_up(Ranks& ranks, Operation& operation) {
  constexpr std::chrono::milliseconds window{10}, least{30}, most{200};
  const auto begin = Clock::now();
  for (double before = 0;;) {
    const auto start = Clock::now();
    std::int64_t iterations = 0;
    do {
      operation.run();
      ++iterations;
    } while (ranks.agree(Clock::now() - start < window) != 0);
    const auto now = Clock::now();
    const double mean = std::chrono::duration<double>(now - start).count() / static_cast<double>(iterations);
    const bool is_stable = std::abs(mean - before) <= before / 20;
    before = mean;
    if (ranks.agree(now - begin >= most || (now - begin >= least && is_stable)) != 0) return;
  }
}

void pin_to_core(int rank) {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  int wanted = rank % std::max(1, CPU_COUNT(&usable));
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &usable) || wanted-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// Whether this thread may run on one core alone, whoever bound it.
bool is_pinned() {
  cpu_set_t usable;
  return ::sched_getaffinity(0, sizeof usable, &usable) == 0 && CPU_COUNT(&usable) == 1;
}

// Of the core that this thread is on, as the kernel reports it; 0 where it does not.
double clock_hertz() {
  const int core = ::sched_getcpu();
  double kilohertz = 0;
  std::ifstream scaling(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", core));
  if (scaling >> kilohertz) return kilohertz * 1e3;
  std::ifstream file("/proc/cpuinfo");
  bool is_own = false;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    if (line.starts_with("processor")) is_own = std::strtol(line.c_str() + colon + 1, nullptr, 10) == core;
    if (is_own && line.starts_with("cpu MHz")) return std::strtod(line.c_str() + colon + 1, nullptr) * 1e6;
  }
  return 0;
}

// For how long this thread was ready to run and had no core; 0 where the kernel does not count it.
double seconds_without_core() {
  std::ifstream file("/proc/thread-self/schedstat");
  double running = 0, waiting = 0;
  return file >> running >> waiting ? waiting * 1e-9 : 0;
}

// Of a loop that uses no memory: it is slower where the core is, or is shared.
double calibration_seconds() {
  double best = std::numeric_limits<double>::infinity();
  for (int repetition = 0; repetition < 3; ++repetition) {
    const auto begin = Clock::now();
    std::uint64_t state = 1;
    for (int i = 0; i < 100'000; ++i) state = state * 6364136223846793005U + 1442695040888963407U;
    benchmark::DoNotOptimize(state);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

// What says whether the host was too busy, from where it is made on; of the slowest rank.
class HostWatch {
 public:
  [[nodiscard]] nlohmann::json facts(Ranks& ranks) const {
    const double waited = seconds_without_core() - waited_;
    const double share = waited / std::chrono::duration<double>(Clock::now() - begin_).count();
    nlohmann::json facts{{"waited", ranks.largest(std::min(share, 1.0))},
                         {"calibration_seconds", ranks.largest(std::max(calibration_, calibration_seconds()))},
                         {"pinned", ranks.smallest(is_pinned() ? 1 : 0)}};
    if (const double hertz = ranks.smallest(std::min(clock_, clock_hertz())); hertz > 0) facts["clock_hertz"] = hertz;
    return facts;
  }

 private:
  double calibration_ = calibration_seconds();
  double clock_ = clock_hertz();
  double waited_ = seconds_without_core();
  Clock::time_point begin_ = Clock::now();
};

// Whether there is an answer to be right.
bool require_right_answer(Ranks& ranks, Operation& operation, const std::string& name) {
  operation.run();
  const std::optional<bool> right = operation.check();
  if (const std::int32_t wrong = ranks.sum(right.value_or(true) ? 0 : 1); wrong != 0)
    throw RuntimeFailure(fmt::format("{}: the answer is wrong on {} of {} ranks", name, wrong, ranks.world.size()));
  return right.has_value();
}

}  // namespace

nlohmann::json measure(const Registry& registry, comm::Communicator& world, const device::MemorySpace& place,
                       const nlohmann::json& arguments) {
  const std::string name = arguments.at("benchmark");
  const auto benchmark = std::ranges::find(registry, name, &Benchmark::name);
  if (benchmark == registry.end()) throw NotFound(fmt::format("no benchmark '{}'", name));
  if (arguments.value("pin", false)) pin_to_core(world.rank());
  Ranks ranks(world, place);
  if (benchmark->study) return benchmark->study(world, ranks.place(), arguments);
  const Parameters parameters{.bytes = arguments.value("bytes", std::int64_t{0}),
                              .dtype = comm::parse_dtype(arguments.value("dtype", "f32")).value(),
                              .place = ranks.place()};
  const auto operation = benchmark->prepare(world, parameters);
  (void)require_right_answer(ranks, *operation, name);
  warm_up(ranks, *operation);
  if (arguments.value("sync", "barrier") == "window") ranks.begin_windows(*operation);
  const HostWatch watch;
  nlohmann::json result;
  if (world.rank() == 0)
    result = lead(ranks, *operation, arguments.at("repetitions"), arguments.at("min_seconds"));
  else
    follow(ranks, *operation);
  const nlohmann::json host = watch.facts(ranks);
  const bool checked = require_right_answer(ranks, *operation, name);
  if (world.rank() != 0) return result;
  result["checked"] = checked;
  result["host"] = host;
  result["host"].update(ranks.window_facts());
  result["bytes"] = operation->bytes();
  result["derived"] = operation->derived();
  return result;
}

}  // namespace plumbline::bench
