#include "reference/device/launch.cuh"
#include "reference/device/scaled_copies.hpp"

namespace plumbline::device {

void copy_on_device(std::span<const ScaledCopy> copies, Scaling scaling, void* stream) {
  if (copies.empty()) return;
  const comm::Device device = copies.front().from.device;
  launch("copies", scaled_copy_work(copies, scaling, device), device, stream);
}

CudaKernel copies_kernel() { return cuda_kernel<ScaledCopyWork>(); }

}  // namespace plumbline::device
