// reference/training/detail/device.hpp: from a device's name to LibTorch's device.
#pragma once

#include <string>

#include <c10/core/Device.h>

namespace plumbline::training {

/// "cpu", "cuda" (number `rank` modulo the count of GPUs) or "cuda:1"; on emulated devices the host computes. Throws
/// InvalidArgument for another name, DeviceMissing where there is no such GPU.
[[nodiscard]] c10::Device device_of(const std::string& name, int rank);

/// Makes devices repeat their results. Lets LibTorch's libraries set themselves up on this thread, before several
/// threads could make them do so at once. GPUs: no TF32, no choice of algorithms by timing, deterministic ones
/// only. Sets process-wide switches, so it is called once, before any rank starts.
void make_deterministic();

}  // namespace plumbline::training
