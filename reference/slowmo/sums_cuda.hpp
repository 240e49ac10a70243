// reference/slowmo/sums_cuda.hpp: SumWork for tensors in memory of a GPU.
#pragma once

#include "reference/device/cuda_kernel.hpp"

namespace plumbline::slowmo {

/// For device::make_cuda().
[[nodiscard]] device::CudaKernel sums_kernel();

}  // namespace plumbline::slowmo
