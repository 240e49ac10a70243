// reference/comm/local.hpp: a real backend inside one process, a thread per rank over shared memory.
//
// Model   Every member posts what it calls, then all compare the postings: a difference raises MismatchError on each
//         member before data moves. Small calls travel inside the posting, and each rank computes its own result. Large
//         ones are cut into one part per rank; a rank works on its own part and then helps with parts of others, so a
//         call is completed by any running member, also when there are more ranks than cores, or when a rank that
//         started a call is busy elsewhere. Small messages wait in a mailbox; larger ones are moved by whichever side
//         comes second.
// Devices With LocalOptions::device_calls calls on a device's memory are posted and compared in the same way; then
//         the first member to see that all have posted launches the whole call, and each member's stream follows it
//         (DeviceCalls).
// Results Reductions add in rank order, half formats in f32 rounded once: the same bits on all ranks, in every run.
// Waiting Spin while ranks fit on cores, then yield, then sleep ever longer; never a scheduler slice spent spinning.
// Errors  As communicator.hpp says; this backend claims every capability.
// Source  Fused reduce-scatter and all-gather over published pointers, as in-process backends of MPI and NCCL do.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "reference/comm/call.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::comm {

class DeviceCalls;  // below

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
  /// What serves calls on memory of devices; without it only host memory is served.
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

// ---- What backend local asks of devices, so that it can serve memory of theirs.
//
// Model   A Mark is a place in a stream: of a member, where its buffers are ready; of a call, where it is done. A Lane
//         is a group's own stream on each of its devices. A call of all members is one launch: it waits, on the
//         devices, for the marks of all, and leaves one that all streams then follow. Nothing here lets the host wait.
// Threads Any thread may call, also of one Lane.
// Errors  Those of reference/device/runtime.hpp, which implements this on any runtime (reference/device/runtimes.hpp).

class DeviceCalls {
 public:
  class Mark {
   public:
    virtual ~Mark() = default;
  };

  /// A member's part of a call. What it does not give or get is null.
  struct Member {
    Device device;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::shared_ptr<const Mark> ready;
  };
  /// A collective with data, as all members call it; `in` of a broadcast's root is its out.
  struct Collective {
    Operation operation = Operation::all_reduce;
    ReduceOp op = ReduceOp::sum;
    DType dtype = DType::f32;
    int root = kNoRoot;
    std::size_t elements = 0;  // c of call.hpp
    std::span<const Member> members;
    [[nodiscard]] std::size_t bytes() const { return elements * size_of(dtype); }
  };

  class Lane {
   public:
    virtual ~Lane() = default;
    /// Does the collective once all members are ready.
    virtual std::shared_ptr<const Mark> launch(const Collective& collective) = 0;
    /// Copies from one member's `in` to another's `out` once both are ready.
    virtual std::shared_ptr<const Mark> copy(const Member& from, const Member& to, std::size_t bytes) = 0;
    /// Where all that was launched so far is done.
    virtual std::shared_ptr<const Mark> mark() = 0;
  };

  virtual ~DeviceCalls() = default;
  [[nodiscard]] virtual Device::Kind kind() const = 0;
  /// Throws InvalidArgument, naming the buffer, unless what `rank` gives and gets lies where the call says: on a device
  /// that exists, or on the host, at a multiple of the elements' size. Looks at calls on the host's memory, too.
  virtual void expect_memory(const Call& call, int rank) const = 0;
  /// The most ranks whose elements one reduction adds.
  [[nodiscard]] virtual int most_added() const = 0;
  /// Where a stream of `device` stands; null is its default one.
  [[nodiscard]] virtual std::shared_ptr<const Mark> mark(Device device, void* stream) = 0;
  /// What is put into the stream from now on starts when the mark is reached.
  virtual void follow(Device device, void* stream, const Mark& mark) = 0;
  [[nodiscard]] virtual bool is_reached(const Mark& mark) = 0;
  [[nodiscard]] virtual std::unique_ptr<Lane> open_lane() = 0;
};

}  // namespace plumbline::comm
