// harness/subject/job/job_program.hpp: runs a training program as the ranks of a job.
//
// Model   The command runs through sh -c, once a rank, or once for all where it starts its ranks itself; in our working
//         directory, with the environment that torchrun gives (README.md). When a rank fails the others get some
//         seconds of grace; then, or when the time is up, what still runs is asked by SIGTERM and killed. Whatever
//         happens, nothing that the program has started is left.
// Hangs   When the time is up, ranks that still run are first asked where they stand: by SIGUSR1, if they catch it,
//         then Python interpreters by SIGABRT, if they catch that (their environment has PYTHONFAULTHANDLER); of others
//         JobOptions::stacks has the stacks. What each rank recorded last is in the message, too.
// Skips   A file `unsupported` in the record's folder, or status 77 of all ranks that ended by themselves, is
//         JobUnsupported.
// Server  A program that serves its ranks (job_server.hpp) is started with the first run, and again where it cannot
//         serve.
// Threads One run at a time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "harness/subject/job/job_server.hpp"
#include "harness/suite/check.hpp"
#include "harness/suite/job_error.hpp"

namespace plumbline::subject {

struct JobOptions {
  std::string command;
  bool launches_ranks = false;
  bool serves_ranks = false;
  /// Of one run, as long as end_by() was not called.
  std::chrono::milliseconds limit = std::chrono::seconds(60);
  /// For the other ranks, once one has failed: they may have something to say of it.
  std::chrono::milliseconds grace = std::chrono::seconds(3);
  /// The stacks of all threads of these processes, where they can be seen from outside.
  std::function<std::string(const std::vector<pid_t>&)> stacks = {};
  /// Called now and then while hung ranks are asked where they stand, which takes seconds beyond the deadline.
  std::function<void()> asking = {};
};

class JobProgram final : public suite::Job {
 public:
  /// Throws InvalidArgument for an empty command.
  explicit JobProgram(JobOptions options);
  std::string run(int world, const std::filesystem::path& spec, const std::filesystem::path& record) override;
  void end_by(std::chrono::steady_clock::time_point deadline) override { deadline_ = deadline; }

 private:
  JobOptions options_;
  std::unique_ptr<JobServer> server_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
};

}  // namespace plumbline::subject
