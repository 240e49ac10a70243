// harness/subject/nccl/job.hpp: what all groups of a process need: its messages, and NCCL's communicator of the job.
//
// Model   What one rank has in its stream may wait for what another one has still to put into NCCL: its half of a
//         message, or a call that it started after another. That one continues by itself, whatever its caller does
//         meanwhile: the caller may wait for its own stream, and makes no call until that ends. A thread of the process
//         sees to it, and tells the others what goes wrong.
#pragma once

#include <memory>
#include <vector>

#include "harness/subject/nccl/messages.hpp"
#include "harness/subject/nccl/progress_thread.hpp"

namespace plumbline::subject::nccl {

class Group;

class Job {
 public:
  /// Throws as Process, and RuntimeFailure where there is no thread to be had.
  Job(const Options& options, Place place, std::shared_ptr<device::Runtime> runtime = nullptr);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Process process;
  Messages messages;          // in a Turn, like `all`
  std::unique_ptr<Lane> all;  // carries no calls: groups of all ranks are split from it

  // In a Turn.
  /// A group that makes calls, until it goes.
  void enter(Group& group) { groups_.push_back(&group); }
  void remove(const Group& group) noexcept { std::erase(groups_, &group); }
  /// Lets the thread go on with what NCCL, or another rank, does not take yet.
  void go_on();

 private:
  Step pump();

  std::vector<Group*> groups_;
  ProgressThread thread_;
};

}  // namespace plumbline::subject::nccl
