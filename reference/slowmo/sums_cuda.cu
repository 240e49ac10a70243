#include "reference/device/launch.cuh"
#include "reference/slowmo/kernel_tables.hpp"
#include "reference/slowmo/kernels_cuda.hpp"

namespace plumbline::slowmo {

device::CudaKernel sums_kernel() { return device::cuda_kernel<SumWork>(); }

}  // namespace plumbline::slowmo
