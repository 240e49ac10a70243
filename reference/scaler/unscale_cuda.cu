#include "reference/device/launch.cuh"
#include "reference/scaler/unscale_cuda.hpp"
#include "reference/scaler/unscale_table.hpp"

namespace plumbline::scaler {

void unscale_on_device(std::span<const Unscaling> gradients, float inverse, float* found_inf, void* stream) {
  if (gradients.empty()) return;
  const comm::Device device = gradients.front().from.device;
  device::launch("unscale", unscale_work(gradients, inverse, found_inf, device), device, stream);
}

device::CudaKernel unscale_kernel() { return device::cuda_kernel<UnscaleWork>(); }

}  // namespace plumbline::scaler
