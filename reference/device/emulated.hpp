// reference/device/emulated.hpp: devices that machines without a GPU have, to show faults of order.
//
// Model   A device's memory is the host's, kept in a table of allocations, so that an address of a device is told from one of the host;
//         fresh memory holds 0xcd in every byte. Each stream is a thread that does its queue in order; nothing orders two streams
//         but events. The default stream is one more of them: unlike CUDA's it waits for no other.
//         Kernels are the bodies that a GPU runs (fold_chunk.hpp, move_chunk.hpp), thread by thread.
// Order   With `longest_delay` each piece of work begins after a random pause, so that what was not ordered happens in any order.
// Errors  A kernel that is given an address of the host, memory of a device that its own is not connected with, or a stream or an
//         event of another device, throws InvalidArgument; synchronize() throws it where memory was given back before work used it.
// Cost    That of the host: figures of an emulated device say nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "reference/device/runtime.hpp"

namespace plumbline::device {

/// What the handle of an emulated stream points to, unless it is null. Others than the runtime may put work into it, as a library
/// with kernels of its own does.
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

}  // namespace plumbline::device
