#include "reference/slowmo/slow_step.hpp"

#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::slowmo {
namespace {

template <class T, class Step>
void for_each(const Step& step, std::int64_t count, T* x, T* old, T* momentum) {
  for (std::int64_t i = 0; i < count; ++i) step(x[i], old[i], momentum[i]);
}

}  // namespace

void slow_step(const SlowRule& rule, comm::Buffer x, comm::Buffer old, comm::Buffer momentum) {
  with_type(x.dtype, [&]<class T>(T) {
    if constexpr (std::is_arithmetic_v<T>) {
      const auto all = [&](const auto& step) {
        for_each(step, x.count, static_cast<T*>(x.data), static_cast<T*>(old.data), static_cast<T*>(momentum.data));
      };
      if (rule.convention == gossip::Convention::fairscale)
        all(SlowStepAsFairscale<T>(rule));
      else
        all(SlowStepAsPaper<T>(rule));
    }
  });
}

void slow_steps(const device::MemorySpace& place, const SlowRule& rule, std::span<const SlowTensor> tensors) {
  if (place.is_host())
    for (const auto& [x, old, momentum] : tensors) slow_step(rule, x, old, momentum);
  else if (rule.convention == gossip::Convention::fairscale)
    place.launch(slow_step_work<SlowStepAsFairscale>(rule, tensors, place.device()));
  else
    place.launch(slow_step_work<SlowStepAsPaper>(rule, tensors, place.device()));
}

}  // namespace plumbline::slowmo
