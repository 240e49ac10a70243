#include "harness/subject/nccl/progress_thread.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::microseconds kShortest = 50us, kLongest = 1ms;

}  // namespace

ProgressThread::ProgressThread(std::function<bool()> step) : step_(std::move(step)) {
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    throw RuntimeFailure(fmt::format("a thread that moves calls on cannot be started: {}", error.what()));
  }
}

ProgressThread::~ProgressThread() {
  thread_.request_stop();
  wake();
}

void ProgressThread::wake() {
  wakes_.fetch_add(1, std::memory_order_release);
  wakes_.notify_one();
}

void ProgressThread::run(const std::stop_token& stop) {
  auto pause = kShortest;
  for (std::uint64_t seen = 0;;) {
    // Before the step: what comes during it is met by the next one.
    const std::uint64_t wakes = wakes_.load(std::memory_order_acquire);
    if (stop.stop_requested()) return;
    pause = wakes == seen ? std::min(2 * pause, kLongest) : kShortest;
    seen = wakes;
    if (step_())
      std::this_thread::sleep_for(pause);
    else
      wakes_.wait(wakes, std::memory_order_acquire);
  }
}

}  // namespace plumbline::subject::nccl
