// The barrier, by the clock of the host.
#include <chrono>
#include <cstring>
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

// What a member tells of itself. The seal shows that all of it arrived, and from whom.
struct Visit {
  std::int64_t kernel, entered, seal;
  [[nodiscard]] std::int64_t seal_of(int rank) const { return kernel ^ entered ^ (rank + 1); }
};

void nobody_leaves_early(Context& context) {
  const int n = context.size();
  for (int late = 0; late < n; ++late) {
    context.world().barrier();
    if (context.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(4));
    Visit mine{kernel(), now(), 0};
    mine.seal = mine.seal_of(context.rank());
    context.world().barrier();
    const std::int64_t left = now();
    const GuardedInput told(std::vector{mine.kernel, mine.entered, mine.seal});
    GuardedOutput heard(comm::DType::i64, 3 * n);
    context.world().all_gather(carried(context.world(), told), carried(context.world(), heard));
    for (int rank = 0; rank < n; ++rank) {
      Visit other{};
      std::memcpy(&other, heard.bytes().data() + static_cast<std::size_t>(rank) * sizeof other, sizeof other);
      EXPECT_EQ(other.seal, other.seal_of(rank)) << "what rank " << rank << " tells did not arrive";
      if (other.kernel != mine.kernel) continue;
      EXPECT_LE(other.entered, left) << "rank " << context.rank() << " left " << other.entered - left
                                     << " ns before rank " << rank << " entered";
    }
  }
}

}  // namespace

void add_barrier_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.barrier.nobody_leaves_early",
             .verifies = {"COLL-049@40c5"},
             .axes = {suite::worlds({2, 3, 4, 5, 6, 8})},
             .deadlock_prone = true,
             .body = nobody_leaves_early});
}

}  // namespace plumbline::conformance
