#include "harness/device/devices.hpp"

#include <fmt/format.h>

#include "harness/subject/modules.hpp"
#include "reference/device/emulated.hpp"

namespace plumbline::harness {

std::shared_ptr<device::Runtime> open_runtime(comm::Device::Kind kind) {
  if (kind == comm::Device::Kind::cpu) throw InvalidArgument("the host's memory has no runtime");
  if (kind == comm::Device::Kind::emulated) {
    static const std::shared_ptr<device::Runtime> emulated = device::make_emulated();
    return emulated;
  }
  // Never destroyed: at the end of the process the driver may be gone before us.
  static const auto* const cuda = [] {
    const auto factory =
        reinterpret_cast<device::RuntimeFactory*>(subject::open_module("cuda", device::kRuntimeFactory, "device cuda"));
    return new std::shared_ptr<device::Runtime>(factory());
  }();
  return *cuda;
}

DeviceChoice DeviceChoice::parse(const std::string& name) {
  const auto device = comm::parse_device(name);
  const bool any = name.find(':') == std::string::npos;
  const bool is_named = device && (any || device->kind != comm::Device::Kind::cpu);
  if (!is_named)
    throw InvalidArgument(fmt::format("device '{}' is not cpu, cuda, cuda:N, emulated or emulated:N", name));
  return {.kind = device->kind, .index = any ? -1 : device->index};
}

comm::Device DeviceChoice::of_rank(int rank, int count) const {
  if (kind == comm::Device::Kind::cpu) return {};
  return {.kind = kind, .index = static_cast<std::int16_t>(index < 0 ? rank % count : index)};
}

}  // namespace plumbline::harness
