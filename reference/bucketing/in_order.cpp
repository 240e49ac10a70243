#include "reference/bucketing/in_order.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

// A bucket that is being filled.
struct Open {
  Bucket bucket;
  std::vector<Member> members;
  std::size_t limit = 0;  // which
  std::size_t begun = 0;  // the place of its first gradient in the order
};

void close(Plan& plan, Open& open) {
  open.bucket.first_member = static_cast<int>(plan.members.size());
  open.bucket.members = static_cast<int>(open.members.size());
  plan.members.insert(plan.members.end(), open.members.begin(), open.members.end());
  plan.buckets.push_back(open.bucket);
  open.members.clear();
  open.bucket.elements = 0;
}

}  // namespace

Plan buckets_in_order(std::span<const Gradient> gradients, std::span<const int> order,
                      std::span<const std::int64_t> limits) {
  if (limits.empty()) throw InvalidArgument("buckets without a limit: there must be one at least");
  Plan plan;
  std::map<std::tuple<comm::DType, int, int>, Open> table;
  for (std::size_t at = 0; at < order.size(); ++at) {
    if (order[at] < 0 || static_cast<std::size_t>(order[at]) >= gradients.size())
      throw OutOfRange(fmt::format("gradient {} of {}", order[at], gradients.size()));
    const Gradient& gradient = gradients[static_cast<std::size_t>(order[at])];
    Open& open = table[{gradient.dtype, gradient.numbers, gradient.group}];
    if (open.members.empty()) open.begun = at;
    open.bucket.dtype = gradient.dtype;
    open.bucket.numbers = gradient.numbers;
    open.bucket.group = gradient.group;
    open.bucket.limit_bytes = limits[std::min(open.limit, limits.size() - 1)];
    open.members.push_back({order[at], open.bucket.elements});
    open.bucket.elements += gradient.elements;
    if (open.bucket.bytes() < open.bucket.limit_bytes) continue;
    close(plan, open);
    ++open.limit;
  }
  std::vector<Open*> rest;
  for (auto& [key, open] : table)
    if (!open.members.empty()) rest.push_back(&open);
  std::ranges::sort(rest, {}, &Open::begun);
  for (Open* open : rest) close(plan, *open);
  return plan;
}

}  // namespace plumbline::bucketing
