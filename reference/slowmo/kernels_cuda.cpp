#include "reference/slowmo/kernels_cuda.hpp"

#include "reference/device/scaled_copies_cuda.hpp"
#include "reference/gossip/mixing_cuda.hpp"
#include "reference/slowmo/slow_step_cuda.hpp"
#include "reference/slowmo/sums_cuda.hpp"

namespace plumbline::slowmo {

std::vector<device::CudaKernel> kernels() {
  std::vector<device::CudaKernel> all{device::copies_kernel(), gossip::mixing_kernel(), sums_kernel()};
  for (const device::CudaKernel& kernel : slow_step_kernels()) all.push_back(kernel);
  return all;
}

}  // namespace plumbline::slowmo
