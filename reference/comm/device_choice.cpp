#include <fmt/format.h>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::comm {

DeviceChoice DeviceChoice::parse(const std::string& name) {
  const auto device = parse_device(name);
  const bool any = name.find(':') == std::string::npos;
  const bool is_named = device && (any || device->kind != Device::Kind::cpu);
  if (!is_named)
    throw InvalidArgument(fmt::format("device '{}' is not cpu, cuda, cuda:N, emulated or emulated:N", name));
  return {.kind = device->kind, .index = any ? -1 : device->index};
}

Device DeviceChoice::of_rank(int rank, int count) const {
  if (kind == Device::Kind::cpu) return {};
  return {.kind = kind, .index = static_cast<std::int16_t>(index < 0 ? rank % count : index)};
}

}  // namespace plumbline::comm
