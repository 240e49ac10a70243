// reference/device/calls.hpp: calls of backend local on the memory of any runtime's devices.
//
// Model   A collective is one launch on each device that members use: of reductions all_reduce and reduce each device does its share
//         of the elements, of the rest what its members get. A kernel reads and writes the members' memory wherever it is; no
//         member's data is copied first. Events are kept and used again.
// Source  Fused reduce-scatter and all-gather over published pointers, as within one process NCCL and MPI do.
#pragma once

#include <memory>

#include "reference/comm/device_calls.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::device {

[[nodiscard]] std::shared_ptr<comm::DeviceCalls> make_calls(std::shared_ptr<Runtime> runtime);

}  // namespace plumbline::device
