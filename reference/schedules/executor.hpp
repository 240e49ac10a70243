// reference/schedules/executor.hpp: runs a rank's part of a schedule over a communicator. What a stage computes is the
// caller's.
//
// Model   Takes the rank's actions in their order. A computation calls back; a message, or a group of joined ones, is
//         started at once (Communicator::start) and runs beside the computations: a computation waits for its own
//         receive, on the host's memory and where calls are nonblocking for that alone, else for what was started with
//         it, too; a receive for its metadata; and sends are waited for when more than `most_outstanding_sends` are
//         under way, and at the end. Waiting later than the schedule says is never worse: what check() proves free of
//         deadlock under rendezvous ends here on every backend, buffered or not.
//         Messages are matched by name: the tag is made of the sending stage, micro-batch and direction. Two ranks that
//         are each other's next and previous do not mix them up.
//         Stages on the same rank exchange no messages: hand_over() is called instead.
//         What a message is made of, where that is not known beforehand, its metadata say: lowering.hpp.
// Memory  buffer() names a message's memory, when it is started; it stays in use until release() of that message. A
//         send's memory must not change between the two.
// Errors  TimeoutError says which rank waited where, for which message, from or to whom. StateError: a computation
//         whose receive is not in the rank's list before it. What a callback throws comes through; the group is
//         unusable then.
// Cost    Beside callbacks and communicator, about 0.1 us an action.
// Source  The action runtime of torch.distributed.pipelining; DeepSpeed's instructions.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/schedules/schedule.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules {

/// What the stages of a rank do. Those marked (optional) may be empty.
struct StageCallbacks {
  using Compute = std::function<void(int stage, int micro_batch)>;
  using OfStage = std::function<void(int stage)>;

  Compute forward;
  Compute backward;         // of input and weights
  Compute input_gradient;   // (optional, where the schedule does not split backwards)
  Compute weight_gradient;  // (optional, too)
  /// The memory of a message that this rank sends or receives, named by its action. A sent value is read only.
  std::function<comm::Buffer(const Action& message)> buffer;
  /// (optional, in place of buffer) The memory of a message of several tensors, in their order; each is a call of its
  /// own, or several, under the message's tag. A message without tensors is no call, on both sides.
  std::function<std::vector<comm::Buffer>(const Action& message)> tensors;
  /// The message is over: its memory is the caller's again. (optional)
  std::function<void(const Action& message)> release;
  /// The result of a stage whose neighbour is on this rank too, named by the send that is omitted. (optional)
  std::function<void(const Action& send)> hand_over;
  OfStage unshard;           // (optional)
  OfStage reshard;           // (optional)
  OfStage reduce_gradients;  // (optional)
};

/// A number that no other message of a schedule with `stages` stages has, the same on both sides.
[[nodiscard]] int tag_of(const Action& message, int stages);
/// Each tensor that has more than the given bytes in pieces of the whole elements that fit, at least one; the last
/// piece is what is left. The others as they are, also those without elements.
[[nodiscard]] std::vector<comm::Buffer> pieces_of(std::span<const comm::Buffer> tensors,
                                                  std::optional<std::int64_t> most_bytes);

/// Around a computation, which it makes by one call of `compute`: to time it, or to name it for a profiler.
using AroundComputation = std::function<void(const Action& computation, const std::function<void()>& compute)>;

struct ExecutorOptions {
  /// Of each wait; nothing means the communicator's own limit.
  comm::Timeout timeout = {};
  /// Sends under way, those that one handle stands for counting once, before the oldest is waited for.
  std::size_t most_outstanding_sends = 8;
  /// Of a call, on both sides: a longer tensor goes in pieces. Nothing means any number.
  std::optional<std::int64_t> most_bytes_a_call = {};
  /// Gradients go over this group, of the same ranks in the same order; without, all messages over one. Joined messages
  /// are then posted group by group, in the order in which the groups' first ones stand.
  comm::Communicator* gradients = nullptr;
  /// (optional) Called for each computation, sharded parameters' included.
  AroundComputation around = {};
};

/// Runs this rank's part. Collective: all ranks of the communicator, which are the schedule's, run the same one; it
/// begins with a barrier. Returns when each action happened, in seconds from then, as Period says: a computation lasts
/// as its callback, a send until its end was seen. Throws InvalidArgument for communicators of another size, for a
/// schedule whose stages have no rank each or that has more messages than tags, and for callbacks that it needs and
/// that are empty.
[[nodiscard]] std::vector<Period> run_rank(comm::Communicator& communicator, const Schedule& schedule,
                                           const StageCallbacks& callbacks, const ExecutorOptions& options = {});

/// A device that computes nothing: each computation waits until its time has passed and leaves the core to other ranks,
/// so that a machine has more devices than cores. Messages are real and have the given sizes. Times, bytes and
/// straggling are those of `options` (not its links, overlap and jitter), each time multiplied by `seconds`.
/// Where the system wakes a rank late, the next computation is that much shorter, for a device is not late; but none
/// begins before its input was sent, which messages of 8 bytes and more say by the clock of the machine: the ranks
/// share one.
class EmulatedDevice {
 public:
  /// Throws InvalidArgument for options that simulate() rejects.
  EmulatedDevice(const Schedule& schedule, int rank, SimulationOptions options, double seconds = 1);
  ~EmulatedDevice();
  EmulatedDevice(const EmulatedDevice&) = delete;
  EmulatedDevice& operator=(const EmulatedDevice&) = delete;
  /// Valid as long as the device.
  [[nodiscard]] StageCallbacks callbacks();
  /// Activations at once, so far.
  [[nodiscard]] int peak_activations() const { return peak_; }

 private:
  using Clock = std::chrono::steady_clock;
  void compute(const Action& action);
  [[nodiscard]] Clock::time_point begin_of(const Action& action);
  comm::Buffer memory_of(const Action& message);
  void release(const Action& message);

  struct Memory;
  SimulationOptions options_;
  double seconds_;
  int live_ = 0;
  int peak_ = 0;
  Clock::time_point returned_;  // from the computation before
  Clock::duration late_{};      // as it was
  std::unique_ptr<Memory> memory_;
};

}  // namespace plumbline::schedules
