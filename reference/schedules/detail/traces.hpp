// reference/schedules/detail/traces.hpp: what ColossalAI's and Megatron-LM's ranks do, messages included.
//
// Model   A rank's trace are cells in order: "0F1", "0B1"; "P2P(SEND act0.1>1;RECV grad<1)", messages posted together,
//         with the peer's rank; "SEND_META ndims>1" and "SEND_META shape>1", or RECV_META with '<', the two blocking
//         messages that tell a shape. ">" goes to a rank, "<" comes from one; act<stage>.<micro-batch> is a stage's
//         output, grad the gradient of its input.
// Cost    O(actions).
// Sources ColossalAI at #94 (96780e6): engine/schedule, communication/p2p.py; Megatron-LM core 0.19: pipeline_parallel/
//         schedules.py, p2p_communication.py with batched messages and no overlap.
#pragma once

#include <string>
#include <vector>

#include "reference/schedules/generate.hpp"

namespace plumbline::schedules {

using Trace = std::vector<std::vector<std::string>>;  // by rank, cells

/// 1F1B for one stage a rank, else interleaved (see interleaved_as_colossalai for what is refused, and for more than
/// one rank). Without `tensor_shape_given` the shape of a boundary is sent before its first activation. Throws
/// InvalidArgument.
[[nodiscard]] Trace colossalai_trace(const Shape& shape, bool forward_only, bool tensor_shape_given);
/// 1F1B for one stage a rank, else interleaved in groups (see interleaved_in_groups, and for more than one rank).
/// Throws InvalidArgument.
[[nodiscard]] Trace megatron_trace(const Shape& shape, bool forward_only, int group);

}  // namespace plumbline::schedules
