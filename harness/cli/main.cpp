// The executable: everything that it checks with comes from the worker library, opened when it is needed.
#include "harness/cli/program.hpp"
#include "harness/subject/modules.hpp"

int main(int argc, char** argv) {
  using plumbline::subject::open_module;
  using plumbline::suite::Suite;
  const plumbline::cli::Program program{
      .suite = []() -> const Suite& {
        const auto suite = reinterpret_cast<const Suite* (*)()>(open_module("worker", "plumbline_suite", "the checks"));
        return *suite();
      },
      .worker =
          [](int count, char** arguments) {
            const auto worker =
                reinterpret_cast<int (*)(int, char**)>(open_module("worker", "plumbline_worker_main", "the checks"));
            return worker(count, arguments);
          },
  };
  return plumbline::cli::run(argc, argv, program);
}
