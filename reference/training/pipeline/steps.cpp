#include "reference/training/steps.hpp"

namespace plumbline::training {

double micro_batches_of_all_calls(const CallSize& size) { return static_cast<double>(size.micro_batches) * size.calls; }

void reduce_then_update(const std::function<void()>& reduce_shared, const std::function<void()>& update) {
  reduce_shared();
  update();
}

}  // namespace plumbline::training
