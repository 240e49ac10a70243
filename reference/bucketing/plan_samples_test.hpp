// reference/bucketing/plan_samples_test.hpp: lists of gradients and plans in a few characters, for tests.
#pragma once

#include <initializer_list>
#include <vector>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing::samples {

/// f32 gradients of these sizes.
inline std::vector<Gradient> of_sizes(std::initializer_list<std::int64_t> sizes) {
  std::vector<Gradient> gradients;
  for (const std::int64_t size : sizes) gradients.push_back({.elements = size});
  return gradients;
}

/// The indices in each bucket.
inline std::vector<std::vector<int>> indices_of(const Plan& plan) {
  std::vector<std::vector<int>> indices;
  for (const Bucket& bucket : plan.buckets) {
    auto& mine = indices.emplace_back();
    for (const Member& member : plan.members_of(bucket)) mine.push_back(member.gradient);
  }
  return indices;
}

inline std::vector<std::int64_t> limits_of(const Plan& plan) {
  std::vector<std::int64_t> limits;
  for (const Bucket& bucket : plan.buckets) limits.push_back(bucket.limit_bytes);
  return limits;
}

}  // namespace plumbline::bucketing::samples
