// harness/subject/job/job_program.hpp: runs a training program as the ranks of a job.
//
// Model   The command runs through sh -c, once a rank, or once for all where it starts its ranks itself; in our working
//         directory, with the environment that torchrun gives (README.md). When a rank fails the others get some seconds
//         of grace; then, or when the time is up, what still runs is asked by SIGTERM and killed. Whatever happens,
//         nothing that the program has started is left.
// Threads One run at a time.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "harness/suite/check.hpp"
#include "harness/suite/job_error.hpp"

namespace plumbline::subject {

struct JobOptions {
  std::string command;
  bool launches_ranks = false;
  /// Of one run, as long as end_by() was not called.
  std::chrono::milliseconds limit = std::chrono::seconds(60);
  /// For the other ranks, once one has failed: they may have something to say of it.
  std::chrono::milliseconds grace = std::chrono::seconds(3);
};

class JobProgram final : public suite::Job {
 public:
  /// Throws InvalidArgument for an empty command.
  explicit JobProgram(JobOptions options);
  std::string run(int world, const std::filesystem::path& spec, const std::filesystem::path& record) override;
  void end_by(std::chrono::steady_clock::time_point deadline) override { deadline_ = deadline; }

 private:
  JobOptions options_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
};

}  // namespace plumbline::subject
