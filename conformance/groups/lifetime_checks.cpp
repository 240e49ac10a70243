// That contexts leave nothing behind.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include "conformance/collectives/trials.hpp"
#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"

namespace plumbline::conformance {

using groups::Creation;
using groups::ParallelContext;
using suite::Context;

namespace {

constexpr int kWarmUp = 100;
constexpr int kCycles = 1000;
constexpr std::int64_t kGrowth = 2 * 1024 * 1024;  // bytes: of allocators, and of what is noted for diagnoses

// What this process has.
struct Holdings {
  std::int64_t threads = 0, descriptors = 0, bytes = 0;
};

std::int64_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

Holdings holdings() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return {.threads = entries_of("/proc/self/task"),
          .descriptors = entries_of("/proc/self/fd"),
          .bytes = resident * sysconf(_SC_PAGESIZE)};
}

// A sanitizer's allocator, of which malloc's own figures know nothing, keeps what is freed for a while.
bool resident_memory_tells() { return mallinfo2().uordblks > 0; }

// Ranks may share the process: all stand still while one looks, so that nobody sees another's look.
Holdings holdings_at_rest(Context& context) {
  Holdings own;
  for (int rank = 0; rank < context.size(); ++rank) {
    context.world().barrier();
    if (rank == context.rank()) own = holdings();
    context.world().barrier();
  }
  return own;
}

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
  const Holdings before = holdings_at_rest(context);
  cycle(context, creations, kCycles);
  const Holdings after = holdings_at_rest(context);
  EXPECT_LE(after.threads, before.threads);
  EXPECT_LE(after.descriptors, before.descriptors);
  if (resident_memory_tells()) {
    EXPECT_LE(after.bytes - before.bytes, kGrowth) << "after " << kCycles << " contexts";
  }
  expect_usable(context.world());
}

}  // namespace

void add_lifetime_checks(suite::Suite& suite) {
  suite.add({.id = "groups.lifetime.cycles",
             .verifies = {"GROUP-017@c1e9"},
             .axes = {{"groups", {"one", "two"}}, suite::worlds({1, 2, 3, 4})},
             .limit = std::chrono::seconds(60),
             .body = cycles});
}

}  // namespace plumbline::conformance
