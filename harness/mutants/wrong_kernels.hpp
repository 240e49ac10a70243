// harness/mutants/wrong_kernels.hpp: runtimes of devices that launch components' kernels wrongly. Not for others.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "harness/mutants/mutants.hpp"
#include "reference/device/kernel.hpp"

namespace plumbline::mutants {

/// Launches in another way; everything else as it is.
class LaunchesOtherwise final : public device::RuntimeDecorator {
 public:
  using Launch = std::function<void(device::Runtime& right, int device, const device::Kernel& kernel, const void* work,
                                    std::int32_t chunks, device::Stream stream)>;
  LaunchesOtherwise(std::shared_ptr<device::Runtime> inner, Launch launch)
      : RuntimeDecorator(inner), right_(std::move(inner)), launch_(std::move(launch)) {}
  void launch(int device, const device::Kernel& kernel, const void* work, std::int32_t chunks,
              device::Stream stream) override {
    launch_(*right_, device, kernel, work, chunks, stream);
  }

 private:
  std::shared_ptr<device::Runtime> right_;
  Launch launch_;
};

[[nodiscard]] inline WrapRuntime launching(LaunchesOtherwise::Launch launch) {
  return [launch = std::move(launch)](std::shared_ptr<device::Runtime> inner) -> std::shared_ptr<device::Runtime> {
    return std::make_shared<LaunchesOtherwise>(std::move(inner), launch);
  };
}

/// Works of one kind with `change` made to them.
template <class Work>
[[nodiscard]] WrapRuntime changing(void (*change)(Work& work)) {
  return launching([change](device::Runtime& right, int device, const device::Kernel& kernel, const void* work,
                            std::int32_t chunks, device::Stream stream) {
    if (kernel.name != Work::kName) return right.launch(device, kernel, work, chunks, stream);
    Work changed = *static_cast<const Work*>(work);
    change(changed);
    right.launch(device, kernel, &changed, chunks, stream);
  });
}

/// The host waits for each kernel.
[[nodiscard]] inline WrapRuntime waiting_for_kernels() {
  return launching([](device::Runtime& right, int device, const device::Kernel& kernel, const void* work,
                      std::int32_t chunks, device::Stream stream) {
    right.launch(device, kernel, work, chunks, stream);
    right.synchronize(device, stream);
  });
}

/// Kernels are launched in the device's default stream.
[[nodiscard]] inline WrapRuntime launching_by_default() {
  return launching([](device::Runtime& right, int device, const device::Kernel& kernel, const void* work,
                      std::int32_t chunks, device::Stream) { right.launch(device, kernel, work, chunks, nullptr); });
}

}  // namespace plumbline::mutants
