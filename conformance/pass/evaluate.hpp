// conformance/pass/evaluate.hpp: what a program computes on several ranks, with numbers in place of tensors.
//
// Model   Each variable is one number a rank. A communication op does what it says; an optimizer takes its gradient,
//         times its rescale_grad, off its parameter; a derivative is linear in the gradients that it reads; every other
//         op adds its inputs up with weights of its own. So two programs that treat a gradient differently end with
//         different parameters, unless a cancellation of drawn numbers hides it. Ops run in their order; streams and
//         waits mean nothing here.
// Memory  coalesce_tensor makes its outputs one: what lay in them is lost, which is a NaN, and an op on the fused
//         variable is one on each of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace plumbline::conformance {

/// The values of the variables that persist, by name, of each rank, after one run.
using Persistent = std::map<std::string, std::vector<double>>;
[[nodiscard]] Persistent evaluate(const nlohmann::json& program, const nlohmann::json& rings);

/// "" where both are equal but for the rounding of factors, else the variable, rank and values.
[[nodiscard]] std::string difference(const Persistent& before, const Persistent& after);

}  // namespace plumbline::conformance
