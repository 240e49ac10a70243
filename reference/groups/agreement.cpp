#include "reference/groups/detail/agreement.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::groups {
namespace {

using comm::Communicator;
using comm::DType;
using comm::Timeout;

// What ranks tell each other of what they are about to make.
struct Announcement {
  std::int64_t world_size = 0;
  std::int64_t creations = 0;
  std::int64_t valid = 1;
  std::uint64_t hash = 0;
  auto operator<=>(const Announcement&) const = default;
};
constexpr std::size_t kAnnounced = 4;  // numbers

// Every rank's `numbers`, in rank order.
template <std::size_t count>
std::vector<std::array<std::int64_t, count>> exchange(Communicator& parent, std::array<std::int64_t, count> numbers,
                                                      Timeout timeout) {
  std::vector<std::array<std::int64_t, count>> all(static_cast<std::size_t>(parent.size()));
  parent.all_gather({numbers.data(), count, DType::i64},
                    {all.data(), static_cast<std::int64_t>(count * all.size()), DType::i64}, timeout);
  return all;
}

// A text of one rank, on all.
std::string share(Communicator& parent, int root, std::string text, Timeout timeout) {
  auto length = static_cast<std::int64_t>(text.size());
  parent.broadcast({&length, 1, DType::i64}, root, timeout);
  text.resize(static_cast<std::size_t>(length));
  if (length > 0) parent.broadcast({text.data(), length, DType::u8}, root, timeout);
  return text;
}

std::vector<Announcement> announce(Communicator& parent, const Announcement& own, Timeout timeout) {
  const std::array<std::int64_t, kAnnounced> numbers{own.world_size, own.creations, own.valid,
                                                     static_cast<std::int64_t>(own.hash)};
  std::vector<Announcement> all;
  for (const auto& [world_size, creations, valid, hash] : exchange(parent, numbers, timeout))
    all.push_back(
        {.world_size = world_size, .creations = creations, .valid = valid, .hash = static_cast<std::uint64_t>(hash)});
  return all;
}

std::uint64_t hash_with(std::uint64_t before, const Creation& creation) {
  comm::Fnv1a hash(before);
  hash.add_word(creation.mode.size()).add(creation.mode).add_word(creation.ranks.size());
  for (const int rank : creation.ranks) hash.add_word(static_cast<std::uint32_t>(rank));
  return hash.value();
}

// The hash of the first n creations, for each n from 0.
std::vector<std::uint64_t> prefix_hashes(const std::vector<Creation>& creations) {
  std::vector<std::uint64_t> hashes{comm::Fnv1a::kStart};
  for (const Creation& creation : creations) hashes.push_back(hash_with(hashes.back(), creation));
  return hashes;
}

// Empty for a valid plan.
std::string fault_in(const Plan& plan) {
  try {
    validate(plan);
    return {};
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

void check_sizes(int size, const std::vector<Announcement>& all) {
  const auto odd = std::ranges::find_if(all, [size](const Announcement& one) { return one.world_size != size; });
  if (odd != all.end())
    throw InvalidArgument(fmt::format("groups: the communicator has {} ranks, but rank {} expects a world of {}", size,
                                      odd - all.begin(), odd->world_size));
}

// The lowest rank of those that announced what most did.
std::size_t spokesman_of(const std::vector<Announcement>& all) {
  std::map<Announcement, std::size_t> followers;
  for (const Announcement& one : all) ++followers[one];
  return static_cast<std::size_t>(
      std::ranges::max_element(all, {}, [&](const Announcement& one) { return followers.at(one); }) - all.begin());
}

// The first creation in which two ranks differ: halves the range by the hashes of what comes before. All ranks take
// part.
std::int64_t first_difference(Communicator& parent, std::size_t one, std::size_t other, std::int64_t common,
                              const std::vector<std::uint64_t>& hashes, Timeout timeout) {
  std::int64_t same = 0;                // the first `same` creations agree
  std::int64_t other_end = common + 1;  // the first `other_end` do not, or one has no more
  while (other_end - same > 1) {
    const std::int64_t middle = std::midpoint(same, other_end);
    const std::size_t own = std::min(static_cast<std::size_t>(middle), hashes.size() - 1);
    const auto all = exchange<1>(parent, {static_cast<std::int64_t>(hashes[own])}, timeout);
    (all[one] == all[other] ? same : other_end) = middle;
  }
  return same;
}

std::string described(const std::vector<Creation>& creations, std::int64_t number) {
  if (number >= static_cast<std::int64_t>(creations.size())) return "nothing";
  const Creation& creation = creations[static_cast<std::size_t>(number)];
  return fmt::format("{} {}", creation.mode, shown(creation.ranks));
}

// In which creation ranks first differ, and who makes what there. All ranks take part.
std::string difference_between(Communicator& parent, const std::vector<Announcement>& all,
                               const std::vector<Creation>& creations, const std::vector<std::uint64_t>& hashes,
                               Timeout timeout) {
  const std::size_t spokesman = spokesman_of(all);
  const auto odd_one = std::ranges::find_if(all, [&](const Announcement& one) { return one != all[spokesman]; });
  const auto odd = static_cast<std::size_t>(odd_one - all.begin());
  const std::int64_t common = std::min(all[spokesman].creations, all[odd].creations);
  const std::int64_t number = first_difference(parent, spokesman, odd, common, hashes, timeout);
  const std::string usual = share(parent, static_cast<int>(spokesman), described(creations, number), timeout);
  const std::string unusual = share(parent, static_cast<int>(odd), described(creations, number), timeout);
  return fmt::format(
      "groups: ranks differ from creation {} on: rank {} makes {}, rank {} makes {}{}; {} of {} ranks are to make what "
      "rank {} makes",
      number, odd, unusual, spokesman, usual, usual == unusual ? " (they differ in ranks that are not shown)" : "",
      std::ranges::count(all, all[spokesman]), all.size(), spokesman);
}

}  // namespace

void agree_on(Communicator& parent, const Plan& plan, Timeout timeout) {
  const std::string fault = fault_in(plan);
  const std::vector<std::uint64_t> hashes = prefix_hashes(plan.creations);
  const auto all = announce(parent,
                            {.world_size = plan.world_size,
                             .creations = static_cast<std::int64_t>(plan.creations.size()),
                             .valid = fault.empty() ? 1 : 0,
                             .hash = hashes.back()},
                            timeout);
  check_sizes(parent.size(), all);
  if (const auto bad = std::ranges::find(all, 0, &Announcement::valid); bad != all.end()) {
    const auto rank = static_cast<int>(bad - all.begin());
    throw InvalidArgument(fmt::format("{} (on rank {})", share(parent, rank, fault, timeout), rank));
  }
  if (std::ranges::count(all, all.front()) != parent.size())
    throw comm::MismatchError(difference_between(parent, all, plan.creations, hashes, timeout));
}

}  // namespace plumbline::groups
