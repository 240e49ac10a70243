// Six gradients in buckets of 4 MiB, the first of 1 MiB, and what of their all-reduce a backward of 10 ms hides.
#include <cstdio>
#include <vector>

#include "reference/bucketing/exposed.hpp"
#include "reference/bucketing/plan.hpp"

using namespace plumbline;

int main() {
  std::vector<bucketing::Gradient> gradients(6, {.elements = 500'000});
  const std::vector<int> order{5, 4, 3, 2, 1, 0};  // a backward has the last layer's first
  const bucketing::Plan plan = bucketing::plan_by_size(gradients, std::vector<std::int64_t>{1 << 20, 4 << 20}, order);
  for (const bucketing::Bucket& bucket : plan.buckets)
    std::printf("%d gradients, %lld bytes\n", bucket.members, static_cast<long long>(bucket.bytes()));
  const bucketing::Link link{.ranks = 4, .latency = 20e-6, .bandwidth = 5e9};
  const auto ready = bucketing::ready_evenly(gradients, 0.01, order);
  const bucketing::Exposure exposure = bucketing::exposed_communication(plan, ready, 0.01, link);
  std::printf("%.2f ms of %.2f ms are exposed\n", exposure.exposed * 1e3, exposure.communication * 1e3);
}
