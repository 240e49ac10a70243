#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "reference/bucketing/detail/laying_out.hpp"
#include "reference/bucketing/detail/torch_table.hpp"
#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {
namespace {

constexpr int kNone = -1;

// What a (type, device, group) is filling.
struct Filling {
  std::uint64_t key = 0;
  int bucket = kNone;
  std::size_t limit = 0;   // which one of the list
  std::int64_t bytes = 0;  // so far
  int first = 0;           // position of the bucket's first gradient
  int last = 0;            // and of the last one
};

// Buckets in the order in which they are opened, and members as they come. The gradients are looked at once, and mostly
// that is all: where buckets are filled one after the other, members stand already where they belong.
class Assignment {
 public:
  Assignment(std::span<const Gradient> gradients, std::span<const std::int64_t> limits, std::span<const int> order)
      : gradients_(gradients), limits_(limits), order_(order), count_(order.empty() ? gradients.size() : order.size()) {
    members_.reserve(count_);
    for (int position = 0; position < static_cast<int>(count_);) position = add_run(position);
  }

  Plan sorted_by_index() {
    std::vector<int> opened(buckets_.size());
    std::iota(opened.begin(), opened.end(), 0);
    return plan_of(opened);
  }
  Plan as_closed(LastBuckets last) { return plan_of(closed_and_rest(last)); }

 private:
  // The buckets in that order.
  Plan plan_of(const std::vector<int>& sequence) {
    Plan plan;
    plan.buckets.reserve(sequence.size());
    int next = 0;
    for (const int number : sequence) {
      Bucket& bucket = buckets_[static_cast<std::size_t>(number)];
      bucket.first_member = next;
      next += bucket.members;
      plan.buckets.push_back(bucket);
    }
    if (in_turn_ && std::ranges::is_sorted(sequence)) {
      plan.members = std::move(members_);
      return plan;
    }
    if (in_turn_) leave_turn();
    plan.members.resize(members_.size());
    for (std::size_t position = 0; position < members_.size(); ++position) {
      Bucket& bucket = buckets_[static_cast<std::size_t>(bucket_of_[position])];
      plan.members[static_cast<std::size_t>(bucket.first_member++)] = members_[position];
    }
    return plan;
  }

  [[nodiscard]] int index_at(int position) const {
    return order_.empty() ? position : order_[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] const Gradient& gradient_at(int position) const {
    return gradients_[static_cast<std::size_t>(index_at(position))];
  }

  int open(const Gradient& gradient, std::int64_t limit) {
    buckets_.push_back(bucket_for(gradient));
    buckets_.back().limit_bytes = limit;
    return static_cast<int>(buckets_.size()) - 1;
  }

  // From now on it has to be noted who belongs where; so far the buckets' members stand one after the other.
  void leave_turn() {
    in_turn_ = false;
    bucket_of_.reserve(count_);
    for (std::size_t i = 0; i < buckets_.size(); ++i)
      bucket_of_.insert(bucket_of_.end(), static_cast<std::size_t>(buckets_[i].members), static_cast<int>(i));
  }

  // What require_gradients() refuses, which is asked for its words. The sum is of all gradients so far.
  std::int64_t bytes_added(const Gradient& gradient, std::int64_t& sum) const {
    const bool is_sound = gradient.elements >= 0 &&
                          (gradient.components_per_element == 1 || gradient.components_per_element == 2) &&
                          gradient.group >= 0;
    const auto each = static_cast<std::int64_t>(comm::size_of(gradient.dtype)) * gradient.components_per_element;
    std::int64_t bytes = 0;
    if (!is_sound || __builtin_mul_overflow(gradient.elements, each, &bytes) ||
        __builtin_add_overflow(sum, bytes, &sum))
      require_gradients(gradients_);
    return bytes;
  }

  Filling& filling_of(std::uint64_t key) {
    const auto known = std::ranges::find(filling_, key, &Filling::key);
    return known != filling_.end() ? *known : filling_.emplace_back(Filling{.key = key});
  }

  void note(int members, int number) {
    if (in_turn_ && number + 1 != static_cast<int>(buckets_.size())) leave_turn();
    if (!in_turn_) bucket_of_.insert(bucket_of_.end(), static_cast<std::size_t>(members), number);
    buckets_[static_cast<std::size_t>(number)].members += members;
  }

  void add_alone(int position, const Gradient& gradient) {
    (void)bytes_added(gradient, all_bytes_);
    const int alone = open(gradient, 0);
    closed_.push_back(alone);
    note(1, alone);
    members_.push_back({index_at(position), 0});
    buckets_.back().elements = gradient.elements;
  }

  // The gradients from that position on that go into one bucket; where the next one is. Sums stay in registers
  // meanwhile.
  int add_run(int position) {
    const Gradient& first = gradient_at(position);
    if (first.sparse) {
      add_alone(position, first);
      return position + 1;
    }
    const std::uint64_t key = key_of(first);
    Filling& filling = filling_of(key);
    const std::int64_t limit = limits_[filling.limit];
    if (filling.bucket == kNone) {
      filling.bucket = open(first, limit);
      filling.first = position;
    }
    const auto number = static_cast<std::size_t>(filling.bucket);
    std::int64_t bytes = filling.bytes, elements = buckets_[number].elements, sum = all_bytes_;
    bool is_full = false;
    int next = position;
    for (const int end = static_cast<int>(count_); next < end && !is_full; ++next) {
      const Gradient& gradient = gradient_at(next);
      if (gradient.sparse || key_of(gradient) != key) break;
      bytes += bytes_added(gradient, sum);
      members_.push_back({index_at(next), elements});
      elements += gradient.elements;
      is_full = bytes >= limit;
    }
    note(next - position, filling.bucket);
    buckets_[number].elements = elements;
    all_bytes_ = sum;
    filling.last = next - 1;
    filling.bytes = bytes;
    if (is_full) close(filling);
    return next;
  }

  void close(Filling& filling) {
    closed_.push_back(filling.bucket);
    filling.bucket = kNone;
    filling.bytes = 0;
    filling.limit = std::min(filling.limit + 1, limits_.size() - 1);
  }

  [[nodiscard]] std::vector<int> closed_and_rest(LastBuckets last) {
    if (last == LastBuckets::as_completed)
      std::ranges::stable_sort(filling_, {}, &Filling::last);
    else if (last == LastBuckets::as_begun)
      std::ranges::stable_sort(filling_, {}, &Filling::first);
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
  std::size_t count_;            // of positions
  std::vector<Member> members_;  // by position
  std::vector<int> bucket_of_;   // by position; empty while in_turn_
  bool in_turn_ = true;          // no bucket got a member when a later one was open
  std::int64_t all_bytes_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<int> closed_;
  std::vector<Filling> filling_;
};

void require_limits(std::span<const std::int64_t> limits) {
  if (limits.empty()) throw InvalidArgument("there is no limit for buckets; one at least is needed, in bytes");
  for (std::size_t i = 0; i < limits.size(); ++i)
    if (limits[i] < 0)
      throw InvalidArgument(fmt::format("limit {} of buckets is {} bytes; it cannot be below 0", i, limits[i]));
}

// Each of some gradients once.
void require_part(std::span<const int> order, std::size_t gradients) {
  std::vector<bool> seen(gradients);
  for (const int index : order) {
    if (static_cast<std::size_t>(index) >= gradients)
      throw OutOfRange(fmt::format("gradient {} of {}", index, gradients));
    if (seen[static_cast<std::size_t>(index)])
      throw InvalidArgument(fmt::format("the order has gradient {} twice", index));
    seen[static_cast<std::size_t>(index)] = true;
  }
}

}  // namespace

Plan plan_by_size(std::span<const Gradient> gradients, std::span<const std::int64_t> limits, std::span<const int> order,
                  LastBuckets last) {
  require_limits(limits);
  if (order.empty()) return Assignment(gradients, limits, order).sorted_by_index();
  require_order(order, gradients.size());
  return Assignment(gradients, limits, order).as_closed(last);
}

Plan plan_some_by_size(std::span<const Gradient> gradients, std::span<const std::int64_t> limits,
                       std::span<const int> order, LastBuckets last) {
  require_limits(limits);
  require_part(order, gradients.size());
  if (order.empty()) return {};
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
