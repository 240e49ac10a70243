// reference/schedules/lowering.hpp: puts messages, and what sharded parameters need, between the computations.
//
// Model   Stages on different ranks exchange messages: a forward's output goes to the next stage, a backward's (or
//         input gradient's) gradient to the stage before. A message is a SEND on one rank and a RECV on the other,
//         which names the receiving stage. Two orders:
//         - lower(), ours: a send stands right behind what made it, a receive right in front of what needs it, and what
//           stands between two computations is posted together (joined). No pair of ranks waits for each other, even
//           where a send returns only after its receive is posted: see lowering.cpp. Where the order of two ranks
//           crosses, so that a message is sent long before it is used, its receive moves forward to where the sender
//           would wait for it. Between two ranks, messages of one direction are sent and received in one and the same
//           order.
//         - add_send_recv(), PyTorch's: the receive stands where its rank is when the sender sends. All actions of all
//           ranks have one common order in which each send is followed by its receive, so this is free of deadlock too.
//         Computations that wait for each other in a cycle are refused by both.
// Cost    Linear in the actions, about 7 ns each of the result while they are in the cache. PyTorch's passes have the same
//         results, not the same growth.
// Sources torch.distributed.pipelining.schedules (orders and actions); Megatron-LM's and ColossalAI's fused exchanges;
//         ColossalAI's shape protocol.
#pragma once

#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules {

/// When the shape of a stage's output is sent ahead of it. A gradient has its output's shape, so it needs none.
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
/// computed at once counts together), RESHARD behind. Idle cells are dropped. Throws InvalidArgument for most_gathered
/// < 1.
[[nodiscard]] Schedule add_unshard_reshard(const Schedule& schedule, int most_gathered = 3);
/// REDUCE_GRAD behind a stage's last weight gradient: the one that makes it schedule.micro_batches. Idle cells are
/// dropped. Throws InvalidArgument for a backward of a stage or micro-batch that there is not, or on another rank than its stage.
[[nodiscard]] Schedule add_reduce_gradients(const Schedule& schedule);
/// Moves receives, of a schedule with messages, to what needs them; in front of a send to a higher rank, though, those
/// that are due from it. Throws InvalidArgument where nothing needs a receive.
[[nodiscard]] Schedule defer_receives(const Schedule& schedule);
/// An I with its W right behind it (idle cells aside, which are dropped) becomes a B.
[[nodiscard]] Schedule merge_backward_halves(const Schedule& schedule);

/// A WAIT_SEND for each send of an output or a gradient, in the order of the sends: so late that at most
/// `most_outstanding` are under way, those that are posted together aside, and the rest at the end. What comes to its end
/// where each send waits for its receive does so with these, which wait later. Throws InvalidArgument for
/// most_outstanding < 1 and for a schedule that has waits.
[[nodiscard]] Schedule add_send_waits(const Schedule& schedule, int most_outstanding);

/// All that PyTorch's runtime puts in: UNSHARD and RESHARD, REDUCE_GRAD, sends and receives. Throws like lower().
[[nodiscard]] Schedule lower_as_torch(const Schedule& schedule);

}  // namespace plumbline::schedules
