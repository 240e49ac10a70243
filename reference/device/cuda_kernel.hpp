// reference/device/cuda_kernel.hpp: a component's kernel (kernel.hpp) as it was built for GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plumbline::device {

struct CudaKernel {
  std::string_view name;  // Work::kName
  std::size_t bytes;      // of a work: a module that is older than its program is found out
  /// Launches it on the device that is current, on a copy of `work`. Throws DeviceFailure where CUDA refuses.
  void (*launch)(const void* work, std::int32_t chunks, void* stream);
};

}  // namespace plumbline::device
