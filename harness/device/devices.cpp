#include "harness/device/devices.hpp"

#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::harness {

std::shared_ptr<device::Runtime> open_runtime(comm::Device::Kind kind) {
  if (kind == comm::Device::Kind::cpu) throw InvalidArgument("the host's memory has no runtime");
  if (kind == comm::Device::Kind::emulated) return device::make_emulated();
  // Never destroyed: at the end of the process the driver may be gone before us.
  static const auto* const cuda = [] {
    const auto factory =
        reinterpret_cast<device::RuntimeFactory*>(subject::open_module("cuda", device::kRuntimeFactory, "device cuda"));
    return new std::shared_ptr<device::Runtime>(factory());
  }();
  return *cuda;
}

}  // namespace plumbline::harness
