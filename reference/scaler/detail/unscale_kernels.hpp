// reference/scaler/detail/unscale_kernels.hpp: the loops of unscale(), once per instruction set.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace plumbline::scaler {

/// Reads `count` elements, writes their products, returns whether any was not finite.
using UnscaleLoop = bool (*)(const void* from, void* to, std::int64_t count, float inverse);

/// One for each of UnscaleTypes, in their order.
using UnscaleLoops = std::array<UnscaleLoop, 6>;

struct UnscaleKernels {
  const char* name;
  UnscaleLoops loops;
  /// To f32, these write around the cache: for results that are no inputs and too many to stay in it.
  UnscaleLoops around_cache;
};

/// Those that this machine can run, the fastest first.
[[nodiscard]] std::span<const UnscaleKernels* const> unscale_kernels();

}  // namespace plumbline::scaler
