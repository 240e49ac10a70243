// reference/comm/device_choice.hpp: which device each rank has, as a user says it.
#pragma once

#include <string>

#include "reference/comm/call.hpp"

namespace plumbline::comm {

/// "cpu"; "cuda" and "emulated", a device for each rank, as far as there are so many; "cuda:1", "emulated:0", that one for all.
struct DeviceChoice {
  Device::Kind kind = Device::Kind::cpu;
  int index = -1;  // -1: a rank's

  /// Throws InvalidArgument for another text.
  [[nodiscard]] static DeviceChoice parse(const std::string& name);
  /// That of a rank, of `count` that there are. Whether a numbered one is among them is not looked at.
  [[nodiscard]] Device of_rank(int rank, int count) const;
};

}  // namespace plumbline::comm
