#include "reference/slowmo/kernels_cuda.hpp"

#include "reference/device/scaled_copies.hpp"
#include "reference/gossip/mixing_kernel.hpp"

namespace plumbline::slowmo {

std::vector<device::CudaKernel> kernels() {
  std::vector<device::CudaKernel> all{device::copies_kernel(), gossip::mixing_kernel(), sums_kernel()};
  for (const device::CudaKernel& kernel : slow_step_kernels()) all.push_back(kernel);
  return all;
}

}  // namespace plumbline::slowmo
