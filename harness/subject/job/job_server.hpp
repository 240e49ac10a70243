// harness/subject/job/job_server.hpp: a training program that is started once and forks its ranks.
//
// Model   The command runs once, with PLUMBLINE_JOB_SERVER in its environment and a Unix socket of sequenced packets as
//         standard input. It imports what it needs, sends "ready", and forks a process for each packet: JSON with the
//         variables that the rank has beyond the server's environment, and two descriptors, the rank's output and its
//         control stream. On the latter the rank says "started PID" once it leads a process group of its own, and the
//         server how it ended: "exited N" or "signaled N" (README.md).
// Ends    What the ranks of a run have started and left is killed before the next run. A rank whose server is gone
//         counts as killed.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "harness/subject/job/rank_process.hpp"

namespace plumbline::subject {

class JobServer {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Starts the program. Throws RuntimeFailure.
  JobServer(std::string command, std::vector<std::string> environment);

  /// Waits until it is ready. Throws suite::JobCrashed where it ends before, JobAbsent where the shell did not find it,
  /// and JobHung where it still runs at the deadline.
  void wait_until_ready(Deadline deadline);
  /// Has it fork a rank with these variables, NAME=value, and this descriptor as its output. One that did not start
  /// within the deadline, or since the server is gone, ended by SIGKILL.
  [[nodiscard]] std::unique_ptr<Process> fork_rank(const std::vector<std::string>& variables, int output,
                                                   Deadline deadline);
  /// Whether one did not start since the server is gone.
  [[nodiscard]] bool lost_a_rank() const { return lost_a_rank_; }
  /// Kills all ranks, and all that they started and left, and has the server go on where one of them stopped it. False
  /// where it cannot serve any more.
  [[nodiscard]] bool end_ranks();

 private:
  [[noreturn]] void fail_to_serve();

  std::string command_;
  Descriptor requests_;
  std::unique_ptr<RankProcess> server_;
  std::set<pid_t> own_;  // the processes of the server itself
  bool ready_ = false;
  bool lost_a_rank_ = false;
};

}  // namespace plumbline::subject
