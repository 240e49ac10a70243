#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reference/bucketing/plan.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

std::int64_t bytes_of_mebibytes(double mebibytes) {
  if (!(mebibytes >= 0))
    throw InvalidArgument(fmt::format("a bucket of {} MiB; it must be 0 or more, and not NaN", mebibytes));
  const double bytes = std::trunc(mebibytes * (1 << 20));
  if (bytes >= 0x1p63) throw OutOfRange(fmt::format("a bucket of {} MiB is more bytes than 64 bits hold", mebibytes));
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

BucketCapacity bucket_capacity(const DdpOptions& options) {
  BucketCapacity capacity;
  if (options.bucket_cap_mb_list.empty()) {
    if (options.bucket_cap_mb)
      capacity.bucket_bytes_cap = capacity.first_bucket_bytes_cap = bytes_of_mebibytes(*options.bucket_cap_mb);
    return capacity;
  }
  for (const double mebibytes : options.bucket_cap_mb_list)
    capacity.per_bucket_bytes_caps.push_back(bytes_of_mebibytes(mebibytes));
  capacity.bucket_bytes_cap = capacity.first_bucket_bytes_cap = std::ranges::max(capacity.per_bucket_bytes_caps);
  return capacity;
}

std::vector<std::int64_t> first_limits(const BucketCapacity& capacity, bool find_unused_parameters, bool static_graph) {
  if (!capacity.per_bucket_bytes_caps.empty()) return capacity.per_bucket_bytes_caps;
  if (static_graph || !find_unused_parameters) return {kNoLimit};
  if (capacity.first_bucket_bytes_cap < capacity.bucket_bytes_cap)
    return {capacity.first_bucket_bytes_cap, capacity.bucket_bytes_cap};
  return {capacity.bucket_bytes_cap};
}

std::vector<std::int64_t> rebuilt_limits(const BucketCapacity& capacity) {
  if (!capacity.per_bucket_bytes_caps.empty()) return capacity.per_bucket_bytes_caps;
  return {capacity.first_bucket_bytes_cap, capacity.bucket_bytes_cap};
}

std::optional<int> rebuilt_iteration(const DdpOptions& options) {
  if (options.static_graph) return 2;
  if (options.find_unused_parameters) return std::nullopt;
  return 1;
}

Plan ddp_plan(const DdpOptions& options, std::span<const Gradient> gradients, int iteration,
              std::span<const int> ready) {
  if (iteration < 0) throw InvalidArgument(fmt::format("iteration {}; they count from 0", iteration));
  const BucketCapacity capacity = bucket_capacity(options);
  const std::optional<int> rebuilt = rebuilt_iteration(options);
  if (rebuilt && iteration >= *rebuilt) {
    if (ready.size() != gradients.size())
      throw InvalidArgument(
          fmt::format("iteration {} has buckets in the order in which gradients became ready, of {} are {} known",
                      iteration, gradients.size(), ready.size()));
    return plan_by_size(gradients, rebuilt_limits(capacity), ready, LastBuckets::torch);
  }
  return reversed(
      plan_by_size(gradients, first_limits(capacity, options.find_unused_parameters, options.static_graph)));
}

}  // namespace plumbline::bucketing
