// reference/bucketing/by_type.hpp: rules without limits: a bucket a gradient, a bucket a type, ColossalAI's handlers.
//
// Model   `order` has the indices of the gradients as they become ready, and empty stands for the order of registration; members
//         lie in that order. All throw InvalidArgument for an order that is none of all gradients, and as require_gradients().
// Cost    Linear in the gradients; a lookup among the types that there are.
#pragma once

#include <span>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

/// No fusion: a bucket a gradient, in the order given.
[[nodiscard]] Plan plan_unfused(std::span<const Gradient> gradients, std::span<const int> order = {});

/// One flat buffer of each (group, type, device), in the order in which their last gradients become ready; sparse gradients each
/// alone, at their own place.
[[nodiscard]] Plan plan_flat(std::span<const Gradient> gradients, std::span<const int> order = {});

/// ColossalAI's gradient handlers (#94): one buffer of each (group, type), all of the group that came first, then all of the
/// next one; in a group the types in the order in which they came. It knows no sparse gradients, and one device: throws
/// Unsupported for others. The handler of data parallelism has one group, that of shared modules one a shared module.
[[nodiscard]] Plan plan_as_colossalai(std::span<const Gradient> gradients, std::span<const int> order = {});

}  // namespace plumbline::bucketing
