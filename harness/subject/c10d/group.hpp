// harness/subject/c10d/group.hpp: a process group of torch.distributed, shared by a communicator and the calls that it
// started.
//
// Model   It is destroyed with the last that needs it. One that has failed is kept until the process ends: destroying
//         it would wait for calls that never complete.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "harness/subject/c10d/job.hpp"

namespace c10d {
class ProcessGroup;
}

namespace plumbline::subject::c10d_backend {

class Group {
 public:
  /// The world of the job's first `ranks` ranks. Collective over them.
  [[nodiscard]] static std::shared_ptr<Group> world(std::shared_ptr<Job> job, int ranks);
  /// A group of members of this one, given as positions in it. Collective over them.
  [[nodiscard]] std::shared_ptr<Group> create(std::span<const int> ranks);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::shared_ptr<Job> job;
  const comm::Group identity;
  const int rank;
  const int size;

  [[nodiscard]] ::c10d::ProcessGroup& process_group() const;
  /// Throws PeerFailed after a failure.
  void expect_sound() const;
  /// Calls on this group throw PeerFailed from now on. Any thread.
  void fail(const std::string& reason) noexcept;
  /// The same of this group and of those created from it, and aborts their process groups.
  void abort(const std::string& reason) noexcept;
  /// "all_reduce(f32 x 5, sum) on world [0 1], rank 0".
  [[nodiscard]] std::string where(const comm::Call& call) const { return where(describe(call, size)); }
  [[nodiscard]] std::string where(const std::string& call) const;

 private:
  struct Handle;
  Group(std::shared_ptr<Job> job, comm::Group identity);
  [[nodiscard]] std::string where() const;

  std::unique_ptr<Handle> handle_;
  std::atomic<bool> has_failed_{false};
  mutable std::mutex mutex_;
  std::string reason_;
  std::vector<std::weak_ptr<Group>> subgroups_;
};

}  // namespace plumbline::subject::c10d_backend
