// That ranks agree on what they make before they make it, and that all are told where they do not.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "conformance/collectives/trials.hpp"
#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using groups::Creation;
using groups::ParallelContext;
using suite::Context;
using namespace std::chrono_literals;

namespace {

constexpr auto kLimit = 5s;

groups::ContextOptions limited() { return {.timeout = kLimit, .log = {}}; }

int odd_rank(Context& context) { return context.parameters().text("odd") == "first" ? 0 : context.size() - 1; }

std::string text_of_creation(const Creation& creation) {
  return fmt::format("{} [{}]", creation.mode, fmt::join(creation.ranks, " "));
}

// Every creation has a name of its own, so that words about one are about no other.
std::vector<Creation> usual_creations(int n) {
  return {{.mode = "ALL", .ranks = list_named("whole", n)},
          {.mode = "BACK", .ranks = list_named("descending", n)},
          {.mode = "CENTRE", .ranks = list_named("whole", n)},
          {.mode = "TAIL", .ranks = list_named("without_first", n)},
          {.mode = "ZERO", .ranks = {0}}};
}

struct Difference {
  std::vector<Creation> creations;  // of the odd rank
  int number = 0;                   // of the first creation that differs
};
Difference difference_named(const std::string& name, int n) {
  std::vector<Creation> creations = usual_creations(n);
  if (name == "order") {
    std::swap(creations[1], creations[2]);
    return {.creations = creations, .number = 1};
  }
  if (name == "reversed") {
    std::ranges::reverse(creations);
    return {.creations = creations, .number = 0};
  }
  if (name == "members") {
    creations[3].ranks = {n - 1, 0};
    return {.creations = creations, .number = 3};
  }
  if (name == "order_of_members") {
    std::ranges::reverse(creations[2].ranks);
    return {.creations = creations, .number = 2};
  }
  if (name == "mode") {
    creations[2].mode = "CENTER";
    return {.creations = creations, .number = 2};
  }
  if (name == "one_more") {
    creations.push_back({.mode = "ZULU", .ranks = list_named("whole", n)});
    return {.creations = creations, .number = 5};
  }
  if (name == "one_less") {
    creations.pop_back();
    return {.creations = creations, .number = 4};
  }
  return {.creations = creations, .number = -1};
}

// What a side makes at that place, as an error should say it.
std::string made_at(const std::vector<Creation>& creations, int number) {
  return number < static_cast<int>(creations.size()) ? text_of_creation(creations[static_cast<std::size_t>(number)])
                                                     : "nothing";
}

void different_plans(Context& context) {
  const auto usual = usual_creations(context.size());
  const auto [odd, number] = difference_named(context.parameters().text("difference"), context.size());
  const auto& own = context.rank() == odd_rank(context) ? odd : usual;
  const auto make = [&] { (void)context_over(context, plan_of(context, own), limited()); };
  if (number < 0) {
    make();
  } else {
    const auto begin = std::chrono::steady_clock::now();
    const std::string words = words_of<comm::MismatchError>(make, "ranks whose plans differ");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit);
    // Who is odd is whom most do not follow, rank 0 like any other.
    expect_named(words, {fmt::format("creation {}", number), made_at(odd, number), made_at(usual, number),
                         fmt::format("rank {}", odd_rank(context)),
                         fmt::format("{} of {} ranks", context.size() - 1, context.size())});
  }
  expect_usable(context.world());
}

// A longer plan, of which each creation in turn is another on the last rank.
void each_place(Context& context) {
  std::vector<Creation> usual;
  for (const char* mode : {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"})
    usual.push_back({.mode = mode, .ranks = list_named("whole", context.size())});
  const int odd = context.size() - 1;
  for (std::size_t place = 0; place < usual.size(); ++place) {
    std::vector<Creation> own = usual;
    if (context.rank() == odd) own[place].mode = "OTHER";
    const auto make = [&] { (void)context_over(context, plan_of(context, own), limited()); };
    expect_named(
        words_of<comm::MismatchError>(make, "ranks whose plans differ"),
        {fmt::format("creation {} ", place), "OTHER [", usual[place].mode + " [", fmt::format("rank {}", odd)});
  }
  expect_usable(context.world());
}

void world_sizes(Context& context) {
  const std::string& name = context.parameters().text("expects");
  const int expected = context.size() + (name == "more" ? 1 : name == "fewer" ? -1 : 0);
  const bool all = context.parameters().text("who") == "all";
  const int own = all || context.rank() == context.size() - 1 ? expected : context.size();
  groups::Plan plan = plan_of(context, {{.mode = "ZERO", .ranks = {0}}});
  plan.world_size = own;
  const auto make = [&] { (void)context_over(context, plan, limited()); };
  if (expected == context.size()) {
    make();
  } else {
    const std::vector<std::string> both{std::to_string(expected), std::to_string(context.size())};
    expect_named(words_of<InvalidArgument>(make, "a plan for another number of ranks"), both);
  }
  expect_usable(context.world());
}

std::vector<int> bad_list(const std::string& fault, int n) {
  if (fault == "empty") return {};
  if (fault == "rank_twice") return {0, n - 1, 0};
  if (fault == "rank_outside") return {0, n};
  if (fault == "rank_far_outside") return {0, n + 40};
  if (fault == "rank_below_0") return {0, -1};
  return list_named("whole", n);
}

void bad_plans(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  const bool has_it = context.parameters().text("who") == "all" || context.rank() == context.size() - 1;
  std::vector<Creation> creations = usual_creations(context.size());
  if (has_it) creations.insert(creations.begin() + 2, {.mode = "BAD", .ranks = bad_list(fault, context.size())});
  const auto make = [&] { (void)context_over(context, plan_of(context, creations), limited()); };
  const std::string words = words_of<InvalidArgument>(make, "a list of ranks that no group can have");
  expect_named(words, {"BAD", "creation 2"});
  expect_usable(context.world());
}

// The limit of one exchange, and what may come on top of it on a machine with more ranks than cores.
constexpr auto kShortLimit = 100ms;
constexpr auto kSoon = 3s;

// The last rank does not come. The group that is lost is a duplicate.
void absent_rank(Context& context) {
  const auto victim = context.world().duplicate();
  context.world().barrier();
  if (context.rank() < context.size() - 1) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      const ParallelContext modes(*victim, plan_of(context, usual_creations(context.size())),
                                  {.timeout = kShortLimit, .log = {}});
      ADD_FAILURE() << "a context was made without rank " << context.size() - 1;
    } catch (const comm::TimeoutError& error) {
      expect_named(error.what(), {std::to_string(context.size() - 1)});
    } catch (const comm::PeerFailed&) {
      // another rank's limit passed first, and failed the group
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kShortLimit + kSoon);
  }
  context.world().barrier();
}

[[noreturn]] void fail() { throw RuntimeFailure("a device is full"); }

// Makes no group.
class Full final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  std::unique_ptr<comm::Communicator> do_create_group(std::span<const int>) override { fail(); }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

// The last rank fails, before it agrees or in its first creation. The others, which wait for it, are told.
void failing_rank(Context& context) {
  const bool in_log = context.parameters().text("stage") == "log";
  const bool fails = context.rank() == context.size() - 1;
  auto victim = context.world().duplicate();
  groups::ContextOptions options{.timeout = kShortLimit, .log = {}};
  if (fails && in_log) options.log = [](const std::string&) { fail(); };
  if (fails && !in_log) victim = std::make_unique<Full>(std::move(victim));
  context.world().barrier();
  try {
    const ParallelContext modes(*victim, plan_of(context, {{"ALL", list_named("whole", context.size())}}), options);
    ADD_FAILURE() << "a context was made, though rank " << context.size() - 1 << " failed";
  } catch (const RuntimeFailure& error) {
    EXPECT_TRUE(fails) << error.what();
  } catch (const comm::PeerFailed& error) {
    EXPECT_FALSE(fails) << error.what();
  } catch (const comm::TimeoutError& error) {
    ADD_FAILURE() << "waited for the limit: " << error.what();
  }
  context.world().barrier();
}

}  // namespace

void add_agreement_checks(suite::Suite& suite) {
  suite.add({.id = "groups.agreement.different_plans",
             .verifies = {"GROUP-011@d338"},
             .axes = {{"difference",
                       {"none", "order", "reversed", "members", "order_of_members", "mode", "one_more", "one_less"}},
                      {"odd", {"first", "last"}},
                      suite::worlds({3, 4, 6})},
             .limit = std::chrono::seconds(10),
             .deadlock_prone = true,
             .body = different_plans});
  suite.add({.id = "groups.agreement.each_place",
             .verifies = {"GROUP-011@d338"},
             .axes = {suite::worlds({3, 6})},
             .limit = std::chrono::seconds(10),
             .body = each_place});
  suite.add({.id = "groups.agreement.world_sizes",
             .verifies = {"GROUP-012@a169"},
             .axes = {{"expects", {"same", "more", "fewer"}}, {"who", {"all", "last"}}, suite::worlds({2, 3, 4, 6})},
             .limit = std::chrono::seconds(10),
             .deadlock_prone = true,
             .body = world_sizes});
  suite.add({.id = "groups.agreement.bad_plans",
             .verifies = {"GROUP-013@8afb"},
             .axes = {{"fault", {"empty", "rank_twice", "rank_outside", "rank_far_outside", "rank_below_0"}},
                      {"who", {"all", "last"}},
                      suite::worlds({2, 3, 4, 6})},
             .limit = std::chrono::seconds(10),
             .deadlock_prone = true,
             .body = bad_plans});
  suite.add({.id = "groups.agreement.absent_rank",
             .verifies = {"GROUP-014@dd3d"},
             .axes = {suite::worlds({2, 3, 4, 6})},
             .needs = {comm::Capability::blocking_timeout, comm::Capability::names_missing},
             .limit = std::chrono::seconds(10),
             .body = absent_rank});
  suite.add({.id = "groups.agreement.failing_rank",
             .verifies = {"GROUP-036@a4c1"},
             .axes = {{"stage", {"log", "creation"}}, suite::worlds({1, 2, 3, 4, 6})},
             .needs = {comm::Capability::failure_detection},
             .limit = std::chrono::seconds(10),
             .body = failing_rank});
}

}  // namespace plumbline::conformance
