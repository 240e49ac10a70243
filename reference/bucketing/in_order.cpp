#include "reference/bucketing/in_order.hpp"

#include "reference/bucketing/by_size.hpp"

namespace plumbline::bucketing {

Plan buckets_in_order(std::span<const Gradient> gradients, std::span<const int> order,
                      std::span<const std::int64_t> limits) {
  return plan_some_by_size(gradients, limits, order, LastBuckets::as_begun);
}

}  // namespace plumbline::bucketing
