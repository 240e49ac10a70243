#include "reference/bucketing/check_plan.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "reference/bucketing/detail/laying_out.hpp"
#include "reference/bucketing/plan_json.hpp"

namespace plumbline::bucketing {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::array<std::string_view, 15> kNames{"range",   "missing", "doubled",  "frozen",    "overlap",
                                                  "outside", "mixed",   "alone",    "alignment", "gap",
                                                  "cap",     "order",   "overflow", "empty",     "waits"};

std::string words_of(const auto& one) {
  return fmt::format("{} on {} of group {}", type_words(one.dtype, one.components_per_element),
                     comm::name_of(one.device), one.group);
}

bool is_multiple(std::int64_t value, std::int64_t of) { return value % of == 0; }

std::int64_t up_to_multiple(std::int64_t value, std::int64_t of) {
  const std::int64_t over = value % of;
  return over == 0 || value > kMost - of ? value : value + (of - over);
}

std::vector<int> positions_of(const std::vector<int>& order) {
  std::vector<int> positions(order.size());
  for (int position = 0; const int gradient : order) positions[static_cast<std::size_t>(gradient)] = position++;
  return positions;
}

class Checker {
 public:
  Checker(const Plan& plan, std::span<const Gradient> gradients, const PlanRules& rules)
      : plan_(plan),
        gradients_(gradients),
        rules_(rules),
        times_(gradients.size()),
        is_frozen_(gradients.size()),
        is_alone_(gradients.size()) {
    require_gradients(gradients);
    require_rules();
  }

  std::vector<PlanProblem> check() {
    for (std::size_t i = 0; i < plan_.buckets.size(); ++i) check_members(static_cast<int>(i));
    check_cover();
    for (std::size_t i = 0; i < plan_.buckets.size(); ++i)
      if (is_sound_[i]) check_places(static_cast<int>(i));
    if (!rules_.limits.empty()) check_caps();
    if (rules_.order) check_order();
    if (rules_.ready) check_waits();
    return std::move(problems_);
  }

 private:
  void require_rules() {
    for (const std::int64_t limit : rules_.limits)
      if (limit < 0) throw InvalidArgument(fmt::format("limits: {} bytes; a limit is 0 or more", limit));
    require_alignment("member_alignment", rules_.member_alignment);
    require_alignment("bucket_alignment", rules_.bucket_alignment);
    if (rules_.order) require_order(*rules_.order, gradients_.size(), "order");
    if (rules_.ready) require_order(*rules_.ready, gradients_.size(), "ready");
    mark("frozen", rules_.frozen, is_frozen_);
    mark("alone", rules_.alone, is_alone_);
  }

  static void require_alignment(const char* what, std::int64_t elements) {
    if (elements < 1) throw InvalidArgument(fmt::format("{}: {} elements; it is 1 or more", what, elements));
  }

  void mark(const char* what, const std::vector<int>& indices, std::vector<bool>& marks) const {
    for (const int index : indices) {
      if (static_cast<std::size_t>(index) >= gradients_.size())
        throw InvalidArgument(fmt::format("{}: there is no gradient {} among {}", what, index, gradients_.size()));
      marks[static_cast<std::size_t>(index)] = true;
    }
  }

  template <class... Values>
  void find(PlanFault fault, int bucket, int gradient, fmt::format_string<Values...> words, Values&&... values) {
    const bool is_warning = fault == PlanFault::empty || fault == PlanFault::waits;
    problems_.push_back({fault, is_warning ? Severity::warning : Severity::error, bucket, gradient,
                         fmt::format(words, std::forward<Values>(values)...)});
  }

  [[nodiscard]] const Gradient& gradient_of(const Member& member) const {
    return gradients_[static_cast<std::size_t>(member.gradient)];
  }
  [[nodiscard]] const Bucket& bucket_at(int index) const { return plan_.buckets[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::span<const Member> members_at(int index) const { return plan_.members_of(bucket_at(index)); }

  // Counts each gradient, and says which buckets later looks may rely on.
  void check_members(int index) {
    const Bucket& bucket = bucket_at(index);
    bool is_sound = bucket.elements >= 0 && (bucket.components_per_element == 1 || bucket.components_per_element == 2);
    if (!is_sound)
      find(PlanFault::range, index, -1, "bucket {} has {} elements of {} numbers", index, bucket.elements,
           int{bucket.components_per_element});
    const auto all = static_cast<std::int64_t>(plan_.members.size());
    if (bucket.first_member < 0 || bucket.members < 0 || std::int64_t{bucket.first_member} + bucket.members > all) {
      find(PlanFault::range, index, -1, "bucket {} has members {} to {} of {}", index, bucket.first_member,
           std::int64_t{bucket.first_member} + bucket.members, all);
      is_sound_.push_back(false);
      return;
    }
    for (const Member& member : members_at(index)) {
      if (static_cast<std::size_t>(member.gradient) < gradients_.size()) {
        ++times_[static_cast<std::size_t>(member.gradient)];
        continue;
      }
      find(PlanFault::range, index, member.gradient, "bucket {} has gradient {}; there are {}", index, member.gradient,
           gradients_.size());
      is_sound = false;
    }
    is_sound_.push_back(is_sound);
  }

  void check_cover() {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      const int gradient = static_cast<int>(i);
      if (is_frozen_[i] && times_[i] > 0)
        find(PlanFault::frozen, -1, gradient, "gradient {} is frozen, and a bucket has it", i);
      if (times_[i] > 1) find(PlanFault::doubled, -1, gradient, "gradient {} is in {} places", i, times_[i]);
      if (!is_frozen_[i] && times_[i] == 0) find(PlanFault::missing, -1, gradient, "gradient {} is in no bucket", i);
    }
  }

  // One bucket: who is in it, and where.
  void check_places(int index) {
    const Bucket& bucket = bucket_at(index);
    if (bucket.members == 0) find(PlanFault::empty, index, -1, "bucket {} has no members", index);
    const auto each = static_cast<std::int64_t>(comm::size_of(bucket.dtype)) * bucket.components_per_element;
    if (bucket.elements > kMost / each)
      find(PlanFault::overflow, index, -1, "bucket {} has {} elements of {} bytes, more than 64 bits hold", index,
           bucket.elements, each);
    if (!is_multiple(bucket.elements, rules_.bucket_alignment))
      find(PlanFault::alignment, index, -1, "bucket {} has {} elements, no multiple of {}", index, bucket.elements,
           rules_.bucket_alignment);
    for (const Member& member : members_at(index)) check_kind(index, member);
    check_neighbours(index);
  }

  void check_kind(int index, const Member& member) {
    const Bucket& bucket = bucket_at(index);
    const Gradient& gradient = gradient_of(member);
    if (gradient.dtype != bucket.dtype || gradient.components_per_element != bucket.components_per_element ||
        gradient.device != bucket.device || gradient.group != bucket.group)
      find(PlanFault::mixed, index, member.gradient, "bucket {} is {}, its gradient {} {}", index, words_of(bucket),
           member.gradient, words_of(gradient));
    if (gradient.sparse && (!bucket.sparse || bucket.members > 1))
      find(PlanFault::alone, index, member.gradient, "bucket {} is not for the sparse gradient {} alone", index,
           member.gradient);
    if (!gradient.sparse && bucket.sparse)
      find(PlanFault::alone, index, member.gradient, "bucket {} is for a sparse gradient, {} is dense", index,
           member.gradient);
    if (is_alone_[static_cast<std::size_t>(member.gradient)] && bucket.members > 1)
      find(PlanFault::alone, index, member.gradient, "bucket {} has gradient {}, which is to be alone, among others",
           index, member.gradient);
    if (!is_multiple(member.begin, rules_.member_alignment))
      find(PlanFault::alignment, index, member.gradient,
           "gradient {} starts at element {} of bucket {}, no multiple of {}", member.gradient, member.begin, index,
           rules_.member_alignment);
  }

  void check_neighbours(int index) {
    const Bucket& bucket = bucket_at(index);
    const auto members = members_at(index);
    std::vector<Member> sorted(members.begin(), members.end());
    const auto elements = [&](const Member& member) { return gradient_of(member).elements; };
    std::ranges::stable_sort(sorted, [&](const Member& a, const Member& b) {
      return std::pair(a.begin, elements(a)) < std::pair(b.begin, elements(b));
    });
    std::int64_t end = 0;  // of what came before
    Member last{};         // that ends there
    for (const Member& member : sorted) {
      if (member.begin < 0 || member.begin > bucket.elements || elements(member) > bucket.elements - member.begin) {
        find(PlanFault::outside, index, member.gradient, "gradient {} has {} elements from {} on, bucket {} has {}",
             member.gradient, elements(member), member.begin, index, bucket.elements);
        return;
      }
      if (member.begin < end && elements(member) > 0)
        find(PlanFault::overlap, index, member.gradient,
             "gradient {} starts at element {} of bucket {}, gradient {} ends at {}", member.gradient, member.begin,
             index, last.gradient, end);
      else if (member.begin > up_to_multiple(end, rules_.member_alignment))
        find(PlanFault::gap, index, member.gradient, "elements {} to {} of bucket {} belong to no gradient", end,
             member.begin, index);
      if (const std::int64_t its_end = member.begin + elements(member); its_end >= end) end = its_end, last = member;
    }
    // A bucket may end after the position that the next bucket's first member would have started at.
    if (bucket.elements > up_to_multiple(up_to_multiple(end, rules_.member_alignment), rules_.bucket_alignment))
      find(PlanFault::gap, index, -1, "elements {} to {} of bucket {} belong to no gradient", end, bucket.elements,
           index);
  }

  // Dense buckets that may be relied on, by what tells them apart, in the order of planning.
  [[nodiscard]] std::map<std::uint64_t, std::vector<int>> by_key() const {
    std::map<std::uint64_t, std::vector<int>> keys;
    for (int i = 0; i < static_cast<int>(plan_.buckets.size()); ++i) {
      const int index = rules_.planned_in_reverse ? static_cast<int>(plan_.buckets.size()) - 1 - i : i;
      if (is_sound_[static_cast<std::size_t>(index)] && bucket_at(index).members > 0 && !bucket_at(index).sparse)
        keys[key_of(gradient_of(members_at(index).front()))].push_back(index);
    }
    return keys;
  }

  // Bytes of the members in a bucket: of all, or of all but the last.
  [[nodiscard]] std::int64_t bytes_at(int index, std::size_t members) const {
    std::int64_t bytes = 0;
    for (const Member& member : members_at(index).first(members)) {
      const std::int64_t more = bytes_of(gradient_of(member));
      bytes = more > kMost - bytes ? kMost : bytes + more;
    }
    return bytes;
  }
  [[nodiscard]] std::int64_t bytes_of_room(int index, std::size_t members) const {
    const auto all = members_at(index);
    if (rules_.member_alignment == 1 || members == 0) return bytes_at(index, members);
    const Member& last = all[members - 1];  // gaps before it count
    const Gradient& gradient = gradient_of(last);
    const auto each = static_cast<std::int64_t>(comm::size_of(gradient.dtype)) * gradient.components_per_element;
    const std::int64_t begin = std::max<std::int64_t>(last.begin, 0);
    return begin > kMost / each - gradient.elements ? kMost : (begin + gradient.elements) * each;
  }

  void check_caps() {
    for (const auto& [key, buckets] : by_key())
      for (std::size_t i = 0; i < buckets.size(); ++i)
        check_cap(std::span(buckets).subspan(i), rules_.limits[std::min(i, rules_.limits.size() - 1)]);
  }

  [[nodiscard]] bool begins_alone(int index) const {
    return is_alone_[static_cast<std::size_t>(members_at(index).front().gradient)];
  }

  // The first of these; where one follows that is not to be alone, it has its gradients only if they do not fit.
  void check_cap(std::span<const int> buckets, std::int64_t limit) {
    const int index = buckets.front();
    if (begins_alone(index)) return;
    const bool goes_on = buckets.size() > 1 && !begins_alone(buckets[1]);
    const auto members = static_cast<std::size_t>(bucket_at(index).members);
    if (rules_.closing == Closing::after_reaching) {
      const std::int64_t bytes = bytes_of_room(index, members), without = bytes_of_room(index, members - 1);
      if (members > 1 && without >= limit)
        find(PlanFault::cap, index, -1, "bucket {} reached {} bytes at {} already, and took one more gradient", index,
             limit, without);
      if (goes_on && bytes < limit)
        find(PlanFault::cap, index, -1, "bucket {} was closed at {} bytes; its limit is {}", index, bytes, limit);
      return;
    }
    const std::int64_t bytes = bytes_at(index, members);
    if (members > 1 && bytes > limit)
      find(PlanFault::cap, index, -1, "bucket {} has {} bytes; {} are allowed", index, bytes, limit);
    if (goes_on && bytes <= limit && bytes_at(buckets[1], 1) <= limit - bytes)
      find(PlanFault::cap, index, -1, "bucket {} was closed at {} bytes though the next gradient, of {}, fits {}",
           index, bytes, bytes_at(buckets[1], 1), limit);
  }

  void check_order() {
    const std::vector<int> positions = positions_of(*rules_.order);
    for (const auto& [key, buckets] : by_key()) {
      const auto position = [&](int gradient) { return positions[static_cast<std::size_t>(gradient)]; };
      int last = members_at(buckets.front()).front().gradient;
      for (const int index : buckets)
        for (const Member& member : members_at(index)) {
          if (position(member.gradient) < position(last)) {
            find(PlanFault::order, index, member.gradient,
                 "gradient {} is in bucket {} after gradient {}, and before it in the order", member.gradient, index,
                 last);
            break;
          }
          last = member.gradient;
        }
    }
  }

  void check_waits() {
    const std::vector<int> positions = positions_of(*rules_.ready);
    int latest = 0, held_by = 0;  // gradients after which it is complete, and the bucket
    for (int i = 0; i < static_cast<int>(plan_.buckets.size()); ++i) {
      if (!is_sound_[static_cast<std::size_t>(i)] || bucket_at(i).members == 0) continue;
      int complete = 0;
      for (const Member& member : members_at(i))
        complete = std::max(complete, positions[static_cast<std::size_t>(member.gradient)] + 1);
      if (complete < latest)
        find(PlanFault::waits, i, -1,
             "bucket {} is complete after {} gradients and waits for bucket {}, complete after {}", i, complete,
             held_by, latest);
      else
        latest = complete, held_by = i;
    }
  }

  const Plan& plan_;
  std::span<const Gradient> gradients_;
  const PlanRules& rules_;
  std::vector<int> times_;  // that a gradient is in a bucket
  std::vector<bool> is_frozen_, is_alone_;
  std::vector<bool> is_sound_;  // of a bucket: its members can be looked at
  std::vector<PlanProblem> problems_;
};

}  // namespace

std::string_view name_of(PlanFault fault) { return kNames[static_cast<std::size_t>(fault)]; }

std::vector<PlanProblem> check_plan(const Plan& plan, std::span<const Gradient> gradients, const PlanRules& rules) {
  return Checker(plan, gradients, rules).check();
}

bool is_right(std::span<const PlanProblem> problems) {
  return std::ranges::none_of(problems, [](const PlanProblem& one) { return one.severity == Severity::error; });
}

}  // namespace plumbline::bucketing
