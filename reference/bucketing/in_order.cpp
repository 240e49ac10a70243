#include <algorithm>

#include <fmt/format.h>

#include "reference/bucketing/plan.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {

Plan buckets_in_order(std::span<const Gradient> gradients, std::span<const int> order,
                      std::span<const std::int64_t> limits) {
  return plan_some_by_size(gradients, limits, order, LastBuckets::as_begun);
}

Plan buckets_in_order(std::span<const Gradient> gradients, std::span<const int> order,
                      std::span<const std::int64_t> limits, std::span<const int> delayed) {
  for (const int gradient : delayed)
    if (std::ranges::find(order, gradient) != order.end())
      throw InvalidArgument(fmt::format("gradient {} is delayed, and among those that are not", gradient));
  Plan plan = buckets_in_order(gradients, order, limits);
  const Plan last = buckets_in_order(gradients, delayed, limits.last(1));
  for (Bucket bucket : last.buckets) {
    bucket.first_member += static_cast<int>(plan.members.size());
    plan.buckets.push_back(bucket);
  }
  plan.members.insert(plan.members.end(), last.members.begin(), last.members.end());
  return plan;
}

}  // namespace plumbline::bucketing
