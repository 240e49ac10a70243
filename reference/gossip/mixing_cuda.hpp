// reference/gossip/mixing_cuda.hpp: push-sum's mixing for tensors in memory of a GPU: one launch for all of them.
//
// Model   As mixing_table.hpp, in stream order: nothing is waited for, and the host may forget the list when the call returns.
// Bits    Those of the host, but for which NaN.
// Needs   A driver for the toolkit that this was built with. The program starts without one.
#pragma once

#include <span>

#include "reference/device/cuda_kernel.hpp"
#include "reference/gossip/mixing_table.hpp"

namespace plumbline::gossip {

/// Mixes all tensors, on a stream (a cudaStream_t; null: the default one) of the device that they are on. A launch for each 666
/// tensors. The device that was current is current again, if it has a context. Throws what mix_work() throws; DeviceFailure where CUDA refuses.
void mix_on_device(std::span<const Arrivals> tensors, Kept kept, void* stream = nullptr);

/// MixWork for device::make_cuda().
[[nodiscard]] device::CudaKernel mixing_kernel();

}  // namespace plumbline::gossip
