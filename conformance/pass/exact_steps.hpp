// conformance/pass/exact_steps.hpp: small irregular programs, and what the pass makes of them.
#pragma once

#include <functional>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace plumbline::conformance {

struct ExactStep {
  std::string before, after = {};               // program_text.hpp; no `after`: the pass changes nothing
  std::function<void(nlohmann::json&)> with{};  // what else is asked
  nlohmann::json told{};                        // fields that the answer has, beside others
  bool is_compared = true;                      // in values and races
};
using ExactSteps = std::map<std::string, ExactStep>;

/// Factors that go into the gradient of the loss, or cannot.
[[nodiscard]] const ExactSteps& exact_scalings();
/// The same of optimizers.
[[nodiscard]] const ExactSteps& exact_optimizers();
/// Reductions that names do not order.
[[nodiscard]] const ExactSteps& exact_waits();
/// What is fused, and what its reduction depends on.
[[nodiscard]] const ExactSteps& exact_groups();
/// In the convention paddle: as the source does it.
[[nodiscard]] const ExactSteps& exact_paddle();

struct RefusedStep {
  std::string before, stage;
  std::string exception = "AssertionError";
  std::function<void(nlohmann::json&)> with{};
};
using RefusedSteps = std::map<std::string, RefusedStep>;
/// In the convention paddle: what the source breaks off at.
[[nodiscard]] const RefusedSteps& refused_paddle();

}  // namespace plumbline::conformance
