// conformance/training/scheduled_rate.hpp: the learning rates of a run with a schedule, and those that programs have
// used in their place.
#pragma once

#include <string>
#include <vector>

#include "reference/record/run_spec.hpp"

namespace plumbline::conformance {

/// The learning rate of a step, from 0. The specification has a schedule.
[[nodiscard]] double scheduled_rate(const job::RunSpec& spec, int step);

/// What a wrong schedule would use in a step, where that is another rate.
struct OtherRate {
  std::string name;  // "the learning rate of step 1"
  double rate = 0;
};
[[nodiscard]] std::vector<OtherRate> other_rates(const job::RunSpec& spec, int step);

}  // namespace plumbline::conformance
