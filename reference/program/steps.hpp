// reference/program/steps.hpp: what the steps of the pass share. Included by their sources alone.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "reference/program/pass.hpp"

namespace plumbline::program {

/// Whether an optimizer of that type multiplies its gradients by its attribute rescale_grad. The source lists merge_momentum,
/// which there is not, in place of merged_momentum.
[[nodiscard]] bool takes_rescale(std::string_view type, Convention convention);

/// Whether the factor of scale ops can stand elsewhere without a difference to what the program computes.
[[nodiscard]] bool can_fold_scaling(const Program& program);

/// A wait for the calculation that concerns no variable in particular.
[[nodiscard]] inline bool is_plain_wait(const Op& op) {
  return op.type == "c_wait_compute" && first_name(op.inputs).empty() && first_name(op.outputs).empty();
}

[[nodiscard]] inline bool is_sum_over_all(const Op& op) {
  return op.type == "all_reduce" && op.reduction.value_or(comm::ReduceOp::sum) == comm::ReduceOp::sum;
}

/// What that float32 is, as a double.
[[nodiscard]] inline double as_float32(double value) { return static_cast<double>(static_cast<float>(value)); }

}  // namespace plumbline::program
