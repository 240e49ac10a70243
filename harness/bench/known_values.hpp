// harness/bench/known_values.hpp: gradients whose sums are known beforehand, to see whether a reduction is right.
//
// Model   A number is a factor of the rank's, times a whole number that its gradient and its place in it decide: what
//         is left out, comes twice, lies beside its place or is another rank's is another number. Sums and means over
//         up to 180 ranks are exact in f32, in whatever order they are added.
#pragma once

#include <string>

#include "reference/comm/call.hpp"
#include "reference/device/memory_space.hpp"

namespace plumbline::bucketing {

/// Of a rank's own numbers, of their sum over so many ranks, and of their mean.
[[nodiscard]] constexpr float factor_of_rank(int rank) { return static_cast<float>(rank + 1); }
[[nodiscard]] constexpr float factor_of_sum(int ranks) { return static_cast<float>(ranks * (ranks + 1) / 2); }
[[nodiscard]] constexpr float factor_of_mean(int ranks) { return static_cast<float>(ranks + 1) / 2; }

/// Fills a gradient, of f32.
void fill_known(comm::Buffer values, int gradient, float factor);
/// Throws RuntimeFailure, naming `what`, the element and both values, for the first number that is not that of this
/// factor but for a millionth: a mean may come about by multiplication.
void require_known(comm::ConstBuffer values, int gradient, float factor, const std::string& what);

/// The same of values at a place, by way of the host: on a device the host waits for its stream.
void fill_known(const device::MemorySpace& place, comm::Buffer values, int gradient, float factor);
void require_known(const device::MemorySpace& place, comm::ConstBuffer values, int gradient, float factor,
                   const std::string& what);

}  // namespace plumbline::bucketing
