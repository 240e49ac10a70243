// reference/training/detail/rank_device.hpp: where a rank computes, and where that lies which its groups' calls are
// made on.
//
// Model   A plain value. What calls are made on lies on the device on which LibTorch computes, where the groups serve
//         its memory: nothing is copied to the host then. Where they do not, calls are made on the host's memory, and
//         what lies on a GPU is copied there and back.
// Order   On a GPU, LibTorch and the calls both use the device's default stream: each meets what the other has done,
//         and nobody waits. Of an emulated device's streams LibTorch knows nothing: it computes at once, on the host,
//         in memory that is the device's. So it waits, in settle(), before it touches what calls were made on; what it
//         has written is there when a call begins.
#pragma once

#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/TensorOptions.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/device/memory_space.hpp"

namespace plumbline::training {

class RankDevice {
 public:
  /// The host.
  RankDevice() = default;
  /// The device of that name, of a rank of the world; `devices` are those whose memory its groups may serve, or null.
  /// Throws what device_of() throws, DeviceMissing for an emulated device that there is not, and Unsupported where the
  /// world does not serve its memory.
  RankDevice(const std::string& name, const comm::Communicator& world, const std::shared_ptr<device::Runtime>& devices);

  /// Where LibTorch computes.
  [[nodiscard]] c10::Device computes_on() const { return computes_on_; }
  /// The same, with calls on the host's memory.
  [[nodiscard]] RankDevice through_host() const;
  /// For kernels of ours on LibTorch's own tensors: the device, also where calls go through the host; else the host.
  [[nodiscard]] const device::MemorySpace& computing_place() const { return computing_place_; }
  /// Whether calls are made on memory that LibTorch computes in, without a copy.
  [[nodiscard]] bool is_shared() const { return memory() == computes_on_; }

  // Where calls are made: of the groups, and of LibTorch.
  [[nodiscard]] comm::Device device() const { return place_.device(); }
  [[nodiscard]] c10::Device memory() const;
  /// Waits, where LibTorch would not, for all that was begun there: LibTorch reads it now, or writes to it.
  void settle() const;

  /// Memory there, and one tensor of it.
  [[nodiscard]] at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type) const;
  /// The tensor where LibTorch computes, in its own order in memory, which has no gaps. Of emulated devices it is a
  /// copy in the device's memory; else the tensor itself, if it is there.
  [[nodiscard]] at::Tensor placed(const at::Tensor& tensor) const;
  [[nodiscard]] at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions(type).device(memory());
  }
  /// The elements of such a tensor, of a type that is added, which lie without gaps.
  [[nodiscard]] comm::Buffer buffer_of(const at::Tensor& tensor) const;
  [[nodiscard]] std::shared_ptr<bucketing::BucketMemory> bucket_memory() const;

 private:
  [[nodiscard]] at::Tensor strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) const;

  c10::Device computes_on_{c10::DeviceType::CPU};
  device::MemorySpace computing_place_, place_;
};

}  // namespace plumbline::training
