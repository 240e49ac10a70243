// reference/scaler/detail/unscale_kernels.hpp: the loops of unscale(), once per instruction set.
#pragma once

#include <cstdint>
#include <span>

namespace plumbline::scaler {

/// Reads `count` elements, writes their products, returns whether any was not finite.
using UnscaleLoop = bool (*)(const void* from, void* to, std::int64_t count, float inverse);

/// Those that write around the cache, for results that are no inputs and too many to stay in it; null where there is
/// none.
struct AroundCache {
  UnscaleLoop f16_to_f32 = nullptr, bf16_to_f32 = nullptr, f32 = nullptr;
};

struct UnscaleKernels {
  const char* name;
  UnscaleLoop f16_to_f32, bf16_to_f32, f16, bf16, f32, f64;
  AroundCache around_cache;
};

/// Those that this machine can run, the fastest first.
[[nodiscard]] std::span<const UnscaleKernels* const> unscale_kernels();

}  // namespace plumbline::scaler
