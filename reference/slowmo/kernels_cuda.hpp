// reference/slowmo/kernels_cuda.hpp: all that training with SlowMo launches on a GPU, gossip's mixing and copies among it.
#pragma once

#include <vector>

#include "reference/device/cuda_kernel.hpp"

namespace plumbline::slowmo {

/// For device::make_cuda().
[[nodiscard]] std::vector<device::CudaKernel> kernels();

}  // namespace plumbline::slowmo
