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

void ProgressThread::wake(Left left) {
  {
    const std::lock_guard hold(mutex_);
    told_ = std::max(told_, left);
    if (left == Left::nothing || (left == Left::running && !is_asleep_)) return;
  }
  woken_.notify_one();
}

std::chrono::nanoseconds ProgressThread::longest(Left left) const {
  return left == Left::nccl ? pauses_.longest_for_nccl : pauses_.longest;
}

void ProgressThread::run(const std::stop_token& stop) {
  auto pause = pauses_.shortest;
  Left before = Left::nothing;
  std::unique_lock hold(mutex_);
  while (!stop.stop_requested()) {
    told_ = Left::nothing;  // before the step: what comes during it is met by the next one
    hold.unlock();
    const auto [left, has_moved] = step_();
    hold.lock();
    if (has_moved || left != std::exchange(before, left)) pause = pauses_.shortest;
    pause = left == Left::running ? pauses_.longest : std::min(pause, longest(left));
    is_asleep_ = left == Left::nothing;
    if (is_asleep_)
      woken_.wait(hold, stop, [this] { return told_ > Left::nothing; });
    else if (!woken_.wait_for(hold, stop, pause, [this] { return told_ > Left::running; }))
      pause *= 2;
    is_asleep_ = false;
    if (told_ > Left::running) pause = pauses_.shortest;
  }
}

}  // namespace plumbline::subject::nccl
