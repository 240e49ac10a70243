// reference/device/cuda_runtime.hpp: NVIDIA's GPUs behind the interface of runtime.hpp.
//
// Needs   A driver for the toolkit that this was built with, when one is opened. The program starts without one.
#pragma once

#include <memory>
#include <vector>

#include "reference/device/cuda_kernel.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::device {

/// `kernels`: of components, which launch() finds by their names. Throws RuntimeFailure, in one line, where there is no driver, a
/// driver older than the toolkit, or no GPU.
[[nodiscard]] std::unique_ptr<Runtime> make_cuda(std::vector<CudaKernel> kernels = {});

}  // namespace plumbline::device
