// reference/slowmo/kernels_cuda.hpp: the kernels of SlowMo, built for a GPU.
#pragma once

#include <span>
#include <vector>

#include "reference/device/kernel.hpp"
#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::slowmo {

// ---- All that training with SlowMo launches on a GPU, gossip's mixing and copies among it.

/// For device::make_cuda().
[[nodiscard]] std::vector<device::CudaKernel> kernels();

// ---- Slow_step() for tensors in memory of a GPU: one launch for all of them.
//
// Model   As slow_step.hpp, in stream order: nothing is waited for, and the host may forget the list when the call
//         returns.
// Bits    Those of slow_step(): no two operations are fused.
// Needs   A driver for the toolkit that this was built with. The program starts without one.

/// Applies the rule to all tensors, on a stream (a cudaStream_t; null: the default one) of the device that they are on.
/// A launch for each 800 tensors. The device that was current is current again, if it has a context. Throws what
/// slow_step_tables() throws; DeviceFailure where CUDA reports an error.
void slow_step_on_device(const SlowRule& rule, std::span<const SlowTensor> tensors, void* stream = nullptr);

/// SlowStepWork, of both conventions, for device::make_cuda().
[[nodiscard]] std::vector<device::CudaKernel> slow_step_kernels();

// ---- SumWork for tensors in memory of a GPU.

/// For device::make_cuda().
[[nodiscard]] device::CudaKernel sums_kernel();

}  // namespace plumbline::slowmo
