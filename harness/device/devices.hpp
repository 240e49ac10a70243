// harness/device/devices.hpp: the devices with memory of their own that checks and commands run on.
#pragma once

#include <memory>

#include "reference/comm/call.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::harness {

/// The runtime of a kind of device: CUDA's, which is opened once a process, or that of emulated devices, which are
/// fresh each time.
/// Throws NotAvailable where module cuda is not part of the build, RuntimeFailure where there is no driver or no
/// device, InvalidArgument for cpu. Any thread.
[[nodiscard]] std::shared_ptr<device::Runtime> open_runtime(comm::Device::Kind kind);

}  // namespace plumbline::harness
