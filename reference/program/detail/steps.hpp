// reference/program/detail/steps.hpp: what the steps of the pass share. Included by their sources alone.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reference/program/pass.hpp"

namespace plumbline::program {

/// Whether an optimizer of that type multiplies its gradients by its attribute rescale_grad. The source lists
/// merge_momentum, which there is not, in place of merged_momentum.
[[nodiscard]] bool takes_rescale(std::string_view type, Convention convention);

/// Whether the factor of scale ops can stand elsewhere without a difference to what the program computes.
[[nodiscard]] bool can_fold_scaling(const Program& program);

/// Which variables are parts of which, as a program makes memory one, op by op.
class Parts {
 public:
  /// Of the fused variable of a coalesce_tensor, whose outputs are no parts of others any more.
  void see(const Op& op);
  /// Of a fused variable; none of another.
  [[nodiscard]] const std::vector<std::string>& of(const std::string& name) const;
  /// The names, each fused variable's by those of its parts.
  [[nodiscard]] std::vector<std::string> names(const Slots& slots) const;

 private:
  std::map<std::string, std::vector<std::string>> parts_;
};

/// Names of memory that has several: fused variables, their parts, and what share_buffer names.
[[nodiscard]] std::set<std::string> names_of_shared_memory(const Program& program);

/// What the default neither fuses nor takes to another stream, since names do not order its readers and writers there:
/// shared memory, that of `groups` apart, and what other communication touches that has left the calculation stream.
[[nodiscard]] std::set<std::string> kept_on_stream(const Program& program,
                                                   const std::vector<GradientGroup>& groups = {});
/// Whether the op reads or writes one of them.
[[nodiscard]] bool names_any(const Op& op, const std::set<std::string>& names);

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
