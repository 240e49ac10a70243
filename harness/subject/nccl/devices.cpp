#include "harness/subject/nccl/devices.hpp"

#ifdef PLUMBLINE_NCCL_CUDART
#include <cuda_runtime_api.h>
#endif

#include "harness/subject/modules.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::subject::nccl {

std::shared_ptr<device::Runtime> open_runtime(comm::Device::Kind kind, int ranks) {
  if (kind == comm::Device::Kind::emulated) return device::make_emulated({.devices = ranks});
  const auto factory = reinterpret_cast<device::RuntimeFactory*>(open_module("cuda", device::kRuntimeFactory, "CUDA"));
  return std::shared_ptr<device::Runtime>(factory());
}

#ifdef PLUMBLINE_NCCL_CUDART
void make_current(comm::Device device) noexcept {
  if (device.kind == comm::Device::Kind::cuda) (void)cudaSetDevice(device.index);
}
#else
// Without a CUDA toolkit there is no module cuda either.
void make_current(comm::Device) noexcept {}
#endif

}  // namespace plumbline::subject::nccl
