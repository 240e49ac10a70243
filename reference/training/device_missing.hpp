// reference/training/device_missing.hpp: the machine lacks what a run computes on. Free of LibTorch.
#pragma once

#include "reference/comm/errors.hpp"

namespace plumbline::training {

/// The device that was asked for is not in this machine.
class DeviceMissing : public Unsupported {
 public:
  using Unsupported::Unsupported;
};

}  // namespace plumbline::training
