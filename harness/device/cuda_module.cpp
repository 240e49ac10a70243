// The module cuda: what device::kRuntimeFactory names.
#include "reference/device/cuda_runtime.hpp"
#include "reference/device/scaled_copies_cuda.hpp"
#include "reference/gossip/mixing_cuda.hpp"
#include "reference/slowmo/slow_step_cuda.hpp"
#include "reference/slowmo/sums_cuda.hpp"

namespace {

using namespace plumbline;

std::vector<device::CudaKernel> kernels() {
  std::vector<device::CudaKernel> all{device::copies_kernel(), gossip::mixing_kernel(), slowmo::sums_kernel()};
  for (const device::CudaKernel& kernel : slowmo::slow_step_kernels()) all.push_back(kernel);
  return all;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) plumbline::device::Runtime* plumbline_open_device() {
  return plumbline::device::make_cuda(kernels()).release();
}
