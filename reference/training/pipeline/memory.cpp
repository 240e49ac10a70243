#include "reference/training/pipeline/memory.hpp"

#include <algorithm>
#include <mutex>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace plumbline::training {

class PeakMemory::Reporter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override {
    const std::lock_guard lock(mutex_);
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
  [[nodiscard]] std::int64_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  mutable std::mutex mutex_;
  std::int64_t now_ = 0, most_ = 0;
};

struct PeakMemory::Guard {
  c10::DebugInfoGuard guard;
};

PeakMemory::PeakMemory()
    : reporter_(std::make_shared<Reporter>()),
      guard_(new Guard{c10::DebugInfoGuard(c10::DebugInfoKind::PROFILER_STATE, reporter_)}) {}
PeakMemory::~PeakMemory() = default;
std::int64_t PeakMemory::most() const { return reporter_->most(); }

}  // namespace plumbline::training
