#include "reference/slowmo/step_plan.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::slowmo {
namespace {

StepPlan plan_as_fairscale(const Setting& setting, StepPlan plan) {
  plan.skip_averaging = setting.memory_efficient && plan.slow;
  plan.slow_average = plan.skip_averaging;
  plan.average = (setting.sgp && plan.slow && setting.sgp_average_params) || (plan.local_sgd && !plan.skip_averaging);
  plan.gossip = setting.sgp && !plan.skip_averaging && !(plan.average && setting.sgp);
  return plan;
}

}  // namespace

StepPlan plan_of(const Setting& setting, std::int64_t step) {
  StepPlan plan{
      .slow = setting.slow && is_due(step, setting.slow_frequency),
      .local_sgd = setting.local_sgd && (step < setting.local_sgd_begin ||
                                         is_due(step - setting.local_sgd_begin, setting.local_sgd_frequency))};
  if (setting.convention == Convention::fairscale) return plan_as_fairscale(setting, plan);
  plan.slow_average = plan.slow && (!setting.sgp || setting.memory_efficient || setting.sgp_average_params);
  plan.skip_averaging = plan.slow_average;
  plan.average = plan.local_sgd && !plan.skip_averaging;
  plan.gossip = setting.sgp && !plan.skip_averaging;
  return plan;
}

Range shard_range(std::int64_t elements, int shards, int index) {
  if (index < 0 || index >= shards) throw OutOfRange(fmt::format("slowmo: shard {} of {}", index, shards));
  const std::int64_t length = (elements + shards - 1) / shards;
  return {index * length, std::min((index + 1) * length, elements)};
}

}  // namespace plumbline::slowmo
