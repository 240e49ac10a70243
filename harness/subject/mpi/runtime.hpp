// harness/subject/mpi/runtime.hpp: this process's part in the MPI job, from MPI_Init to MPI_Finalize.
//
// Model   Shared by the backend and all that it made; MPI ends with the last of them, which has to go in
//         the thread that opened the backend.
//         Groups are made from one communicator of all processes that carries nothing else: Open MPI sends
//         the messages of MPI_Comm_create_group among the user's, with the given tag, where a receive under
//         way could take them.
// Source  MPI-3.1 sections 6.4.2 (MPI_Comm_create_group), 8.7 (start and end), 12.4 (threads).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "harness/subject/mpi/arithmetic.hpp"
#include "harness/subject/mpi/options.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::mpi {

class Runtime {
 public:
  /// Starts MPI, or joins one that the process has started. Collective over the job. Throws RuntimeFailure.
  explicit Runtime(const Options& options);
  /// Ends MPI where this started it.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// What MPI provides, which may be less than was asked for.
  [[nodiscard]] int thread_level() const { return thread_level_; }
  [[nodiscard]] const comm::Capabilities& capabilities() const { return capabilities_; }
  [[nodiscard]] MPI_Op op(comm::DType dtype, comm::ReduceOp op) const { return reductions_.of(dtype, op); }
  /// The largest tag of a message.
  [[nodiscard]] int largest_tag() const { return largest_tag_; }
  /// How often a waiting rank looks before it offers its core to others.
  [[nodiscard]] int polls_before_yield() const { return polls_before_yield_; }

  /// How often this list of ranks has been made into a group from that parent, this time included. A parent is used by
  /// one thread at a time, so all members count in the same way.
  int next_creation(std::uint64_t parent, const std::vector<int>& world_ranks);
  /// A fresh communicator of those processes, in that order. Collective over them; other groups may be made
  /// by other threads meanwhile, told apart by `id`. MPI has no limit for how long it waits. Throws
  /// RuntimeFailure.
  [[nodiscard]] MPI_Comm create(const std::vector<int>& world_ranks, std::uint64_t id) const;

  /// Lets messages go that finished calls still hold; false after an error.
  [[nodiscard]] bool progress() const;

  /// Something failed: calls may be under way that nobody will complete.
  void note_failure() noexcept { failed_ = true; }

 private:
  void start();
  void look_at_job();

  Options options_;
  bool started_here_ = false;
  int thread_level_ = MPI_THREAD_SINGLE;
  int rank_ = 0;
  int size_ = 1;
  int largest_tag_ = 32767;
  int polls_before_yield_ = 0;
  MPI_Comm all_ = MPI_COMM_NULL;  // carries nothing but the creation of groups
  Reductions reductions_;
  comm::Capabilities capabilities_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::vector<int>>, int> creations_;  // of parent and list
};

}  // namespace plumbline::subject::mpi
