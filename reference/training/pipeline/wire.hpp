// reference/training/pipeline/wire.hpp: tensors as the bytes of one message, and what describes them.
//
// Model   All tensors that cross a boundary for a micro-batch are one message of bytes: each begins at a multiple of
//         64, as memory of its own would. A tensor without gaps keeps its order in memory (channels last stays channels
//         last), which decides which kernels the next stage runs; any other is sent row-major. The receiver knows a
//         message's size and form from its description (reference/schedules/lowering.hpp), which is sent ahead, or
//         known from before.
//         The gradients of a boundary have the description of its tensors, but for those that have no gradient.
// Wire    With a wire type, floating tensors travel in it, and arrive in their own type again.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/schedules/lowering.hpp"
#include "reference/training/detail/rank_device.hpp"
#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

using Description = schedules::TensorDescriptions;

/// Of the tensors as they will arrive. A type that no communicator has is the program's: LibTorch's number, and 1.
[[nodiscard]] Description describe(const Tensors& tensors);

/// How floating tensors travel: in this type, or as they are.
using WireType = std::optional<at::ScalarType>;

/// Memory for a message so described, where calls are made: a tensor of bytes.
[[nodiscard]] at::Tensor message_for(const Description& description, WireType wire, const RankDevice& where = {});
/// The tensors as such a message. The description is theirs in number and sizes; they have no graph.
[[nodiscard]] at::Tensor pack(const Tensors& tensors, const Description& description, WireType wire,
                              const RankDevice& where = {});
/// The tensors of a message that has come, where LibTorch computes: in its memory, if they travelled in their own type
/// and that is where LibTorch computes.
[[nodiscard]] Tensors unpack(const at::Tensor& message, const Description& description, WireType wire,
                             const RankDevice& where = {});

}  // namespace plumbline::training
