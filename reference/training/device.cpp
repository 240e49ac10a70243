#include "reference/training/detail/device.hpp"

#include <cstdlib>

#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {
namespace {

int gpus() {
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount();
}

}  // namespace

c10::Device device_of(const std::string& name, int rank) {
  const auto choice = comm::DeviceChoice::parse(name);
  if (choice.kind != comm::Device::Kind::cuda) return {c10::DeviceType::CPU};
  const int count = gpus();
  if (count == 0)
    throw DeviceMissing(fmt::format("device '{}': this LibTorch has no CUDA, or sees no GPU; use cpu", name));
  if (choice.index >= count) throw DeviceMissing(fmt::format("device '{}': this machine has {} GPUs", name, count));
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(choice.of_rank(rank, count).index)};
}

void make_deterministic() {
  // MKL's vector functions set themselves up at the first call. Threads that make it at once may get square roots with
  // four right digits; after one call on one thread they are exact on all.
  (void)at::ones({16}).sqrt();
  if (gpus() == 0) return;
  // cuBLAS repeats its results only with a workspace of this form, and reads it when it starts.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicCuDNN(true);
  context.setDeterministicAlgorithms(true, false);
}

}  // namespace plumbline::training
