// The barrier, by the clock of the host.
#include <array>
#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using suite::Context;

namespace {

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Steady clocks of processes under one kernel agree; those of other hosts do not, and are not compared.
std::int64_t kernel() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return static_cast<std::int64_t>(std::hash<std::string>{}(id));
}

void nobody_leaves_early(Context& context) {
  const int n = context.size();
  struct Visit {
    std::int64_t kernel, entered, left;
  };
  for (int late = 0; late < n; ++late) {
    context.world().barrier();
    if (context.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(4));
    Visit mine{kernel(), now(), 0};
    context.world().barrier();
    mine.left = now();
    std::vector<Visit> all(static_cast<std::size_t>(n));
    context.world().all_gather(carried(context.world(), &mine, sizeof mine),
                               carried(context.world(), all.data(), all.size() * sizeof mine));
    for (int rank = 0; rank < n; ++rank) {
      const Visit& other = all[static_cast<std::size_t>(rank)];
      if (other.kernel != mine.kernel) continue;
      EXPECT_LE(other.entered, mine.left) << "rank " << context.rank() << " left " << other.entered - mine.left
                                          << " ns before rank " << rank << " entered";
    }
  }
}

}  // namespace

void add_barrier_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.barrier.nobody_leaves_early",
             .verifies = {"COLL-049@5401"},
             .axes = {suite::worlds({2, 3, 4, 5, 6, 8})},
             .body = nobody_leaves_early});
}

}  // namespace plumbline::conformance
