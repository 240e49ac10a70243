// Groups that take in ranks which were no members.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/ended_members.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using suite::Context;

namespace {

// The root's words, on every member.
std::string shared_words(Communicator& group, std::string words, int root) {
  constexpr std::size_t kWhole = 16;  // a multiple of every element's size
  const auto broadcast = [&](void* data, std::size_t bytes) {
    const comm::DType dtype = some_dtype(group.capabilities());
    group.broadcast({data, static_cast<std::int64_t>(bytes / size_of(dtype)), dtype}, root);
  };
  std::uint64_t bytes[2] = {group.rank() == root ? words.size() + 1 : 0, 0};  // 0: nothing was broadcast
  broadcast(bytes, sizeof bytes);
  constexpr std::uint64_t kMost = 4096;
  if (bytes[0] == 0 || bytes[0] > kMost) {
    report(fmt::format("a broadcast of the length of the words, 1 to {}, gave {}", kMost, bytes[0]));
    bytes[0] = std::clamp<std::uint64_t>(bytes[0], 1, kMost);
  }
  --bytes[0];
  words.resize((bytes[0] + kWhole - 1) / kWhole * kWhole);
  broadcast(words.data(), words.size());
  words.resize(bytes[0]);
  return words;
}

// [first, last) from the last to the first.
std::vector<int> counting_down(int first, int last) {
  std::vector<int> ranks;
  for (int rank = last - 1; rank >= first; --rank) ranks.push_back(rank);
  return ranks;
}

// The first ranks of the world as a group, the last one first, and the others, who are to join it.
struct Growing {
  explicit Growing(Context& context, int member_count)
      : members(counting_down(0, member_count)), newcomers(counting_down(member_count, context.size())), all(members) {
    all.insert(all.end(), newcomers.begin(), newcomers.end());
    if (context.rank() < member_count) old = context.world().create_group(members);
  }
  // With the words of the member that has them.
  std::unique_ptr<Communicator> grow(Context& context, int inviting) const {
    const bool invites = old != nullptr && old->rank() == inviting;
    const std::string words =
        shared_words(context.world(), invites ? old->invite() : "", members[static_cast<std::size_t>(inviting)]);
    return old != nullptr ? old->grow(words, newcomers) : context.world().join(words, newcomers);
  }
  std::vector<int> members, newcomers, all;
  std::unique_ptr<Communicator> old;  // of a member
};

int members_of(Context& context) { return context.parameters().text("newcomers") == "one" ? context.size() - 1 : 1; }

void forms_a_group(Context& context) {
  const Growing growing(context, members_of(context));
  const auto grown = growing.grow(context, static_cast<int>(growing.members.size()) - 1);
  expect_members(*grown, growing.all, context.rank());
  expect_all_works(*grown, context.seed());
}

// Calls of the same shapes on both, before and after, and by turns; then the old one goes.
void old_group_stays(Context& context) {
  Growing growing(context, std::max(1, context.size() / 2));
  std::uint64_t seed = context.seed();
  const auto on_old = [&](std::int64_t elements) {
    ++seed;
    if (growing.old != nullptr) expect_result(*growing.old, {.elements = elements, .seed = seed});
  };
  on_old(5);
  const auto grown = growing.grow(context, 0);
  for (const std::int64_t elements : {5, 3000}) {
    const Exercise on_grown(*grown, {.elements = elements, .seed = ++seed});
    comm::Work work = on_grown.start(*grown);
    on_old(elements);
    work.wait();
    report(on_grown.problem());
  }
  if (growing.old != nullptr) expect_usable(*growing.old->duplicate());
  growing.old.reset();
  expect_usable(*grown);
  expect_usable(context.world());
}

// A group grows a second time, by a newcomer that the first growth has invited.
void grows_again(Context& context) {
  const int last = context.size() - 1;
  const std::vector<int> members = counting_down(0, last - 1), first{last - 1}, second{last};
  Communicator& world = context.world();
  const bool is_member = context.rank() < last - 1, is_first = context.rank() == last - 1;
  std::unique_ptr<Communicator> old, between, grown;
  if (is_member) old = world.create_group(members);
  std::string words = shared_words(world, context.rank() == 0 ? old->invite() : "", 0);
  if (is_member) between = old->grow(words, first);
  if (is_first) between = world.join(words, first);
  if (between != nullptr) expect_usable(*between);
  words = shared_words(world, is_first ? between->invite() : "", last - 1);
  grown = between != nullptr ? between->grow(words, second) : world.join(words, second);
  std::vector<int> all = members;
  all.insert(all.end(), {last - 1, last});
  expect_members(*grown, all, context.rank());
  expect_all_works(*grown, context.seed());
}

// The last rank is a spare. A member ends, the others leave it out, and the spare takes its part.
void replaces_a_member(Context& context) {
  require_end(context);
  const int spare = context.size() - 1, ending = spare / 2;
  const std::vector<int> before = counting_down(0, spare);
  std::vector<int> others = counting_down(0, context.size());
  std::erase(others, ending);
  std::unique_ptr<Communicator> group, bridge;
  if (context.rank() != spare) group = context.world().create_group(before);
  if (context.rank() != ending) bridge = context.world().create_group(others);
  if (group != nullptr) expect_usable(*group);
  end_when_all_are_here(context, context.world(), context.rank() == ending);
  std::unique_ptr<Communicator> left, grown;
  if (group != nullptr) {
    expect_lost(*group);
    const auto place = std::ranges::find(before, ending) - before.begin();
    left = group->shrink(std::array{static_cast<int>(place)});
  }
  const std::vector<int> newcomers{spare};
  const std::string words =
      shared_words(*bridge, left != nullptr && left->rank() == 0 ? left->invite() : "", 1);  // after the spare
  grown = left != nullptr ? left->grow(words, newcomers) : bridge->join(words, newcomers);
  std::vector<int> all = before;
  std::erase(all, ending);
  all.push_back(spare);
  expect_members(*grown, all, context.rank());
  EXPECT_EQ(grown->size(), std::ssize(before)) << "the spare took the part of the member that has ended";
  expect_all_works(*grown, context.seed());
}

}  // namespace

void add_grow_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.grow.forms_a_group",
             .verifies = {"COLL-150@ef72"},
             .axes = {{"newcomers", {"one", "most"}}, suite::worlds({3, 4, 5})},
             .body = forms_a_group});
  suite.add({.id = "collectives.grow.grows_again",
             .verifies = {"COLL-150@ef72"},
             .axes = {suite::worlds({3, 4})},
             .body = grows_again});
  suite.add({.id = "collectives.grow.old_group_stays",
             .verifies = {"COLL-151@392a"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = old_group_stays});
  suite.add({.id = "collectives.grow.replaces_a_member",
             .verifies = {"COLL-152@db3f"},
             .axes = {suite::worlds({4, 5})},
             .spoils_group = true,
             .body = replaces_a_member});
}

}  // namespace plumbline::conformance
