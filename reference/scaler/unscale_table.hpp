// reference/scaler/unscale_table.hpp: unscale() as work for a device that takes many gradients in one launch, with what
// one of its threads does, written once for the device and for tests without one.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "reference/device/elementwise.hpp"
#include "reference/scaler/unscale.hpp"

namespace plumbline::scaler {

/// An element: looked at as it was read, multiplied in f32 or f64, rounded once.
struct UnscaleStep {
  float inverse;
  bool found = false;

  template <class From, class To>
  PLUMBLINE_HOST_DEVICE void operator()(From from, To& to) {
    const auto value = device::widened(from);
    // The exponent of an infinity and of NaN has all bits set: then the difference with itself is NaN.
    found |= !(value - value == 0);
    to = device::narrowed<To>(value * static_cast<device::Wide<From>>(inverse));
  }
};

struct UnscaleWork {
  static constexpr std::string_view kName = "unscale";
  device::TensorTable<2> table;  // from, to
  float inverse = 1;
  float* found_inf = nullptr;

  [[nodiscard]] std::array<const void*, 1> beside() const { return {found_inf}; }
  PLUMBLINE_HOST_DEVICE void operator()(std::int32_t chunk, int thread, int threads) const {
    const device::ChunkPart part = device::part_of(table, chunk);
    const device::TensorEntry<2>& entry = table.entry[part.entry];
    UnscaleStep step{inverse};
    const auto all = [&](auto from, auto to) {
      device::elementwise(step, part.count, thread, threads,
                          device::In<decltype(from)>{static_cast<const decltype(from)*>(entry.address[0]) + part.first},
                          device::Out<decltype(to)>{static_cast<decltype(to)*>(entry.address[1]) + part.first});
    };
    switch (static_cast<UnscaleTypes>(entry.types)) {
      case UnscaleTypes::f16_to_f32:
        all(comm::Float16(), float());
        break;
      case UnscaleTypes::bf16_to_f32:
        all(comm::BFloat16(), float());
        break;
      case UnscaleTypes::f16:
        all(comm::Float16(), comm::Float16());
        break;
      case UnscaleTypes::bf16:
        all(comm::BFloat16(), comm::BFloat16());
        break;
      case UnscaleTypes::f32:
        all(float(), float());
        break;
      case UnscaleTypes::f64:
        all(double(), double());
        break;
    }
    // Threads write the same number or nothing.
    if (step.found) *found_inf = 1;
  }
};

/// What there is to do, in order; nothing for gradients without elements. All must be in memory of `device`. Throws
/// InvalidArgument for other counts than each other's and for memory of another device, Unsupported for types that do
/// not go together.
[[nodiscard]] std::vector<UnscaleWork> unscale_work(std::span<const Unscaling> gradients, float inverse,
                                                    float* found_inf, comm::Device device);

}  // namespace plumbline::scaler
