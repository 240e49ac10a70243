// Runs the tests under mpirun: mpi_test [--faults] [option=value…]. A rank that fails ends the job, since the
// others would wait for it. --faults runs the tests that leave calls behind which nobody completes: the
// backend does not end MPI after those, so this program starts and ends it.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <mpi.h>

#include "harness/subject/modules.hpp"
#include "harness/subject/mpi/job_test.hpp"

namespace plumbline::subject::mpi {
namespace {

std::unique_ptr<Backend> opened;
BackendOptions options;

class EndJobAtFirstFailure : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d of %d: %s:%d: %s\n", job().rank(), job().size(),
                 result.file_name() != nullptr ? result.file_name() : "?", result.line_number(), result.message());
    std::_Exit(1);
  }
};

int run(bool faults) {
  opened = open_backend("mpi", options);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (job().rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new EndJobAtFirstFailure);
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, faults ? "MpiFaults.*" : "-MpiFaults.*");
  const int status = RUN_ALL_TESTS();
  opened.reset();
  return status;
}

}  // namespace

Backend& job() { return *opened; }
const BackendOptions& job_options() { return options; }

}  // namespace plumbline::subject::mpi

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool faults = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    if (argument == "--faults")
      faults = true;
    else if (equals != argument.npos)
      plumbline::subject::mpi::options[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  int provided = 0;
  if (faults) MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  const int status = plumbline::subject::mpi::run(faults);
  int ended = 0;
  MPI_Finalized(&ended);
  if (faults) MPI_Finalize();
  return status != 0 || ended == (faults ? 1 : 0) ? 1 : 0;
}
