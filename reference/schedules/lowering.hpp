// reference/schedules/lowering.hpp: puts messages, and what sharded parameters need, between the computations.
//
// Model   Stages on different ranks exchange messages: a forward's output goes to the next stage, a backward's (or
//         input gradient's) gradient to the stage before. A message is a SEND on one rank and a RECV on the other,
//         which names the receiving stage. Two orders:
//         - lower(), ours: a send stands right after what made it, a receive right before what needs it, and what
//           stands between two computations is posted together (joined). No pair of ranks waits for each other, even
//           where a send returns only after its receive is posted: see lowering.cpp. Where the order of two ranks
//           crosses, so that a message is sent long before it is used, its receive moves forward to where the sender
//           would wait for it. Between two ranks, messages of one direction are sent and received in one and the same
//           order.
//         - add_send_recv(), PyTorch's: the receive stands where its rank is when the sender sends. All actions of all
//           ranks have one common order in which each send is followed by its receive, so this is free of deadlock too.
//         Computations that wait for each other in a cycle are rejected by both with InvalidArgument.
// Cost    Linear in the actions, about 7 ns each of the result while they are in the cache. PyTorch's passes have the
//         same results, not the same growth.
// Sources torch.distributed.pipelining.schedules (orders and actions); Megatron-LM's and ColossalAI's fused exchanges;
//         ColossalAI's shape protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules {

/// When the shape of a stage's output is sent before it. A gradient has its output's shape, so it needs none.
enum class Metadata {
  none,
  once,  // with the first micro-batch that a stage sends
  each   // with every micro-batch
};

/// Sends and receives, ours. Idle cells are dropped. Throws InvalidArgument for a schedule that has messages, that
/// names a stage or micro-batch which it does not have, that computes a stage on another rank than its own, or whose
/// computations wait for each other; it says who waits for what. Also for what is computed twice and sent, and for a
/// micro-batch or stage number out of all proportion to the actions.
[[nodiscard]] Schedule lower(const Schedule& schedule, Metadata metadata = Metadata::none);

/// Sends and receives in PyTorch's order. An idle cell counts as a step and is dropped; what is computed twice is sent
/// twice. Throws like lower() otherwise.
[[nodiscard]] Schedule add_send_recv(const Schedule& schedule);

/// UNSHARD in front of the stages that are computed next, of at most `most_gathered` stages at a time (a pair that is
/// computed at once counts together), RESHARD after it. Idle cells are dropped. Throws InvalidArgument for
/// most_gathered < 1.
[[nodiscard]] Schedule add_unshard_reshard(const Schedule& schedule, int most_gathered = 3);
/// REDUCE_GRAD after a stage's last weight gradient: the one that makes it schedule.micro_batches. Idle cells are
/// dropped. Throws InvalidArgument for a backward of a stage or micro-batch that does not exist, or on another rank
/// than its stage.
[[nodiscard]] Schedule add_reduce_gradients(const Schedule& schedule);
/// Moves receives, of a schedule with messages, to what needs them; in front of a send to a higher rank, though, those
/// that are due from it. Throws InvalidArgument where nothing needs a receive.
[[nodiscard]] Schedule defer_receives(const Schedule& schedule);
/// An I with its W right after it (idle cells aside, which are dropped) becomes a B.
[[nodiscard]] Schedule merge_backward_halves(const Schedule& schedule);

/// A WAIT_SEND for each send of an output or a gradient, in the order of the sends: so late that at most
/// `most_outstanding` are under way, those that are posted together aside, and the rest at the end. What comes to its
/// end where each send waits for its receive does so with these, which wait later. Throws InvalidArgument for
/// most_outstanding < 1 and for a schedule that has waits.
[[nodiscard]] Schedule add_send_waits(const Schedule& schedule, int most_outstanding);

/// All that PyTorch's runtime puts in: UNSHARD and RESHARD, REDUCE_GRAD, sends and receives. Throws like lower(), and
/// like add_unshard_reshard().
[[nodiscard]] Schedule lower_as_torch(const Schedule& schedule, int most_gathered = 3);

// ---- What a pipeline's messages are made of: the dtypes and shapes of their tensors, and how
// the next stage gets to know them.
//
// Model   A stage's output is a list of tensors. Its receiver must know count, dtypes and shapes first. Either
//         they are promised (Metadata::none), or sent before the output: with a boundary's first micro-batch and kept
//         from then on (once), or with each (each), where all of it may change, the number of dimensions too. A
//         gradient has the dtypes and shapes of the floating tensors of what it is the gradient of.
// Message One call of a fixed number of int64, so that its receive can be posted by a rank that knows nothing yet: the
//         number of words after that count; the number of tensors; of each the number of dimensions, the dimensions,
//         the dtype's place in comm::kAllDTypes, the program's type, whether it requires a gradient, and 0, or 1 and
//         its strides; zeros. One call, and not two of which the first says how long the second is: what
//         check() proves of schedules is about messages that exist or not, and a message in two steps would have
//         ranks wait where it sees none.
// Errors  DescriptionMismatch, before anything is sent, where an output is not what was promised or told; the
//         communicator remains usable. InvalidArgument for what no tensor is, for words that are no description, and
//         where the words of a message do not suffice. StateError where no description was sent yet.
// Sources ColossalAI communication/utils.py (number of dimensions, then dimensions, as int64, once a boundary and
//         chunk);
//         Megatron-LM's variable sequence lengths; stage metadata of torch.distributed.pipelining.

/// Without dimensions: a scalar, which has one element.
struct TensorDescription {
  comm::DType dtype = comm::DType::f32;
  std::vector<std::int64_t> shape = {};
  bool requires_gradient = true;           // counts where there are gradients of its type
  std::vector<std::int64_t> strides = {};  // in elements, as it lies in the message; row-major where empty
  int program_type = 0;                    // the program's number of a type that is no dtype; 0: it is the dtype
  bool operator==(const TensorDescription&) const = default;
};
using TensorDescriptions = std::vector<TensorDescription>;

/// "f16[2,3] i64[]"; "type11[4]" for a type of the program; "nothing" for no tensors.
[[nodiscard]] std::string to_string(const TensorDescriptions& tensors);
/// The product of the dimensions. Throws InvalidArgument for one below 0, and for more elements than int64 counts.
[[nodiscard]] std::int64_t elements_of(const TensorDescription& tensor);
/// The floating tensors that require a gradient, and those of a type of the program's that do: of the others there is
/// none.
/// Gradients themselves require none.
[[nodiscard]] TensorDescriptions gradients_of(const TensorDescriptions& tensors);

/// An output is not what was promised or told.
class DescriptionMismatch : public Error {
 public:
  using Error::Error;
};

/// Words of a message: 2 KiB, enough for 28 tensors of four dimensions.
inline constexpr std::size_t kDescriptionWords = 256;

/// The words, without trailing zeros.
[[nodiscard]] std::vector<std::int64_t> encode(const TensorDescriptions& tensors);
[[nodiscard]] TensorDescriptions decode(std::span<const std::int64_t> words);

/// One side of one boundary: what a stage tells the next one of its outputs, or what this one hears. Knows of no
/// communicator: its memory is what the executor's callbacks name for SEND and RECV of metadata.
class DescriptionExchange {
 public:
  /// `promised` counts where no description is sent. Both sides are made with equal arguments.
  explicit DescriptionExchange(Metadata told, TensorDescriptions promised = {});

  /// The message that tells of a micro-batch's output. Throws StateError where nothing is to be told (any more).
  [[nodiscard]] comm::Buffer tell(int micro_batch, const TensorDescriptions& tensors);
  /// The memory for the received description. Throws as tell().
  [[nodiscard]] comm::Buffer room(int micro_batch);
  /// What the micro-batch's output is, as promised or told. On the side that hears: once the message has come.
  [[nodiscard]] const TensorDescriptions& expected(int micro_batch);
  /// To be called before an output is sent. Throws DescriptionMismatch, with both descriptions.
  void keep_to(int micro_batch, const TensorDescriptions& tensors);
  /// What was told of this micro-batch alone is no more needed; its message is over.
  void forget(int micro_batch);

 private:
  struct Told {
    std::vector<std::int64_t> words;
    std::optional<TensorDescriptions> tensors;
  };
  Told& begin(int micro_batch);
  [[nodiscard]] comm::Buffer message_of(Told& told) const;
  [[nodiscard]] int key_of(int micro_batch) const { return metadata_ == Metadata::each ? micro_batch : 0; }

  Metadata metadata_;
  TensorDescriptions promised_;
  std::map<int, Told> told_;
};

// ---- Who sends what to whom: the stage at a message's other end, and which way it goes.
//
// Model   Stages are a chain. A stage's output, and the shape of it, go to the next stage; the gradient of its input
//         goes to the stage before it. The stage of a message's action is that of the rank which has the action in its
//         row.

[[nodiscard]] constexpr bool is_metadata(ActionKind kind) {
  return kind == ActionKind::send_metadata || kind == ActionKind::recv_metadata;
}
/// Of a message: 1 towards the output, -1 towards the input.
[[nodiscard]] constexpr int direction_of_message(ActionKind kind) {
  return kind == ActionKind::send_backward || kind == ActionKind::recv_backward ? -1 : 1;
}
/// Of what a computation needs of another stage and makes for another; 0 where it does neither.
[[nodiscard]] constexpr int direction_of_computation(ActionKind kind) {
  if (kind == ActionKind::forward) return 1;
  return kind == ActionKind::backward || kind == ActionKind::input_gradient ? -1 : 0;
}
/// From the stage of a message's action to that at its other end: 1 or -1.
[[nodiscard]] constexpr int distance_to_peer(ActionKind kind) {
  return is_send(kind) ? direction_of_message(kind) : -direction_of_message(kind);
}
/// The stage at the other end, which may lie outside of the chain.
[[nodiscard]] constexpr int peer_stage(const Action& message) { return message.stage + distance_to_peer(message.kind); }
[[nodiscard]] constexpr int sending_stage(const Action& message) {
  return is_send(message.kind) ? message.stage : peer_stage(message);
}
/// What the other end does.
[[nodiscard]] constexpr ActionKind partner_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::send_forward:
      return ActionKind::recv_forward;
    case ActionKind::recv_forward:
      return ActionKind::send_forward;
    case ActionKind::send_backward:
      return ActionKind::recv_backward;
    case ActionKind::recv_backward:
      return ActionKind::send_backward;
    case ActionKind::send_metadata:
      return ActionKind::recv_metadata;
    default:
      return ActionKind::send_metadata;
  }
}
[[nodiscard]] constexpr Action partner_of(const Action& message) {
  return {.kind = partner_of(message.kind), .stage = peer_stage(message), .micro_batch = message.micro_batch};
}

/// An output or a gradient on its way from stage to stage. Or none.
struct Message {
  std::int32_t micro_batch = 0;
  std::int32_t direction = 0;  // 1 forward, -1 backward; 0: there is no message
  std::int32_t receiver = 0;   // stage
  explicit constexpr operator bool() const { return direction != 0; }
  [[nodiscard]] constexpr bool forward() const { return direction > 0; }
  [[nodiscard]] constexpr std::int32_t sender() const { return receiver - direction; }
  [[nodiscard]] constexpr Action send() const {
    return {.kind = forward() ? ActionKind::send_forward : ActionKind::send_backward,
            .stage = sender(),
            .micro_batch = micro_batch};
  }
  [[nodiscard]] constexpr Action recv() const {
    return {.kind = forward() ? ActionKind::recv_forward : ActionKind::recv_backward,
            .stage = receiver,
            .micro_batch = micro_batch};
  }
};

}  // namespace plumbline::schedules
