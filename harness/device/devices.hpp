// harness/device/devices.hpp: the devices with memory of their own that checks and commands run on.
#pragma once

#include <memory>
#include <string>

#include "reference/comm/call.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::harness {

/// The runtime of a kind of device, opened once a process. Throws NotAvailable where module cuda is not part of the build,
/// RuntimeFailure where there is no driver or no device, InvalidArgument for cpu. Any thread.
[[nodiscard]] std::shared_ptr<device::Runtime> open_runtime(comm::Device::Kind kind);

/// A device as a user names it: "cpu", "cuda", "cuda:1", "emulated".
struct DeviceChoice {
  comm::Device::Kind kind = comm::Device::Kind::cpu;
  int index = -1;  // -1: one for each rank, as far as there are so many

  /// Throws InvalidArgument for another text.
  [[nodiscard]] static DeviceChoice parse(const std::string& name);
  /// That of a rank, of `count`.
  [[nodiscard]] comm::Device of_rank(int rank, int count) const;
};

}  // namespace plumbline::harness
