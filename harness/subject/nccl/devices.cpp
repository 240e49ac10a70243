#include "harness/subject/nccl/devices.hpp"

#include "harness/subject/modules.hpp"
#include "reference/device/emulated.hpp"

namespace plumbline::subject::nccl {

std::shared_ptr<device::Runtime> open_runtime(comm::Device::Kind kind, int ranks) {
  if (kind == comm::Device::Kind::emulated) return device::make_emulated({.devices = ranks});
  const auto factory =
      reinterpret_cast<device::RuntimeFactory*>(open_module("cuda", device::kRuntimeFactory, "CUDA"));
  return std::shared_ptr<device::Runtime>(factory());
}

}  // namespace plumbline::subject::nccl
