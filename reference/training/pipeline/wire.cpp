#include "reference/training/pipeline/wire.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/added_type.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kAlignment = 64;

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

at::ScalarType type_of(const schedules::TensorDescription& one) {
  constexpr int kTypes = static_cast<int>(at::ScalarType::Undefined);
  if (one.program_type > kTypes)
    throw InvalidArgument(
        fmt::format("a description of tensors has type {}; LibTorch has {}", one.program_type, kTypes));
  if (one.program_type > 0) return static_cast<at::ScalarType>(one.program_type - 1);
  constexpr std::array kTypesOf{at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kInt, at::kLong, at::kByte};
  static_assert(kTypesOf.size() == comm::kAllDTypes.size());
  return kTypesOf.at(static_cast<std::size_t>(one.dtype));
}

at::ScalarType type_on_the_wire(const schedules::TensorDescription& one, WireType wire) {
  const at::ScalarType type = type_of(one);
  return wire && at::isFloatingType(type) ? *wire : type;
}

// Where a tensor lies in the message.
struct Part {
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

std::vector<Part> parts_of(const Description& description, WireType wire) {
  std::vector<Part> parts;
  std::int64_t next = 0;
  for (const schedules::TensorDescription& one : description) {
    const auto size = static_cast<std::int64_t>(c10::elementSize(type_on_the_wire(one, wire)));
    parts.push_back({next, schedules::elements_of(one) * size});
    next += (parts.back().bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return parts;
}

// A tensor over its part of the message, which must outlive it.
at::Tensor view_of(const at::Tensor& message, const Part& part, const schedules::TensorDescription& one,
                   WireType wire) {
  auto* begin = static_cast<std::uint8_t*>(message.data_ptr()) + part.begin;
  return at::from_blob(
      begin, one.shape, one.strides.empty() ? row_major(one.shape) : one.strides, [message](void*) {},
      message.options().dtype(type_on_the_wire(one, wire)));
}

}  // namespace

Description describe(const Tensors& tensors) {
  Description description;
  for (const at::Tensor& tensor : tensors) {
    const at::ScalarType type = tensor.scalar_type();
    const std::optional<comm::DType> dtype = dtype_of(type);
    schedules::TensorDescription one{.dtype = dtype.value_or(comm::DType::u8),
                                     .shape = tensor.sizes().vec(),
                                     .requires_gradient = tensor.requires_grad(),
                                     .program_type = dtype ? 0 : static_cast<int>(type) + 1};
    if (tensor.is_non_overlapping_and_dense() && tensor.strides() != row_major(one.shape))
      one.strides = tensor.strides().vec();
    description.push_back(std::move(one));
  }
  return description;
}

at::Tensor message_for(const Description& description, WireType wire, const RankDevice& where) {
  const std::vector<Part> parts = parts_of(description, wire);
  return where.empty({parts.empty() ? 0 : parts.back().begin + parts.back().bytes}, at::kByte);
}

at::Tensor pack(const Tensors& tensors, const Description& description, WireType wire, const RankDevice& where) {
  at::Tensor message = message_for(description, wire, where);
  const std::vector<Part> parts = parts_of(description, wire);
  for (std::size_t i = 0; i < description.size(); ++i) {
    at::Tensor place = view_of(message, parts[i], description[i], wire);
    place.copy_(tensors[i]);
  }
  return message;
}

Tensors unpack(const at::Tensor& message, const Description& description, WireType wire, const RankDevice& where) {
  where.settle();
  const std::vector<Part> parts = parts_of(description, wire);
  Tensors tensors;
  for (std::size_t i = 0; i < description.size(); ++i)
    tensors.push_back(
        view_of(message, parts[i], description[i], wire).to(where.computes_on(), type_of(description[i])));
  return tensors;
}

}  // namespace plumbline::training
