// reference/training/pipeline/memory.hpp: how much memory the tensors of a piece of work take at once.
//
// Model   LibTorch's allocators report what they give and take back on a thread, and on those that back-propagate for
//         it. The sum since the beginning is the memory in addition to the earlier one; the most that it was is the
//         peak.
// Cost    About 0.1 us for each tensor.
#pragma once

#include <cstdint>
#include <memory>

namespace plumbline::training {

/// Measures on this thread from when it is made. They may be nested; only the inner one then counts.
class PeakMemory {
 public:
  PeakMemory();
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;
  /// Bytes, of all devices together.
  [[nodiscard]] std::int64_t most() const;

 private:
  class Reporter;
  struct Guard;
  std::shared_ptr<Reporter> reporter_;
  std::unique_ptr<Guard> guard_;
};

}  // namespace plumbline::training
