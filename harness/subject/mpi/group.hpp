// harness/subject/mpi/group.hpp: what a communicator of a group shares with the calls that it started.
//
// Model   Failure is local: MPI has no way to tell the other members. The first failure stays; abort()
//         reaches the groups made from this one. The MPI communicator is given back with the last that
//         needs it, unless the group failed: then calls may still be under way in it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <mpi.h>

#include "harness/subject/invitation.hpp"
#include "harness/subject/mpi/runtime.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::mpi {

class MpiGroup {
 public:
  /// Makes the group of those world ranks, the caller among them, from the group with the id `parent` (kNoParent: a
  /// world). Collective over them. `name` is the group's; an empty one stands for "[0 2]", or "[0 2] #2" for the second
  /// group of that list and parent. Throws RuntimeFailure.
  static std::shared_ptr<MpiGroup> create(std::shared_ptr<Runtime> runtime, std::uint64_t parent,
                                          std::vector<int> world_ranks, std::string name);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  const std::shared_ptr<Runtime> runtime;
  const comm::Group identity;
  const MPI_Comm handle;
  const int rank;
  const int size;
  const std::int64_t segment_elements;

  /// A group of some of the members; abort() reaches it. Collective over them. Throws PeerFailed,
  /// RuntimeFailure.
  [[nodiscard]] std::shared_ptr<MpiGroup> create_subgroup(std::vector<int> world_ranks);
  /// The group of all members and of newcomers; abort() reaches it on members. A newcomer, who has none, joins it: all
  /// are processes of MPI's first communicator. Collective over them. Throws InvalidArgument, PeerFailed,
  /// RuntimeFailure.
  [[nodiscard]] std::shared_ptr<MpiGroup> grow(const Invitation& invitation, std::span<const int> newcomers);
  [[nodiscard]] static std::shared_ptr<MpiGroup> join(std::shared_ptr<Runtime> runtime, const Invitation& invitation,
                                                      std::span<const int> newcomers);

  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
  void fail(const std::string& reason) noexcept;
  void abort(const std::string& reason) noexcept;
  /// Throws PeerFailed, saying why the group has failed.
  [[noreturn]] void throw_failed() const;
  /// Fails the group with an MPI error and throws it as RuntimeFailure.
  [[noreturn]] void throw_error(const comm::Call& call, int code);
  [[noreturn]] void throw_error(const std::string& place, int code);
  /// Fails the group and throws TimeoutError: one of `ranks` is late, and MPI does not tell which.
  [[noreturn]] void throw_late(const std::string& place, std::chrono::nanoseconds limit, std::span<const int> ranks);
  /// Fails the group and throws RuntimeFailure unless a received message has as many elements as the call
  /// asked for.
  void check_length(const comm::Call& receive, const MPI_Status& status);
  /// All members but this one.
  [[nodiscard]] std::vector<int> others() const;
  /// "all_reduce(f32 x 5, sum) on world [0 1], rank 0".
  [[nodiscard]] std::string place(const comm::Call& call) const { return place(describe(call, size)); }
  [[nodiscard]] std::string place(const std::string& call) const;

 private:
  MpiGroup(std::shared_ptr<Runtime> runtime, comm::Group identity);
  [[nodiscard]] std::string place() const;
  void add_subgroup(const std::shared_ptr<MpiGroup>& subgroup);

  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::string reason_;
  std::vector<std::weak_ptr<MpiGroup>> subgroups_;
};

}  // namespace plumbline::subject::mpi
