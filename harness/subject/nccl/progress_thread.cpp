#include "harness/subject/nccl/progress_thread.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {

ProgressThread::ProgressThread(std::function<Step()> step, Pauses pauses) : step_(std::move(step)), pauses_(pauses) {
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    throw RuntimeFailure(fmt::format("a thread that moves calls on cannot be started: {}", error.what()));
  }
}

void ProgressThread::wake() {
  {
    const std::lock_guard hold(mutex_);
    is_woken_ = true;
  }
  woken_.notify_one();
}

std::chrono::nanoseconds ProgressThread::longest(Left left) const {
  return left == Left::nccl ? pauses_.longest_for_nccl : pauses_.longest;
}

void ProgressThread::run(const std::stop_token& stop) {
  auto pause = pauses_.shortest;
  Left before = Left::nothing;
  const auto is_woken = [this] { return is_woken_; };
  std::unique_lock hold(mutex_);
  while (!stop.stop_requested()) {
    is_woken_ = false;  // before the step: what comes during it is met by the next one
    hold.unlock();
    const auto [left, has_moved] = step_();
    hold.lock();
    if (has_moved || left != std::exchange(before, left)) pause = pauses_.shortest;
    pause = std::min(pause, longest(left));
    if (left == Left::nothing)
      woken_.wait(hold, stop, is_woken);
    else if (!woken_.wait_for(hold, stop, pause, is_woken))
      pause *= 2;
    if (is_woken_) pause = pauses_.shortest;
  }
}

}  // namespace plumbline::subject::nccl
