#include "reference/device/memory_space.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::device {

void MemorySpace::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes == 0 || to == from) return;
  if (is_host())
    std::memcpy(to, from, bytes);
  else
    use_.runtime->copy(index_, to, from, bytes, use_.stream);
}

void MemorySpace::copy(std::span<const ScaledCopy> pairs) const {
  if (!is_host()) return launch(scaled_copy_work(pairs, times(1), device()));
  for (const auto& [from, to] : pairs) {
    if (from.count != to.count || from.dtype != to.dtype)
      throw InvalidArgument(fmt::format("a copy of {} {} to {} {}", from.count, comm::name_of(from.dtype), to.count,
                                        comm::name_of(to.dtype)));
    if (from.data == to.data) continue;
    // Flags come by the hundred: of one number a call that copies any length takes ten times as long as the copy.
    if (from.count == 1 && from.dtype == comm::DType::f32)
      std::memcpy(to.data, from.data, sizeof(float));
    else
      copy(to.data, from.data, from.bytes());
  }
}

void MemorySpace::fill(void* to, std::byte value, std::size_t bytes) const {
  if (bytes == 0) return;
  if (is_host())
    std::memset(to, std::to_integer<int>(value), bytes);
  else
    use_.runtime->fill(index_, to, value, bytes, use_.stream);
}

void MemorySpace::synchronize() const {
  if (!is_host()) use_.runtime->synchronize(index_, use_.stream);
}

void require_at(std::string_view what, std::span<const comm::Buffer> tensors, const MemorySpace& place) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].device != place.device())
      throw InvalidArgument(fmt::format("{}: tensor {} is in memory of {}; all must be in that of {}", what, i,
                                        comm::name_of(tensors[i].device), comm::name_of(place.device())));
}

MemorySpace place_of(std::string_view what, std::span<const comm::Buffer> tensors, const DeviceUse& use) {
  if (tensors.empty()) return {};
  const comm::Device device = tensors.front().device;
  MemorySpace place;
  if (device.kind != comm::Device::Kind::cpu) {
    if (use.runtime == nullptr || use.runtime->kind() != device.kind)
      throw Unsupported(fmt::format("{}: a tensor in memory of {}, and no runtime of such devices was given", what,
                                    comm::name_of(device)));
    if (device.index < 0 || device.index >= use.runtime->count())
      throw InvalidArgument(fmt::format("{}: a tensor in memory of {}; this process has {}, from {}:0", what,
                                        comm::name_of(device), use.runtime->count(), comm::name_of(device.kind)));
    place = MemorySpace(use, device.index);
  }
  require_at(what, tensors, place);
  return place;
}

void require_served(std::string_view what, const comm::Communicator& group, const MemorySpace& place) {
  const comm::Capabilities& can = group.capabilities();
  if (std::ranges::count(can.devices, place.device().kind) != 0) return;
  std::vector<std::string_view> kinds;
  for (const comm::Device::Kind kind : can.devices) kinds.push_back(comm::name_of(kind));
  throw Unsupported(fmt::format(
      "{}: tensors in memory of {} over backend {}, which takes that of {}; communicate them by way of the host", what,
      comm::name_of(place.device()), can.backend, fmt::join(kinds, ", ")));
}

std::vector<std::byte> bytes_of(const MemorySpace& place, comm::ConstBuffer tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  place.copy(bytes.data(), tensor.data, bytes.size());
  place.synchronize();
  return bytes;
}

void set_bytes(const MemorySpace& place, comm::Buffer tensor, std::span<const std::byte> bytes) {
  if (bytes.size() != tensor.bytes())
    throw InvalidArgument(fmt::format("{} bytes for a tensor of {}", bytes.size(), tensor.bytes()));
  place.copy(tensor.data, bytes.data(), bytes.size());
  place.synchronize();
}

std::byte* ScratchBuffer::take(const MemorySpace& place, std::size_t bytes) {
  if (place.is_host()) {
    if (on_host_.size() < bytes) on_host_.resize(bytes);
    return on_host_.data();
  }
  if (on_device_.bytes() < bytes || place_.device() != place.device()) {
    give_back();
    on_device_ = Memory(place.use().runtime, place.index(), bytes);
  }
  place_ = place;
  return on_device_.data();
}

ScratchBuffer& ScratchBuffer::operator=(ScratchBuffer&& other) noexcept {
  std::swap(on_host_, other.on_host_);
  std::swap(place_, other.place_);
  std::swap(on_device_, other.on_device_);
  return *this;
}

ScratchBuffer::~ScratchBuffer() { give_back(); }

void ScratchBuffer::give_back() noexcept {
  if (on_device_.data() == nullptr) return;
  try {
    place_.synchronize();
  } catch (const std::exception&) {
    // The device does nothing any more, or met an error before: nobody writes there.
  }
  on_device_ = Memory();
}

}  // namespace plumbline::device
