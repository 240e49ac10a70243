// harness/subject/nccl/progress_thread.hpp: moves on what has begun while its caller is elsewhere: in its own work, or
// waiting for a stream.
//
// Model   Sleeps while there is nothing to do. Else it looks again and again, with pauses that double while nothing
//         moves: what happens soon is met soon, and what lasts costs little. What another process does is met 50 ms
//         late at most (Pauses::longest): a message that nobody takes costs 20 looks a second. Where NCCL has only to
//         be asked again it is 1 ms, from the end of the pause on in which somebody else gave it that. A wake ends a
//         pause, but one that only says that something is running. For an error of what is running it looks every 50
//         ms.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace plumbline::subject::nccl {

/// What is left to do, by who has to go on; the largest says how soon to look.
enum class Left : std::uint8_t {
  nothing,
  running,  // NCCL and the device have it: only that they fail is news
  others,   // another process is to offer, or to take
  nccl,     // NCCL is to take what waits here
};

struct Step {
  Left left = Left::nothing;
  bool has_moved = false;  // something: more may follow soon
};

struct Pauses {
  std::chrono::nanoseconds shortest = std::chrono::microseconds(50);
  std::chrono::nanoseconds longest_for_nccl = std::chrono::milliseconds(1);
  std::chrono::nanoseconds longest = std::chrono::milliseconds(50);
};

class ProgressThread {
 public:
  /// `step` must not throw. Throws RuntimeFailure where there is no thread to be had.
  explicit ProgressThread(std::function<Step()> step, Pauses pauses = {});
  /// Lets a step under way end.
  ~ProgressThread() = default;
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// There is something to do, or something else: the next step is made at once. Only that something is running ends a
  /// sleep, but no pause: each call would cost a step.
  void wake(Left left);

 private:
  void run(const std::stop_token& stop);
  [[nodiscard]] std::chrono::nanoseconds longest(Left left) const;

  const std::function<Step()> step_;
  const Pauses pauses_;
  std::mutex mutex_;
  std::condition_variable_any woken_;
  Left told_ = Left::nothing;  // since the last step began
  bool is_asleep_ = false;
  std::jthread thread_;
};

}  // namespace plumbline::subject::nccl
