// reference/comm/local/wait.hpp: how a rank waits for another.
//
// Model   Spin for as long as an answer from a running peer takes, then give the core away, then sleep ever longer.
//         With more ranks than cores the peer is likely not running, so the spin is short. A sleeper is never woken, it
//         looks again: no fence or system call burdens the side that is waited for, at the price of a few percent of
//         waits that are already long.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <sched.h>

namespace plumbline::comm::local {

using Clock = std::chrono::steady_clock;

inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

struct WaitPolicy {
  int spins;       // before the first yield
  int near_spins;  // before each yield, while no missing member was last seen on this core
  /// The policy for `ranks` ranks on `cores` cores.
  static WaitPolicy of(int ranks, int cores) { return ranks <= cores ? WaitPolicy{2000, 0} : WaitPolicy{12, 100}; }
};

/// When to give up. The clock runs from the first wait that outlasts its spin, so short waits never read it. Several
/// waits may share one.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds limit) : limit_(limit) {}
  [[nodiscard]] std::chrono::nanoseconds limit() const { return limit_; }
  [[nodiscard]] bool has_passed(Clock::time_point now) {
    if (begin_ == Clock::time_point{}) begin_ = now;
    return now - begin_ > limit_;
  }

 private:
  std::chrono::nanoseconds limit_;
  Clock::time_point begin_{};
};

/// Returns once ready() is true. From the end of the spin on, calls idle(now) before each look; idle may throw.
/// elsewhere() says whether all that is waited for may be running on other cores: then yielding would gain nothing.
template <class Ready, class Idle, class Elsewhere>
void wait_until(WaitPolicy policy, const Ready& ready, const Idle& idle, const Elsewhere& elsewhere) {
  using namespace std::chrono_literals;
  const auto spin = [&](int spins) {
    for (; spins > 0; --spins) {
      if (ready()) return true;
      cpu_pause();
    }
    return ready();
  };
  if (spin(policy.spins)) return;
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point now = begin;; now = Clock::now()) {
    const Clock::duration elapsed = now - begin;
    if (policy.near_spins != 0 && elapsed < 50us && elsewhere() && spin(policy.near_spins)) return;
    if (ready()) return;
    idle(now);
    if (elapsed < 500us)
      sched_yield();
    else
      std::this_thread::sleep_for(std::clamp<Clock::duration>(elapsed / 16, 10us, 1ms));
  }
}

template <class Ready, class Idle>
void wait_until(WaitPolicy policy, const Ready& ready, const Idle& idle) {
  wait_until(policy, ready, idle, [] { return false; });
}

/// A lock for sections of a few instructions, whose waiters yield instead of sleeping.
class SpinLock {
 public:
  void lock() {
    wait_until(
        WaitPolicy{100, 0},
        [this] { return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire); },
        [](Clock::time_point) {});
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace plumbline::comm::local
