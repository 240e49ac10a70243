// What the harness puts around a backend costs a call: ninja harness_overhead && build/tests/harness_overhead
//
// Model   Two threads of `local`. Blocks of calls on the bare communicator, under the flight ring (on in check, off in
//         bench) and under the rendezvous arm take turns in one run. A block's time is the slower rank's; a line has
//         the median in nanoseconds a call, and the median over the rounds of the ratio to the bare block beside it.
#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "harness/launch/flight.hpp"
#include "harness/launch/process.hpp"
#include "harness/modes/modes.hpp"
#include "reference/comm/local.hpp"
#include "reference/support/quantile.hpp"

namespace {

using namespace plumbline;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 101;
constexpr int kCalls = 2000;

struct Kind {
  const char* name;
  std::unique_ptr<comm::Communicator> world;
};

// One rank's communicators: bare, and under each thing that the harness puts around.
std::vector<Kind> kinds_of(comm::Communicator& world, launch::FlightRing& ring, const std::filesystem::path& folder) {
  std::vector<Kind> kinds;
  kinds.push_back({"bare", world.duplicate()});
  kinds.push_back({"flight ring", launch::record_flight(world.duplicate(), ring)});
  kinds.push_back({"rendezvous", modes::under({.kind = suite::ExecutionMode::Kind::rendezvous}, world.duplicate(),
                                              folder, std::chrono::seconds(10))});
  return kinds;
}

void ping_pong(comm::Communicator& world) {
  std::int64_t number = 0;
  const comm::Buffer buffer{&number, 1, comm::DType::i64};
  const int peer = 1 - world.rank();
  if (world.rank() == 0) world.send(buffer, peer);
  world.recv(buffer, peer);
  if (world.rank() == 1) world.send(buffer, peer);
}

void sum(comm::Communicator& world) {
  std::array<float, 16> in{}, out{};
  world.all_reduce({in.data(), 16, comm::DType::f32}, {out.data(), 16, comm::DType::f32}, comm::ReduceOp::sum);
}

void compare(const char* what, const std::function<void(comm::Communicator&)>& call) {
  constexpr std::size_t kKinds = 3;
  comm::LocalWorld local(2, {});
  const launch::ScratchFolder folder;
  std::barrier together(2);
  std::array<std::array<double, kKinds>, 2> taken{};  // by rank and kind
  std::array<std::vector<double>, kKinds> times, ratios;
  std::array<const char*, kKinds> names{};
  const auto rank_body = [&](int rank) {
    const auto world = local.communicator(rank);
    launch::FlightRing ring(folder.path() / std::to_string(rank));
    const auto kinds = kinds_of(*world, ring, folder.path());
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t turn = 0; turn < kKinds; ++turn) {
        const std::size_t kind = (turn + static_cast<std::size_t>(round)) % kKinds;  // who goes first takes turns, too
        together.arrive_and_wait();
        const auto begin = Clock::now();
        for (int i = 0; i < kCalls; ++i) call(*kinds[kind].world);
        taken[static_cast<std::size_t>(rank)][kind] =
            std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kCalls;
      }
      together.arrive_and_wait();
      if (rank == 0)
        for (std::size_t kind = 0; kind < kKinds; ++kind) {
          names[kind] = kinds[kind].name;
          times[kind].push_back(std::max(taken[0][kind], taken[1][kind]));
          ratios[kind].push_back(times[kind].back() / std::max(taken[0][0], taken[1][0]));
        }
      together.arrive_and_wait();
    }
  };
  {
    const std::jthread other([&] { rank_body(1); });
    rank_body(0);
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind)
    std::printf("%-22s %-12s %9.0f ns a call  ratio %.3f\n", what, names[kind], median(times[kind]),
                median(ratios[kind]));
}

}  // namespace

int main() {
  compare("all_reduce(f32 x 16)", sum);
  compare("ping-pong of 8 bytes", ping_pong);
}
