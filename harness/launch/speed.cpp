#include "harness/launch/speed.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace plumbline::launch {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

// Medians of an idle machine with two cores of 2.1 GHz, built as ci/setup.sh builds.
constexpr Milliseconds kArithmetic{16};
constexpr Milliseconds kHandovers{12};

Milliseconds arithmetic() {
  constexpr int steps = 8'000'000;
  const auto begin = Clock::now();
  std::uint64_t state = 1;
  for (int i = 0; i < steps; ++i) state = state * 6364136223846793005u + 1442695040888963407u;
  [[maybe_unused]] volatile const std::uint64_t kept = state;
  return Clock::now() - begin;
}

// Two threads that take turns, as ranks do that wait for each other.
Milliseconds handovers() {
  constexpr int turns = 500;
  std::mutex mutex;
  std::condition_variable turned;
  int turn = 0;
  const auto play = [&](int me) {
    std::unique_lock hold(mutex);
    for (int i = 0; i < turns; ++i) {
      turned.wait(hold, [&] { return turn % 2 == me; });
      ++turn;
      turned.notify_one();
    }
  };
  const auto begin = Clock::now();
  {
    const std::jthread other([&] { play(1); });
    play(0);
  }
  return Clock::now() - begin;
}

}  // namespace

double measure_slowness() {
  return std::clamp(std::max(arithmetic() / kArithmetic, handovers() / kHandovers), 1.0, kSlowest);
}

}  // namespace plumbline::launch
