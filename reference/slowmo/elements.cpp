#include "reference/slowmo/elements.hpp"

#include <cstring>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/gossip/tensor_kernels.hpp"
#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::ConstBuffer;

void require_on_host(const char* what, ConstBuffer values) {
  require_floating(what, values);
  if (values.device.kind != comm::Device::Kind::cpu)
    throw Unsupported(
        fmt::format("{}: memory of {}; this computes in host memory", what, comm::name_of(values.device)));
}

template <class Change>
void each_pair(const char* what, ConstBuffer from, Buffer to, const Change& change) {
  require_on_host(what, from);
  require_on_host(what, to);
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
}

void divide(Buffer values, double divisor) {
  require_on_host("divide", values);
  gossip::divide(values, divisor);
}

void multiply(Buffer values, double factor) {
  require_on_host("multiply", values);
  gossip::scale(values, factor);
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

void divide(const MemorySpace& place, std::span<const Buffer> values, double divisor) {
  if (divisor == 1) return;
  if (!place.is_host()) return gossip::divide(place, values, divisor);
  for (const Buffer& one : values) divide(one, divisor);
}

void multiply(const MemorySpace& place, std::span<const Buffer> values, double factor) {
  if (factor == 1) return;
  if (!place.is_host()) return gossip::scale(place, values, factor);
  for (const Buffer& one : values) multiply(one, factor);
}

void copy(const MemorySpace& place, std::span<const TensorPair> pairs) {
  if (!place.is_host()) return place.launch(device::scaled_copy_work(pairs, device::times(1), place.device()));
  for (const auto& [from, to] : pairs) copy(from, to);
}

void add(const MemorySpace& place, std::span<const TensorPair> pairs) {
  if (!place.is_host()) return place.launch(sum_work(pairs, false, place.device()));
  for (const auto& [from, to] : pairs) add(from, to);
}

void subtract(const MemorySpace& place, std::span<const TensorPair> pairs) {
  if (!place.is_host()) return place.launch(sum_work(pairs, true, place.device()));
  for (const auto& [from, to] : pairs) subtract(from, to);
}

}  // namespace plumbline::slowmo
