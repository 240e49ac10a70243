// reference/device/detail/cuda_kernels.hpp: the launches of the kernels, on the device that is current.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "reference/device/detail/move.hpp"
#include "reference/device/fold.hpp"

namespace plumbline::device {

/// Each returns what the launch met. Of a reduction that is not defined, cudaErrorInvalidValue.
[[nodiscard]] cudaError_t launch_fold(const FoldTable& table, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_move(const MoveTable& table, cudaStream_t stream);
/// One thread that waits until that many nanoseconds have gone.
[[nodiscard]] cudaError_t launch_pause(std::int64_t nanoseconds, cudaStream_t stream);

}  // namespace plumbline::device
