#include "reference/training/detail/rank_device.hpp"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/strides.h>
#include <fmt/format.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/comm/call.hpp"
#include "reference/training/detail/added_type.hpp"
#include "reference/training/detail/device.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {
namespace {

// LibTorch and the runtime count in the same way.
int index_of(const std::string& name, int rank, int count) {
  const int index = comm::DeviceChoice::parse(name).of_rank(rank, count).index;
  if (index >= count) throw DeviceMissing(fmt::format("device '{}': this process has {} of them", name, count));
  return index;
}

}  // namespace

RankDevice::RankDevice(const std::string& name, const comm::Communicator& world,
                       const std::shared_ptr<device::Runtime>& devices)
    : computes_on_(device_of(name, world.rank())) {
  const comm::Device::Kind kind = comm::DeviceChoice::parse(name).kind;
  if (devices != nullptr && devices->kind() == kind)
    computing_place_ = device::MemorySpace({devices}, index_of(name, world.rank(), devices->count()));
  const bool is_served = !computing_place_.is_host() && std::ranges::count(world.capabilities().devices, kind) > 0;
  if (is_served)
    place_ = computing_place_;
  else if (kind == comm::Device::Kind::emulated)
    throw Unsupported(fmt::format(
        "device '{}': this world of backend {} serves memory of cpu alone; it must serve that of emulated devices",
        name, world.capabilities().backend));
}

RankDevice RankDevice::through_host() const {
  RankDevice same = *this;
  same.place_ = {};
  return same;
}

c10::Device RankDevice::memory() const {
  return device().kind == comm::Device::Kind::cuda ? computes_on_ : c10::Device(c10::DeviceType::CPU);
}

void RankDevice::settle() const {
  if (memory().is_cpu()) place_.synchronize();
}

at::Tensor RankDevice::empty(at::IntArrayRef sizes, at::ScalarType type) const {
  if (device().kind != comm::Device::Kind::emulated) return at::empty(sizes, options(type));
  return strided(sizes, c10::contiguous_strides(sizes), type);
}

at::Tensor RankDevice::placed(const at::Tensor& tensor) const {
  if (device().kind != comm::Device::Kind::emulated) return tensor.to(computes_on_);
  return strided(tensor.sizes(), tensor.strides(), tensor.scalar_type()).copy_(tensor);
}

at::Tensor RankDevice::strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) const {
  const auto room = std::make_shared<device::ScratchBuffer>();
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
  return at::from_blob(room->take(place_, bytes), sizes, strides, [room](void*) {}, options(type));
}

comm::Buffer RankDevice::buffer_of(const at::Tensor& tensor) const {
  comm::Buffer buffer = training::buffer_of(tensor);
  buffer.device = device();
  return buffer;
}

std::shared_ptr<bucketing::BucketMemory> RankDevice::bucket_memory() const { return bucketing::memory_of(place_); }

}  // namespace plumbline::training
