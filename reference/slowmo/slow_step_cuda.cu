#include "reference/device/launch.cuh"
#include "reference/slowmo/slow_step_cuda.hpp"

namespace plumbline::slowmo {

void slow_step_on_device(const SlowRule& rule, std::span<const SlowTensor> tensors, void* stream) {
  if (tensors.empty()) return;
  const comm::Device device = tensors.front().x.device;
  if (rule.convention == gossip::Convention::fairscale)
    device::launch("slow step", slow_step_work<SlowStepAsFairscale>(rule, tensors, device), device, stream);
  else
    device::launch("slow step", slow_step_work<SlowStepAsPaper>(rule, tensors, device), device, stream);
}

}  // namespace plumbline::slowmo
