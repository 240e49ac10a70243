#include "reference/bucketing/by_size.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "reference/bucketing/laying_out.hpp"
#include "reference/bucketing/torch_table.hpp"

namespace plumbline::bucketing {
namespace {

constexpr int kNone = -1;

// What a (type, device, group) is filling.
struct Filling {
  std::uint64_t key = 0;
  int bucket = kNone;
  std::size_t limit = 0;   // which one of the list
  std::int64_t bytes = 0;  // so far
  int last = 0;            // position of the last gradient
};

// Buckets in the order in which they are opened, and which of them each position belongs to.
class Assignment {
 public:
  Assignment(std::span<const Gradient> gradients, std::span<const std::int64_t> limits, std::span<const int> order)
      : gradients_(gradients), limits_(limits), order_(order), bucket_of_(gradients.size()) {
    for (int position = 0; position < static_cast<int>(gradients.size()); ++position) add(position);
  }

  Plan sorted_by_index() { return lay_out(gradients_, order_, bucket_of_, std::move(buckets_)); }

  Plan as_closed(LastBuckets last) {
    std::vector<int> place(buckets_.size());
    std::vector<Bucket> moved;
    moved.reserve(buckets_.size());
    for (const int bucket : closed_and_rest(last)) {
      place[static_cast<std::size_t>(bucket)] = static_cast<int>(moved.size());
      moved.push_back(buckets_[static_cast<std::size_t>(bucket)]);
    }
    for (int& bucket : bucket_of_) bucket = place[static_cast<std::size_t>(bucket)];
    return lay_out(gradients_, order_, bucket_of_, std::move(moved));
  }

 private:
  [[nodiscard]] const Gradient& gradient_at(int position) const {
    const auto index = static_cast<std::size_t>(position);
    return gradients_[order_.empty() ? index : static_cast<std::size_t>(order_[index])];
  }

  int open(const Gradient& gradient, std::int64_t limit) {
    buckets_.push_back(bucket_for(gradient));
    buckets_.back().limit_bytes = limit;
    return static_cast<int>(buckets_.size()) - 1;
  }

  void put(int position, int bucket) {
    bucket_of_[static_cast<std::size_t>(position)] = bucket;
    ++buckets_[static_cast<std::size_t>(bucket)].members;
  }

  Filling& filling_of(std::uint64_t key) {
    if (current_ < filling_.size() && filling_[current_].key == key) return filling_[current_];
    current_ = static_cast<std::size_t>(std::ranges::find(filling_, key, &Filling::key) - filling_.begin());
    if (current_ == filling_.size()) filling_.push_back({.key = key});
    return filling_[current_];
  }

  void add(int position) {
    const Gradient& gradient = gradient_at(position);
    if (gradient.sparse) {
      const int alone = open(gradient, 0);
      closed_.push_back(alone);
      put(position, alone);
      return;
    }
    Filling& filling = filling_of(key_of(gradient));
    const std::int64_t limit = limits_[filling.limit];
    if (filling.bucket == kNone) filling.bucket = open(gradient, limit);
    put(position, filling.bucket);
    filling.last = position;
    filling.bytes += gradient.elements * gradient.numbers * static_cast<std::int64_t>(comm::size_of(gradient.dtype));
    if (filling.bytes < limit) return;
    closed_.push_back(filling.bucket);
    filling.bucket = kNone;
    filling.bytes = 0;
    filling.limit = std::min(filling.limit + 1, limits_.size() - 1);
  }

  [[nodiscard]] std::vector<int> closed_and_rest(LastBuckets last) {
    if (last == LastBuckets::as_completed)
      std::ranges::stable_sort(filling_, {}, &Filling::last);
    else
      sort_as_torch();
    for (const Filling& filling : filling_)
      if (filling.bucket != kNone) closed_.push_back(filling.bucket);
    return std::move(closed_);
  }

  void sort_as_torch() {
    std::vector<Gradient> entered;
    for (const Filling& filling : filling_) entered.push_back(gradient_at(filling.last));
    std::vector<Filling> sorted;
    for (const int position : torch_table_order(entered))
      sorted.push_back(filling_[static_cast<std::size_t>(position)]);
    filling_ = std::move(sorted);
  }

  std::span<const Gradient> gradients_;
  std::span<const std::int64_t> limits_;
  std::span<const int> order_;
  std::vector<int> bucket_of_;  // by position
  std::vector<Bucket> buckets_;
  std::vector<int> closed_;
  std::vector<Filling> filling_;
  std::size_t current_ = 0;  // in filling_: neighbours mostly have one type
};

void require_limits(std::span<const std::int64_t> limits) {
  if (limits.empty()) throw InvalidArgument("there is no limit for buckets; one at least is needed, in bytes");
  for (std::size_t i = 0; i < limits.size(); ++i)
    if (limits[i] < 0)
      throw InvalidArgument(fmt::format("limit {} of buckets is {} bytes; it cannot be below 0", i, limits[i]));
}

}  // namespace

Plan plan_by_size(std::span<const Gradient> gradients, std::span<const std::int64_t> limits, std::span<const int> order,
                  LastBuckets last) {
  require_limits(limits);
  require_gradients(gradients);
  if (order.empty()) return Assignment(gradients, limits, order).sorted_by_index();
  require_order(order, gradients.size());
  return Assignment(gradients, limits, order).as_closed(last);
}

Plan reversed(const Plan& plan) {
  Plan turned;
  turned.buckets.assign(plan.buckets.rbegin(), plan.buckets.rend());
  turned.members.reserve(plan.members.size());
  for (Bucket& bucket : turned.buckets) {
    const auto members = plan.members_of(bucket);
    bucket.first_member = static_cast<int>(turned.members.size());
    turned.members.insert(turned.members.end(), members.begin(), members.end());
  }
  return turned;
}

}  // namespace plumbline::bucketing
