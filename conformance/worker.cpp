// lib/plumbline/libplumbline_worker.so: the suite, and what a worker process does with it. Opened by the executable, so
// that commands which need neither start at once.
#include "harness/worker/worker.hpp"

#include "conformance/suite.hpp"
#include "conformance/training/averaging/averaging_tasks.hpp"
#include "conformance/training/training_tasks.hpp"
#include "harness/bench/benchmark.hpp"
#include "harness/subject/backend.hpp"
#include "harness/subject/modules.hpp"

namespace plumbline::conformance {
namespace {

const suite::Suite& the_suite() {
  // Left to the end of the process, which frees it all at once.
  static const suite::Suite& suite = *make_suite().release();
  return suite;
}

void bench_task(worker::TaskRank& rank) {
  const auto benchmarks = reinterpret_cast<bench::BenchmarksFunction*>(
      subject::open_module("benchmarks", bench::kBenchmarksSymbol, "the benchmarks"));
  const nlohmann::json result = benchmarks()->measure(benchmarks()->registry, rank.world, rank.place, rank.arguments);
  if (rank.world.rank() == 0) rank.output(result);
}

const std::map<std::string, worker::Task>& tasks() {
  static const std::map<std::string, worker::Task> tasks{
      {"bench", bench_task},     {"train", train_task}, {"judge", judge_task},
      {"average", average_task}, {"alone", alone_task}, {"judge_averaging", judge_averaging_task},
  };
  return tasks;
}

}  // namespace
}  // namespace plumbline::conformance

PLUMBLINE_EXPORT const plumbline::suite::Suite* plumbline_suite() { return &plumbline::conformance::the_suite(); }

PLUMBLINE_EXPORT int plumbline_worker_main(int argc, char** argv) {
  return plumbline::worker::main(argc, argv, plumbline::conformance::the_suite(), plumbline::conformance::tasks());
}
