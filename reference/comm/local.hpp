// reference/comm/local.hpp: a real backend inside one process, a thread per rank over shared memory.
//
// Model   Every member posts what it calls, then all compare the postings: a difference raises MismatchError on each
//         member before data moves. Small calls travel inside the posting, and each rank computes its own result. Large
//         ones are cut into one part per rank; a rank works on its own part and then helps with parts of others, so a
//         call is completed by whoever is running, also when there are more ranks than cores, or when a rank that
//         started a call is busy elsewhere. Sends and receives are matched by whichever side comes second.
// Devices With LocalOptions::device_calls calls on a device's memory are posted and compared in the same way; then whoever first
//         sees that all have posted launches the whole call, and each member's stream follows it (device_calls.hpp).
// Results Reductions add in rank order, half formats in f32 rounded once: the same bits on all ranks, in every run.
// Waiting Spin while ranks fit on cores, then yield, then sleep ever longer; never a scheduler slice spent spinning.
// Errors  As communicator.hpp says; this backend claims every capability.
// Source  Fused reduce-scatter and all-gather over published pointers, as in-process backends of MPI and NCCL do.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "reference/comm/communicator.hpp"

namespace plumbline::comm {

class DeviceCalls;  // device_calls.hpp

struct LocalOptions {
  /// Limit of a wait that is given none.
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);
  /// Up to this many posted bytes a rank, a call travels inside its posting.
  std::size_t inline_bytes = 512;
  /// Large calls are handed out in blocks of about this many bytes.
  std::size_t block_bytes = 256 * 1024;
  /// Where the inputs and outputs of all ranks together exceed this, results that are no inputs are written around the
  /// cache; 0: the last-level cache's size, 32 MiB at most.
  std::size_t cache_bytes = 0;
  /// Cores that the ranks share; 0: those that this process may use.
  int cores = 0;
  /// What serves calls on memory of devices; without it there are none but the host's.
  std::shared_ptr<DeviceCalls> device_calls = nullptr;
};

/// The ranks of one process. Must outlive no one: communicators keep what they need.
class LocalWorld {
 public:
  /// Throws InvalidArgument unless 1 <= size <= 4095.
  explicit LocalWorld(int size, LocalOptions options = {});
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  [[nodiscard]] int size() const;
  /// The handle of `rank` on the group of all. Each rank is handed out once; destroying it tells the others that this
  /// rank has left: who waits for it gets PeerFailed. Throws OutOfRange, StateError.
  [[nodiscard]] std::unique_ptr<Communicator> communicator(int rank);
  /// Every call of every group fails with PeerFailed(reason) from now on.
  void abort(const std::string& reason) noexcept;

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
};

/// Runs body(communicator) on a thread per rank and waits for all. When a rank throws, the world is aborted, and the
/// first exception that was not a consequence of another rank's failure is rethrown.
void run_ranks(int size, const std::function<void(Communicator&)>& body, LocalOptions options = {});

/// What the local backend claims: everything; and memory of that kind of device beside the host's.
[[nodiscard]] const Capabilities& local_capabilities(Device::Kind kind = Device::Kind::cpu);

}  // namespace plumbline::comm
