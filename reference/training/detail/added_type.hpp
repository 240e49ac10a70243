// reference/training/detail/added_type.hpp: the types of tensors as a communicator knows them, and tensors as buffers
// that it adds.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "reference/comm/call.hpp"

namespace plumbline::training {

/// The type as which a communicator moves such elements; nothing where it has none.
[[nodiscard]] inline std::optional<comm::DType> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return comm::DType::f16;
    case at::kBFloat16:
      return comm::DType::bf16;
    case at::kFloat:
      return comm::DType::f32;
    case at::kDouble:
      return comm::DType::f64;
    case at::kInt:
      return comm::DType::i32;
    case at::kLong:
      return comm::DType::i64;
    case at::kByte:
      return comm::DType::u8;
    default:
      return {};
  }
}

/// The type as which it adds them; nothing where gradients are never of that type.
[[nodiscard]] inline std::optional<comm::DType> added_type_of(at::ScalarType type) {
  const std::optional<comm::DType> dtype = dtype_of(type);
  return dtype && comm::is_floating(*dtype) ? dtype : std::nullopt;
}

/// The elements of a tensor of such a type, which lie in memory without gaps.
[[nodiscard]] inline comm::Buffer buffer_of(const at::Tensor& memory) {
  return {memory.data_ptr(), memory.numel(), *added_type_of(memory.scalar_type())};
}

}  // namespace plumbline::training
