#include "harness/worker/reported_job.hpp"

#include <iostream>
#include <optional>

#include "harness/suite/job_error.hpp"
#include "harness/suite/machine_error.hpp"

namespace plumbline::worker {

std::string ReportedJob::run(int world, const std::filesystem::path& spec, const std::filesystem::path& record) {
  const RewriteRecord* rewrite = choose_();
  std::optional<job::RunSpec> given;
  if (rewrite != nullptr) given = job::read_run_spec(spec);
  std::string output;
  try {
    output = job_->run(world, spec, record);
  } catch (const suite::JobFailure& failure) {
    std::cout << failure.output() << std::flush;
    throw;
  } catch (const std::exception& error) {
    throw suite::MachineFailure(error.what());  // a program that never ran is not to blame
  }
  std::cout << output << std::flush;
  if (given) (*rewrite)(*given, record);
  return output;
}

}  // namespace plumbline::worker
