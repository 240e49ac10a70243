#include "reference/device/launch.cuh"
#include "reference/device/scaled_copies.hpp"
#include "reference/gossip/mixing_kernel.hpp"
#include "reference/slowmo/kernels_cuda.hpp"

namespace plumbline::slowmo {

void slow_step_on_device(const SlowRule& rule, std::span<const SlowTensor> tensors, void* stream) {
  if (tensors.empty()) return;
  const comm::Device device = tensors.front().x.device;
  if (rule.convention == gossip::Convention::fairscale)
    device::launch("slow step", slow_step_work<SlowStepAsFairscale>(rule, tensors, device), device, stream);
  else
    device::launch("slow step", slow_step_work<SlowStepAsPaper>(rule, tensors, device), device, stream);
}

std::vector<device::CudaKernel> slow_step_kernels() {
  return {device::cuda_kernel<SlowStepWork<SlowStepAsPaper>>(),
          device::cuda_kernel<SlowStepWork<SlowStepAsFairscale>>()};
}

device::CudaKernel sums_kernel() { return device::cuda_kernel<SumWork>(); }

std::vector<device::CudaKernel> kernels() {
  std::vector<device::CudaKernel> all{device::copies_kernel(), gossip::mixing_kernel(), sums_kernel()};
  for (const device::CudaKernel& kernel : slow_step_kernels()) all.push_back(kernel);
  return all;
}

}  // namespace plumbline::slowmo
