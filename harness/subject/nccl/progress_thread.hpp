// harness/subject/nccl/progress_thread.hpp: moves on what has begun while its caller is elsewhere: in its own work, or waiting for a
// stream.
//
// Model   Sleeps while there is nothing to do. Else it looks again and again, with pauses that grow: what another process does soon is
//         met soon, and what lasts costs little.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <thread>

namespace plumbline::subject::nccl {

class ProgressThread {
 public:
  /// `step` must not throw; it returns whether to look again. Throws RuntimeFailure where there is no thread to be had.
  explicit ProgressThread(std::function<bool()> step);
  /// Lets a step under way end.
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// There is something to do, or something else.
  void wake();

 private:
  void run(const std::stop_token& stop);

  const std::function<bool()> step_;
  std::atomic<std::uint64_t> wakes_{0};
  std::jthread thread_;
};

}  // namespace plumbline::subject::nccl
