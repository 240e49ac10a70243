// harness/subject/nccl/progress_thread.hpp: moves on what has begun while its caller is elsewhere: in its own work, or waiting for a
// stream.
//
// Model   Sleeps while there is nothing to do. Else it looks again and again, with pauses that grow: what another process does soon is
//         met soon, and what lasts costs little. A wake ends a pause.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace plumbline::subject::nccl {

struct Pauses {
  std::chrono::nanoseconds shortest = std::chrono::microseconds(50);
  std::chrono::nanoseconds longest = std::chrono::milliseconds(1);
};

class ProgressThread {
 public:
  /// `step` must not throw; it returns whether to look again. Throws RuntimeFailure where there is no thread to be had.
  explicit ProgressThread(std::function<bool()> step, Pauses pauses = {});
  /// Lets a step under way end.
  ~ProgressThread() = default;
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// There is something to do, or something else: the next step is made at once.
  void wake();

 private:
  void run(const std::stop_token& stop);

  const std::function<bool()> step_;
  const Pauses pauses_;
  std::mutex mutex_;
  std::condition_variable_any woken_;
  bool is_woken_ = false;  // since the last step began
  std::jthread thread_;
};

}  // namespace plumbline::subject::nccl
