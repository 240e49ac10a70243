// reference/device/runtimes.hpp: the runtimes: devices that machines without a GPU have, NVIDIA's GPUs, and calls of
// backend local on either.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "reference/comm/local.hpp"
#include "reference/device/kernel.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::device {

// ---- Devices that machines without a GPU have, to show faults of order.
//
// Model   A device's memory is the host's, kept in a table of allocations, so that an address of a device is
//         distinguished from one of the host; fresh memory holds 0xcd in every byte. Each stream is a thread that does
//         its queue in order; nothing orders two streams but events. The default stream is one more of them: unlike
//         CUDA's it waits for no other.
//         Kernels are the bodies that a GPU runs (fold_chunk.hpp, move_chunk.hpp), thread by thread.
// Order   With `longest_delay` each piece of work begins after a random pause, so that what was not ordered happens in
//         any order.
// Errors  A kernel that is given an address of the host, memory of a device that its own is not connected with, or a
//         stream or an event of another device, throws InvalidArgument; synchronize() throws it where memory was given
//         back before work used it.
// Cost    That of the host: figures of an emulated device say nothing.

/// What the handle of an emulated stream points to, unless it is null. Others than the runtime may put work into it, as
/// a library with kernels of its own does.
class EmulatedQueue {
 public:
  virtual void put(std::function<void()> work) = 0;

 protected:
  ~EmulatedQueue() = default;
};

struct EmulatedOptions {
  int devices = 2;
  std::size_t memory_bytes = std::size_t{1} << 30;  // of each device
  std::chrono::microseconds longest_delay{0};
  std::uint64_t seed = 1;  // of the delays
};

/// Throws InvalidArgument unless there is a device. It goes when the last owner goes, once all streams are done.
[[nodiscard]] std::shared_ptr<Runtime> make_emulated(const EmulatedOptions& options = {});

// ---- NVIDIA's GPUs under the interface of runtime.hpp.
//
// Needs   A driver for the toolkit that this was built with, when one is opened. The program starts without one.

/// `kernels`: of components, which launch() finds by their names. Throws RuntimeFailure, in one line, where there is no
/// driver, a driver older than the toolkit, or no GPU.
[[nodiscard]] std::unique_ptr<Runtime> make_cuda(std::vector<CudaKernel> kernels = {});

// ---- Calls of backend local on the memory of any runtime's devices.
//
// Model   A collective is one launch on each device that members use: of reductions all_reduce and reduce each device
//         does its share of the elements, of the rest what its members get. A kernel reads and writes the members'
//         memory wherever it is; no member's data is copied first. Events are kept and used again.
// Source  Fused reduce-scatter and all-gather over published pointers, as within one process NCCL and MPI do.

[[nodiscard]] std::shared_ptr<comm::DeviceCalls> make_calls(std::shared_ptr<Runtime> runtime);

}  // namespace plumbline::device
