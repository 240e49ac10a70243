// The executable: everything that it checks with comes from the worker library, opened when it is needed.
#include <csignal>

#include "harness/cli/bench_studies.hpp"
#include "harness/cli/program.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/python_rank.hpp"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that is too large is an error of write(), which says which one
  using plumbline::subject::open_module;
  using plumbline::suite::Suite;
  const plumbline::cli::Program program{
      .suite = []() -> const Suite& {
        const auto suite = reinterpret_cast<const Suite* (*)()>(open_module("worker", "plumbline_suite", "the checks"));
        return *suite();
      },
      .worker =
          [](int count, char** arguments) {
            plumbline::subject::become_python_rank(count, arguments);
            const auto worker =
                reinterpret_cast<int (*)(int, char**)>(open_module("worker", "plumbline_worker_main", "the checks"));
            return worker(count, arguments);
          },
      .studies = {{"allreduce_fusion", plumbline::cli::add_bench_fusion},
                  {"pipeline_bubble", plumbline::cli::add_bench_pipeline}},
  };
  return plumbline::cli::run(argc, argv, program);
}
