#include "reference/device/launch.cuh"
#include "reference/slowmo/sums_cuda.hpp"
#include "reference/slowmo/sums_table.hpp"

namespace plumbline::slowmo {

device::CudaKernel sums_kernel() { return device::cuda_kernel<SumWork>(); }

}  // namespace plumbline::slowmo
