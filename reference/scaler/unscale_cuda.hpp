// reference/scaler/unscale_cuda.hpp: unscale() for gradients in memory of a GPU: one launch for all of them.
//
// Model   As unscale.hpp, in stream order: nothing is waited for, and the host may forget the list when the call
//         returns.
// Bits    Those of unscale(), but for which NaN.
// Needs   A driver for the toolkit that this was built with. The program starts without one.
#pragma once

#include <span>

#include "reference/device/kernel.hpp"
#include "reference/scaler/unscale.hpp"

namespace plumbline::scaler {

/// to = from * inverse, of all of them, on a stream (a cudaStream_t; null: the default one) of the device that they are
/// on, and *found_inf = 1, in its memory, where an element is infinite or NaN; else *found_inf stays. A launch for each
/// 1000 gradients.
/// The device that was current is current again, if it has a context. Throws what unscale_work() throws; DeviceFailure
/// where CUDA reports an error.
void unscale_on_device(std::span<const Unscaling> gradients, float inverse, float* found_inf, void* stream = nullptr);

/// For device::make_cuda().
[[nodiscard]] device::CudaKernel unscale_kernel();

}  // namespace plumbline::scaler
