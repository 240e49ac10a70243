#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "reference/bucketing/detail/laying_out.hpp"
#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {
namespace {

// One bucket a key, and each sparse gradient one; in the order in which the buckets come.
struct Grouped {
  std::vector<Bucket> buckets;
  std::vector<int> bucket_of;  // by position
  std::vector<int> last;       // position of a bucket's last member
};

const Gradient& gradient_at(std::span<const Gradient> gradients, std::span<const int> order, std::size_t position) {
  return gradients[order.empty() ? position : static_cast<std::size_t>(order[position])];
}

Grouped group_by_key(std::span<const Gradient> gradients, std::span<const int> order) {
  require_gradients(gradients);
  if (!order.empty()) require_order(order, gradients.size());
  Grouped grouped;
  std::vector<std::pair<std::uint64_t, int>> open;  // a key's bucket
  for (std::size_t position = 0; position < gradients.size(); ++position) {
    const Gradient& gradient = gradient_at(gradients, order, position);
    const std::uint64_t key = key_of(gradient);
    const auto known =
        gradient.sparse ? open.end() : std::ranges::find(open, key, &std::pair<std::uint64_t, int>::first);
    int bucket = static_cast<int>(grouped.buckets.size());
    if (known != open.end()) {
      bucket = known->second;
    } else {
      grouped.buckets.push_back(bucket_for(gradient));
      grouped.last.push_back(0);
      if (!gradient.sparse) open.emplace_back(key, bucket);
    }
    ++grouped.buckets[static_cast<std::size_t>(bucket)].members;
    grouped.last[static_cast<std::size_t>(bucket)] = static_cast<int>(position);
    grouped.bucket_of.push_back(bucket);
  }
  return grouped;
}

// The buckets by what a number says of each, equal ones as they come.
template <class Number>
Plan sorted_plan(std::span<const Gradient> gradients, std::span<const int> order, Grouped grouped, Number number) {
  std::vector<int> sorted(grouped.buckets.size()), place(grouped.buckets.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::stable_sort(sorted, {}, number);
  std::vector<Bucket> buckets;
  for (const int bucket : sorted) {
    place[static_cast<std::size_t>(bucket)] = static_cast<int>(buckets.size());
    buckets.push_back(grouped.buckets[static_cast<std::size_t>(bucket)]);
  }
  for (int& bucket : grouped.bucket_of) bucket = place[static_cast<std::size_t>(bucket)];
  return lay_out(gradients, order, grouped.bucket_of, std::move(buckets));
}

}  // namespace

Plan plan_unfused(std::span<const Gradient> gradients, std::span<const int> order) {
  require_gradients(gradients);
  if (!order.empty()) require_order(order, gradients.size());
  std::vector<Bucket> buckets;
  buckets.reserve(gradients.size());
  for (std::size_t position = 0; position < gradients.size(); ++position) {
    buckets.push_back(bucket_for(gradient_at(gradients, order, position)));
    buckets.back().members = 1;
  }
  std::vector<int> bucket_of(gradients.size());
  std::iota(bucket_of.begin(), bucket_of.end(), 0);
  return lay_out(gradients, order, bucket_of, std::move(buckets));
}

Plan plan_flat(std::span<const Gradient> gradients, std::span<const int> order) {
  Grouped grouped = group_by_key(gradients, order);
  const std::vector<int> last = grouped.last;
  return sorted_plan(gradients, order, std::move(grouped),
                     [&](int bucket) { return last[static_cast<std::size_t>(bucket)]; });
}

Plan plan_as_colossalai(std::span<const Gradient> gradients, std::span<const int> order) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].sparse)
      throw Unsupported(fmt::format("gradient {} is sparse; the handlers flatten dense ones", i));
    if (gradients[i].device != gradients.front().device)
      throw Unsupported(fmt::format("gradient {} is on {}, gradient 0 on {}; the handlers know one device", i,
                                    comm::name_of(gradients[i].device), comm::name_of(gradients.front().device)));
  }
  Grouped grouped = group_by_key(gradients, order);
  std::vector<int> groups;  // as they come
  for (const Bucket& bucket : grouped.buckets)
    if (std::ranges::find(groups, bucket.group) == groups.end()) groups.push_back(bucket.group);
  const std::vector<Bucket> buckets = grouped.buckets;
  return sorted_plan(gradients, order, std::move(grouped), [&](int bucket) {
    return std::ranges::find(groups, buckets[static_cast<std::size_t>(bucket)].group) - groups.begin();
  });
}

}  // namespace plumbline::bucketing
