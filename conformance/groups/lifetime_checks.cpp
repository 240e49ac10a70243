// That contexts leave nothing behind.
#include <gtest/gtest.h>

#include "conformance/collectives/trials.hpp"
#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"
#include "conformance/support/holdings.hpp"

namespace plumbline::conformance {

using groups::Creation;
using groups::ParallelContext;
using suite::Context;

namespace {

constexpr int kWarmUp = 100;
constexpr int kCycles = 1000;
constexpr std::int64_t kGrowth = 2 * 1024 * 1024;  // bytes: of allocators, and of what is noted for diagnoses

void cycle(Context& context, const std::vector<Creation>& creations, int times) {
  for (int i = 0; i < times; ++i) {
    const ParallelContext modes = context_over(context, plan_of(context, creations));
    if (i % 100 == 0) {
      context.progress("making and freeing groups");
      expect_members(modes.communicator("ALL"), context.rank(), list_named("whole", context.size()), "ALL");
    }
  }
}

void cycles(Context& context) {
  std::vector<Creation> creations{{.mode = "ALL", .ranks = list_named("whole", context.size())}};
  if (context.parameters().text("groups") == "two")
    creations.push_back({.mode = "BACK", .ranks = list_named("descending", context.size())});
  cycle(context, creations, kWarmUp);
  const Holdings before = holdings_at_rest(context.world());
  cycle(context, creations, kCycles);
  const Holdings after = holdings_at_rest(context.world(), before.threads);
  EXPECT_LE(after.threads, before.threads);
  EXPECT_LE(after.descriptors, before.descriptors);
  if (figures_of_memory_tell()) {
    EXPECT_LE(after.resident - before.resident, kGrowth) << "after " << kCycles << " contexts";
  }
  expect_usable(context.world());
}

}  // namespace

void add_lifetime_checks(suite::Suite& suite) {
  suite.add({.id = "groups.lifetime.cycles",
             .verifies = {"GROUP-017@e5d9"},
             .axes = {{"groups", {"one", "two"}}, suite::worlds({1, 2, 3, 4})},
             .limit = std::chrono::seconds(60),
             .body = cycles});
}

}  // namespace plumbline::conformance
