// reference/bucketing/in_order.hpp: buckets of gradients in the order in which they come.
//
// Model   Gradients of a type and group are gathered until they reach a limit. What is left at the end follows, the bucket that
//         was begun first ahead of the others.
// Units   Limits are bytes: of the first bucket of each type and group the first one, and so on; the last one holds for ever.
#pragma once

#include <cstdint>
#include <span>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

inline constexpr std::int64_t kNoLimit = INT64_MAX;

/// Of the gradients that `order` has, and no others. Throws InvalidArgument without limits, and OutOfRange for a gradient
/// that there is not.
[[nodiscard]] Plan buckets_in_order(std::span<const Gradient> gradients, std::span<const int> order,
                                    std::span<const std::int64_t> limits);

}  // namespace plumbline::bucketing
