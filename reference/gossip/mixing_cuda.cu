#include "reference/device/launch.cuh"
#include "reference/gossip/mixing_kernel.hpp"

namespace plumbline::gossip {

void mix_on_device(std::span<const Arrivals> tensors, Kept kept, void* stream) {
  if (tensors.empty()) return;
  const comm::Device device = tensors.front().x.device;
  device::launch("mixing", mix_work(tensors, kept, device), device, stream);
}

device::CudaKernel mixing_kernel() { return device::cuda_kernel<MixWork>(); }

}  // namespace plumbline::gossip
