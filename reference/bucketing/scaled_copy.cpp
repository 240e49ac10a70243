#include "reference/bucketing/scaled_copy.hpp"

#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/half.hpp"

namespace plumbline::bucketing {
namespace {

using comm::BFloat16;
using comm::DType;
using comm::Float16;

template <class T>
auto widened(T value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return comm::to_float(value);
}

template <class To, class From>
To narrowed(From value) {
  if constexpr (std::is_same_v<To, Float16>)
    return comm::to_float16(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, BFloat16>)
    return comm::to_bfloat16(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class From, class To>
void loop(const void* from, void* to, std::int64_t count, double divisor) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  using Wide = decltype(widened(From{}));
  const auto by = static_cast<Wide>(divisor);
  if (divisor == 1)
    for (std::int64_t i = 0; i < count; ++i) target[i] = narrowed<To>(widened(source[i]));
  else
    for (std::int64_t i = 0; i < count; ++i) target[i] = narrowed<To>(widened(source[i]) / by);
}

// Calls take(T{}) with the type of a floating dtype.
template <class Take>
void with_type(DType dtype, const Take& take) {
  switch (dtype) {
    case DType::f16:
      return take(Float16{});
    case DType::bf16:
      return take(BFloat16{});
    case DType::f32:
      return take(float{});
    default:
      return take(double{});
  }
}

}  // namespace

void copy_divided(comm::ConstBuffer from, comm::Buffer to, double divisor) {
  if (from.count != to.count)
    throw InvalidArgument(fmt::format("a copy of {} elements to {} elements", from.count, to.count));
  if (from.dtype == to.dtype && divisor == 1) {
    if (from.data != to.data && from.count > 0) std::memcpy(to.data, from.data, from.bytes());
    return;
  }
  if (!comm::is_floating(from.dtype) || !comm::is_floating(to.dtype))
    throw Unsupported(
        fmt::format("{} elements divided by {} to {}: only floating ones are divided and change their type",
                    comm::name_of(from.dtype), divisor, comm::name_of(to.dtype)));
  with_type(from.dtype, [&]<class From>(From) {
    with_type(to.dtype, [&]<class To>(To) { loop<From, To>(from.data, to.data, from.count, divisor); });
  });
}

void fill_zeros(comm::Buffer buffer) {
  if (buffer.count > 0) std::memset(buffer.data, 0, buffer.bytes());
}

}  // namespace plumbline::bucketing
