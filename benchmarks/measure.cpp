// The runner: Google Benchmark on rank 0 decides, every rank runs.
#include <algorithm>
#include <chrono>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sched.h>

#include "harness/bench/benchmark.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bench {
namespace {

using Clock = std::chrono::steady_clock;
using comm::DType;

// The number of iterations that rank 0 wants next; 0: that was all.
std::int64_t agree(comm::Communicator& world, std::int64_t iterations) {
  world.broadcast({&iterations, 1, DType::i64}, 0);
  return iterations;
}

// Seconds that the slowest rank needed for so many iterations.
double timed(comm::Communicator& world, Operation& operation, std::int64_t iterations) {
  world.barrier();
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < iterations; ++i) operation.run();
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  world.all_reduce({&seconds, 1, DType::f64}, {&seconds, 1, DType::f64}, comm::ReduceOp::max);
  return seconds;
}

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

nlohmann::json lead(comm::Communicator& world, Operation& operation, int repetitions, double min_seconds) {
  initialize_once();
  benchmark::ClearRegisteredBenchmarks();
  std::exception_ptr failure;
  benchmark::RegisterBenchmark("operation",
                               [&](benchmark::State& state) {
                                 // One batch a run: an error of the subject must not leave Google Benchmark through its C++ frames.
                                 const auto iterations = static_cast<std::int64_t>(state.max_iterations);
                                 while (state.KeepRunningBatch(state.max_iterations)) {
                                   try {
                                     if (failure)
                                       state.SetIterationTime(1);
                                     else
                                       state.SetIterationTime(timed(world, operation, agree(world, iterations)));
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
  agree(world, 0);
  return {{"samples", samples.seconds}, {"iterations", samples.iterations}};
}

void follow(comm::Communicator& world, Operation& operation) {
  while (const std::int64_t iterations = agree(world, -1)) (void)timed(world, operation, iterations);
}

// Until threads have found their cores and buffers their pages.
void warm_up(comm::Communicator& world, Operation& operation) {
  const auto begin = Clock::now();
  std::int64_t go_on = 1;
  do {
    operation.run();
    go_on = Clock::now() - begin < std::chrono::milliseconds(30);
    world.broadcast({&go_on, 1, DType::i64}, 0);
  } while (go_on != 0);
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

// Whether there is an answer to be right.
bool require_right_answer(comm::Communicator& world, Operation& operation, const std::string& name) {
  operation.run();
  const std::optional<bool> right = operation.check();
  std::int32_t wrong = right.value_or(true) ? 0 : 1;
  world.all_reduce({&wrong, 1, DType::i32}, {&wrong, 1, DType::i32}, comm::ReduceOp::sum);
  if (wrong != 0)
    throw RuntimeFailure(fmt::format("{}: the answer is wrong on {} of {} ranks", name, wrong, world.size()));
  return right.has_value();
}

}  // namespace

nlohmann::json measure(const Registry& registry, comm::Communicator& world, const nlohmann::json& arguments) {
  const std::string name = arguments.at("benchmark");
  const auto benchmark = std::ranges::find(registry, name, &Benchmark::name);
  if (benchmark == registry.end()) throw NotFound(fmt::format("no benchmark '{}'", name));
  if (arguments.value("pin", false)) pin_to_core(world.rank());
  if (benchmark->study) return benchmark->study(world, arguments);
  const Parameters parameters{.bytes = arguments.value("bytes", std::int64_t{0}),
                              .dtype = comm::parse_dtype(arguments.value("dtype", "f32")).value()};
  const auto operation = benchmark->prepare(world, parameters);
  (void)require_right_answer(world, *operation, name);
  warm_up(world, *operation);
  nlohmann::json result;
  if (world.rank() == 0)
    result = lead(world, *operation, arguments.at("repetitions"), arguments.at("min_seconds"));
  else
    follow(world, *operation);
  const bool checked = require_right_answer(world, *operation, name);
  if (world.rank() != 0) return result;
  result["checked"] = checked;
  result["bytes"] = operation->bytes();
  result["derived"] = operation->derived();
  return result;
}

}  // namespace plumbline::bench
