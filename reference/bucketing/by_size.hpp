// reference/bucketing/by_size.hpp: PyTorch DDP's rule: gradients are gathered until they reach a limit.
//
// Model   Gradients come one after the other, in the order of registration or in another one. Each (type, device, group) has a
//         bucket of its own that is being filled, and walks the list of limits of its own: a bucket closes after the
//         gradient that reaches its limit, so it may exceed it, and the next one has the next limit, the last limit for ever.
//         A sparse gradient makes a bucket of its own, at once, and moves nobody to another limit.
// Order   In the order of registration, buckets are sorted by their smallest index. In another one they come as they
//         close; what is not full at the end follows.
// Units   Limits are bytes. A limit of 0 closes behind every gradient.
// Cost    One pass to assign, one to lay out; a lookup among the types that there are.
// Source  torch.distributed._compute_bucket_assignment_by_size, torch 2.13: equal to the recorded answers.
#pragma once

#include <cstdint>
#include <span>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

/// In which order the buckets follow that are not full at the end.
enum class LastBuckets : std::uint8_t {
  as_completed,  // by their last gradient: the order in which a backward of that order completes them
  as_begun,      // by their first gradient
  torch,         // as PyTorch's table has them (torch_table.hpp): mostly the type that came first goes last
};

/// `order` has the indices of the gradients as they come; empty stands for the order of registration. Throws
/// InvalidArgument for no limit, a limit below 0, or an order that is none of all gradients; and as require_gradients().
[[nodiscard]] Plan plan_by_size(std::span<const Gradient> gradients, std::span<const std::int64_t> limits,
                                std::span<const int> order = {}, LastBuckets last = LastBuckets::as_completed);

/// Of the gradients that `order` has, each once, and of no others. Throws InvalidArgument for no limit, a limit below 0, or a
/// gradient twice, OutOfRange for one that there is not; and as require_gradients().
[[nodiscard]] Plan plan_some_by_size(std::span<const Gradient> gradients, std::span<const std::int64_t> limits,
                                     std::span<const int> order, LastBuckets last = LastBuckets::as_completed);

/// The same buckets, launched from the last to the first.
[[nodiscard]] Plan reversed(const Plan& plan);

}  // namespace plumbline::bucketing
