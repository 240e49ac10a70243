// reference/training/added_type.hpp: tensors as buffers that a communicator adds.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "reference/comm/call.hpp"

namespace plumbline::training {

/// The type as which a communicator adds such elements; nothing where gradients are never of that type.
[[nodiscard]] inline std::optional<comm::DType> added_type_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return comm::DType::f16;
    case at::kBFloat16:
      return comm::DType::bf16;
    case at::kFloat:
      return comm::DType::f32;
    case at::kDouble:
      return comm::DType::f64;
    default:
      return {};
  }
}

/// The elements of a tensor of such a type, which lie in memory without gaps.
[[nodiscard]] inline comm::Buffer buffer_of(const at::Tensor& memory) {
  return {memory.data_ptr(), memory.numel(), *added_type_of(memory.scalar_type())};
}

}  // namespace plumbline::training
