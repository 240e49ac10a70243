// harness/subject/nccl/devices.hpp: where the backend's device comes from.
#pragma once

#include <memory>

#include "reference/device/runtime.hpp"

namespace plumbline::subject::nccl {

/// The devices of that kind; of emulated ones as many as there are ranks. Throws RuntimeFailure in one line: no such
/// module, no driver, a driver that is too old, no GPU.
[[nodiscard]] std::shared_ptr<device::Runtime> open_runtime(comm::Device::Kind kind, int ranks);

/// From now on NCCL's calls on this thread are on that device. An error shows in the call that follows.
void make_current(comm::Device device) noexcept;

}  // namespace plumbline::subject::nccl
