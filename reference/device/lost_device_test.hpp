// reference/device/lost_device_test.hpp: devices that are lost while they are used, for the tests of who uses them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "reference/comm/errors.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::device {

/// Each device is lost when so many allocations were made on it, as CUDA's are after an access that was illegal: the
/// next one says so.
class LosesDevices final : public RuntimeDecorator {
 public:
  LosesDevices(std::shared_ptr<Runtime> inner, int allocations)
      : RuntimeDecorator(std::move(inner)), allocations_(allocations) {}
  void* allocate(int device, std::size_t bytes) override {
    {
      const std::lock_guard hold(mutex_);
      if (++asked_[device] > allocations_)
        throw DeviceFailure("CUDA: cudaMalloc: an illegal memory access was encountered (cudaErrorIllegalAddress)");
    }
    return RuntimeDecorator::allocate(device, bytes);
  }
  /// Allocations that were refused on a device, on the one with the most of them.
  [[nodiscard]] int refused() {
    const std::lock_guard hold(mutex_);
    int most = 0;
    for (const auto& [device, asked] : asked_) most = std::max(most, asked - allocations_);
    return most;
  }

 private:
  const int allocations_;
  std::mutex mutex_;
  std::map<int, int> asked_;
};

}  // namespace plumbline::device
