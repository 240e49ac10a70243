// harness/subject/nccl/lane.hpp: one NCCL communicator and the stream in which its calls are done.
//
// Model   The communicator does not block: a call of NCCL may come back while it is still at work (making connections),
//         and until it is through, no other may be made. So batches wait here and are put into NCCL one after the
//         other, as it allows.
//         The caller's stream is held against ours by events: a batch starts when its `ready` is reached, and is
//         through at `done`.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/subject/nccl/process.hpp"
#include "harness/subject/nccl/progress_thread.hpp"
#include "reference/comm/call.hpp"

namespace plumbline::subject::nccl {

/// Calls that are put into NCCL together.
struct Batch {
  explicit Batch(const Process& process)
      : ready(process.runtime, process.device), done(process.runtime, process.device) {}
  std::vector<comm::Call> calls;  // one at least; their roots and peers are ranks of the lane
  device::OwnEvent ready;         // recorded by whoever makes the batch
  device::OwnEvent done;
  std::optional<double> factor;  // of a single sum: this rank's input is multiplied by it
  bool is_issued = false;        // `done` is recorded
  bool is_empty = false;  // a message that carries nobody's bytes: the lane's own memory is sent, or received into
};

/// Device memory that grows when needed. What a stream may still use is kept until the end.
class Scratch {
 public:
  explicit Scratch(const Process& process) : runtime_(process.runtime), device_(process.device) {}
  /// At least so many bytes. Throws OutOfMemory.
  [[nodiscard]] std::byte* reserve(std::size_t bytes);
  [[nodiscard]] bool is_used() const { return !blocks_.empty(); }

 private:
  const std::shared_ptr<device::Runtime> runtime_;
  const int device_;
  std::vector<device::Memory> blocks_;  // the last is the largest
};

class Lane {
 public:
  Lane(Process& process, int rank, int size);
  /// What is under way is given up; see Process::bury().
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // All of these in a Turn. Those that throw throw RuntimeFailure with the words of NCCL, or DeviceFailure with those
  // of the device; the lane is then dead, and is_settled() and pump() throw the same again: whose lane it is learns of
  // it, whoever has met it.

  /// Begins to make the communicator: with all that call with the same id; or with all ranks of `parent`, which must be
  /// settled and never carries calls. Of a split NCCL says on the parent how it goes, and gives the new communicator
  /// only at its end: until the parent is settled again, neither may go.
  void join(const UniqueId& id);
  void split(Lane& parent);
  [[nodiscard]] bool is_begun() const { return comm() != nullptr; }
  /// Whether it was aborted, or has thrown.
  [[nodiscard]] bool is_dead() const { return is_dead_; }
  /// Whether NCCL is through with what it was last asked for. Looks for errors that came meanwhile.
  [[nodiscard]] bool is_settled();

  /// A registration that no other lane has; 0 of a dead lane.
  [[nodiscard]] comm::Registration register_memory(void* memory, std::size_t bytes);
  /// False: it is none of this lane, or has ended.
  [[nodiscard]] bool deregister(comm::Registration registration);

  void push(std::shared_ptr<Batch> batch);
  /// Puts into NCCL what it takes now; meets an error of what is running.
  void pump();
  /// Of the last pump(). Nothing once the device is through with all, or the lane is dead.
  [[nodiscard]] Left left() const;
  /// Whether NCCL holds the buffers of a batch that is not issued yet.
  [[nodiscard]] bool is_going_in(const Batch& batch) const { return going_in_.get() == &batch; }
  /// Ends all that is under way, on this rank.
  void abort() noexcept;
  /// A step towards the end of a lane that gets no more batches. Whether it is through: then nothing uses its memory.
  [[nodiscard]] bool end() noexcept;

 private:
  friend class Issue;
  [[nodiscard]] Comm comm() const { return std::atomic_ref(const_cast<Comm&>(comm_)).load(std::memory_order_acquire); }
  void advance();
  void issue(Batch& batch);
  [[noreturn]] void die(Result result, const char* what);

  Process& process_;
  const int rank_;
  const int size_;
  device::OwnStream stream_;
  Scratch scratch_;
  Comm comm_ = nullptr;  // written by a thread of NCCL's where it is split
  bool is_dead_ = false;
  Failure failure_;  // why, unless it was aborted
  std::deque<std::shared_ptr<Batch>> waiting_;
  std::shared_ptr<Batch> going_in_;  // NCCL has been given it and is not through with that
  std::shared_ptr<Batch> last_;      // that was issued; null once the device is through with it
  bool is_finalizing_ = false;
  std::map<comm::Registration, void*> registered_;  // with NCCL's handle, which goes with its communicator
};

/// Whether calls may be put into NCCL together: none touches what another writes, and none is made of messages itself.
[[nodiscard]] bool may_go_together(const comm::Call& earlier, const comm::Call& later, int ranks);

}  // namespace plumbline::subject::nccl
