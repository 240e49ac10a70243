// reference/device/cuda_runtime.hpp: NVIDIA's GPUs behind the interface of runtime.hpp.
//
// Needs   A driver for the toolkit that this was built with, when one is opened. The program starts without one.
#pragma once

#include <memory>

#include "reference/device/runtime.hpp"

namespace plumbline::device {

/// Throws RuntimeFailure, in one line, where there is no driver, a driver older than the toolkit, or no GPU.
[[nodiscard]] std::unique_ptr<Runtime> make_cuda();

}  // namespace plumbline::device
