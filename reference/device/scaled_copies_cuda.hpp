// reference/device/scaled_copies_cuda.hpp: copies that scale and change types, in memory of a GPU: one launch for all of them.
//
// Model   In stream order: nothing is waited for, and the host may forget the list when the call returns.
// Bits    Those of the host (bucketing::copy_divided(), gossip::scaled_copy()), but for which NaN.
// Needs   A driver for the toolkit that this was built with. The program starts without one.
#pragma once

#include <span>

#include "reference/device/cuda_kernel.hpp"
#include "reference/device/scaled_copies_table.hpp"

namespace plumbline::device {

/// Makes all copies, on a stream (a cudaStream_t; null: the default one) of the device that they are on. A launch for each 1000 of
/// them. The device that was current is current again, if it has a context. Throws what scaled_copy_work() throws; DeviceFailure where CUDA refuses.
void copy_on_device(std::span<const ScaledCopy> copies, Scaling scaling, void* stream = nullptr);

/// ScaledCopyWork for make_cuda().
[[nodiscard]] CudaKernel copies_kernel();

}  // namespace plumbline::device
