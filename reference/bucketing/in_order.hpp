// reference/bucketing/in_order.hpp: buckets of gradients in the order in which they come.
//
// Model   plan_some_by_size() (by_size.hpp), where what is left at the end follows as it was begun.
// Units   Limits are bytes: of the first bucket of each type, device and group the first one, and so on; the last one holds
//         for ever.
#pragma once

#include <cstdint>
#include <span>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

inline constexpr std::int64_t kNoLimit = INT64_MAX;

/// Of the gradients that `order` has, and no others. Throws as plan_some_by_size().
[[nodiscard]] Plan buckets_in_order(std::span<const Gradient> gradients, std::span<const int> order,
                                    std::span<const std::int64_t> limits);
/// Behind those, in buckets of their own that the last limit closes, the gradients that `delayed` has: what gets ready early
/// and must not hold up others, or is to be reduced last. Throws also InvalidArgument for a gradient that both have.
[[nodiscard]] Plan buckets_in_order(std::span<const Gradient> gradients, std::span<const int> order,
                                    std::span<const std::int64_t> limits, std::span<const int> delayed);

}  // namespace plumbline::bucketing
