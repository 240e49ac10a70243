// reference/training/pipeline/wire.hpp: tensors as the bytes of one message, and what describes them.
//
// Model   All tensors that cross a boundary for a micro-batch are one message of bytes: each begins at a multiple of 64,
//         as memory of its own would. A tensor without gaps keeps its order in memory (channels last stays channels
//         last), which decides which kernels the next stage runs; any other is sent row-major. The receiver knows a
//         message's size and form from its description, which is sent ahead, or known from before.
//         The gradients of a boundary have the description of its tensors, but for those that have no gradient.
// Format  A description is kDescriptionWords integers: version, count; of each tensor type, requires-gradient, number of
//         dimensions, sizes, strides; the rest 0.
// Wire    With a wire type, floating tensors travel in it, and arrive in their own type again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/training/pipeline/stage.hpp"
#include "reference/training/rank_device.hpp"

namespace plumbline::training {

struct TensorDescription {
  at::ScalarType type = at::kFloat;
  bool requires_gradient = false;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  // as it lies in the message
  bool operator==(const TensorDescription&) const = default;
};
using Description = std::vector<TensorDescription>;

/// "Float [4, 16], Long [4]".
[[nodiscard]] std::string text_of(const Description& description);
/// Of the tensors as they will arrive.
[[nodiscard]] Description describe(const Tensors& tensors);
/// Of their gradients: those that require one, which themselves require none.
[[nodiscard]] Description gradients_of(const Description& description);

inline constexpr std::size_t kDescriptionWords = 256;
using DescriptionWords = std::array<std::int64_t, kDescriptionWords>;
/// Throws InvalidArgument for more tensors or dimensions than fit.
[[nodiscard]] DescriptionWords to_words(const Description& description);
/// Throws RuntimeFailure for words that are no description.
[[nodiscard]] Description from_words(const DescriptionWords& words);

/// How floating tensors travel: in this type, or as they are.
using WireType = std::optional<at::ScalarType>;

/// Memory for a message so described, where calls are made: a tensor of bytes.
[[nodiscard]] at::Tensor message_for(const Description& description, WireType wire, const RankDevice& where = {});
/// The tensors as such a message. The description is theirs in number and sizes; they have no graph.
[[nodiscard]] at::Tensor pack(const Tensors& tensors, const Description& description, WireType wire,
                              const RankDevice& where = {});
/// The tensors of a message that has come, where LibTorch computes: in its memory, if they travelled in their own type and that
/// is where LibTorch computes.
[[nodiscard]] Tensors unpack(const at::Tensor& message, const Description& description, WireType wire,
                             const RankDevice& where = {});

}  // namespace plumbline::training
