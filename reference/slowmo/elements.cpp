#include "reference/slowmo/elements.hpp"

#include <cstring>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::ConstBuffer;

template <class Change>
void each_pair(const char* what, ConstBuffer from, Buffer to, const Change& change) {
  require_floating(what, from);
  require_floating(what, to);
  if (from.count != to.count)
    throw InvalidArgument(fmt::format("{}: {} elements to {} elements", what, from.count, to.count));
  with_type(from.dtype, [&]<class From>(From) {
    with_type(to.dtype, [&]<class To>(To) {
      const auto* source = static_cast<const From*>(from.data);
      auto* target = static_cast<To*>(to.data);
      for (std::int64_t i = 0; i < to.count; ++i)
        target[i] = narrowed<To>(change(widened(target[i]), static_cast<Wide<To>>(widened(source[i]))));
    });
  });
}

}  // namespace

void require_floating(const char* what, ConstBuffer values) {
  if (!comm::is_floating(values.dtype))
    throw Unsupported(
        fmt::format("{}: elements of {}; there are f16, bf16, f32 and f64", what, comm::name_of(values.dtype)));
  if (values.device.kind != comm::Device::Kind::cpu)
    throw Unsupported(
        fmt::format("{}: memory of {}; this computes in host memory", what, comm::name_of(values.device)));
}

void divide(Buffer values, double divisor) {
  require_floating("divide", values);
  if (divisor != 1) gossip::divide(values, divisor);
}

void multiply(Buffer values, double factor) {
  require_floating("multiply", values);
  if (factor != 1) gossip::scale(values, factor);
}

void copy(ConstBuffer from, Buffer to) {
  if (from.dtype == to.dtype && from.count == to.count) {
    if (from.data != to.data && from.count > 0) std::memcpy(to.data, from.data, from.bytes());
    return;
  }
  each_pair("copy", from, to, [](auto, auto value) { return value; });
}

void add(ConstBuffer from, Buffer to) {
  each_pair("add", from, to, [](auto value, auto other) { return value + other; });
}

void subtract(ConstBuffer from, Buffer to) {
  each_pair("subtract", from, to, [](auto value, auto other) { return value - other; });
}

Buffer part_of(Buffer whole, std::int64_t begin, std::int64_t count) {
  if (whole.data != nullptr)
    whole.data = static_cast<std::byte*>(whole.data) + static_cast<std::size_t>(begin) * comm::size_of(whole.dtype);
  whole.count = count;
  return whole;
}

}  // namespace plumbline::slowmo
