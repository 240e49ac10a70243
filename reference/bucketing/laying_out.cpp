#include "reference/bucketing/detail/laying_out.hpp"

#include <fmt/format.h>

namespace plumbline::bucketing {

void require_order(std::span<const int> order, std::size_t gradients, std::string_view name) {
  if (order.size() != gradients)
    throw InvalidArgument(fmt::format("{} has {} entries for {} gradients", name, order.size(), gradients));
  std::vector<bool> seen(gradients);
  for (std::size_t position = 0; position < order.size(); ++position) {
    const int index = order[position];
    if (static_cast<std::size_t>(index) >= gradients)
      throw InvalidArgument(fmt::format("{} has gradient {} at {}; there are {}", name, index, position, gradients));
    if (seen[static_cast<std::size_t>(index)])
      throw InvalidArgument(fmt::format("{} has gradient {} twice, again at {}", name, index, position));
    seen[static_cast<std::size_t>(index)] = true;
  }
}

std::string type_words(comm::DType dtype, std::int8_t components_per_element) {
  const std::string_view name = comm::name_of(dtype);
  return components_per_element == 1 ? std::string(name) : fmt::format("{} x {}", int{components_per_element}, name);
}

Plan lay_out(std::span<const Gradient> gradients, std::span<const int> order, std::span<const int> bucket_of,
             std::vector<Bucket> buckets) {
  Plan plan;
  plan.members.resize(bucket_of.size());
  int next = 0;
  for (Bucket& bucket : buckets) {
    bucket.first_member = next;
    next += bucket.members;
    bucket.members = 0;
    bucket.elements = 0;
  }
  for (std::size_t position = 0; position < bucket_of.size(); ++position) {
    const int index = order.empty() ? static_cast<int>(position) : order[position];
    Bucket& bucket = buckets[static_cast<std::size_t>(bucket_of[position])];
    plan.members[static_cast<std::size_t>(bucket.first_member + bucket.members++)] = {index, bucket.elements};
    bucket.elements += gradients[static_cast<std::size_t>(index)].elements;
  }
  plan.buckets = std::move(buckets);
  return plan;
}

}  // namespace plumbline::bucketing
