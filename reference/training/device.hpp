// reference/training/device.hpp: from a device's name to LibTorch's device.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace plumbline::training {

/// "cpu", "cuda" (number `rank` modulo the count of GPUs) or "cuda:1". Throws InvalidArgument for another
/// name, Unsupported where there is no such device.
[[nodiscard]] c10::Device device_of(const std::string& name, int rank);

/// Makes GPUs repeat their results: no TF32, no choice of algorithms by timing, deterministic ones only. Sets
/// LibTorch's process-wide switches, so it is called once, before any rank starts; does nothing where there
/// is no GPU.
void make_deterministic();

}  // namespace plumbline::training
