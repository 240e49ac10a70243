// conformance/training/causes.hpp: what may have made a gradient wrong, by its relation to those of a single device.
//
// Model   A fault leaves a signature: gradients that were summed and not averaged are the expected ones times the
//         number of ranks; one rank's missing from a sum leaves the mean without its slice. Each hypothesis predicts a
//         gradient; those that predict what was recorded within kResidual are named, with their supporting figures.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reference/record/run_spec.hpp"

namespace plumbline::conformance {

/// A gradient that is wrong, and what a single device has in its place. What is empty is not considered.
struct WrongGradient {
  std::span<const float> got;
  std::span<const double> expected;
  std::vector<std::span<const double>> slices;       // by data rank: the gradient of its rows alone
  std::span<const double> of_step_before;            // what was expected there
  std::vector<std::pair<std::string, int>> factors;  // {"data ranks", 2}: what may have multiplied or divided it
  /// What it would be by other rules, such as "without the weights of rows".
  std::vector<std::pair<std::string, std::span<const double>>> by_other_rules{};
  std::string name = "gradient";  // in words
};

/// What may have multiplied or divided a value in a step of the run, each by its name.
[[nodiscard]] std::vector<std::pair<std::string, int>> factors_of_step(const job::RunSpec& spec);

/// Of a prediction: |got - predicted| / |got|, in the 2-norm.
inline constexpr double kResidual = 1e-3;

/// "the expected gradient times 2 (data ranks): got / expected = 2.0000, residual 3e-08"; nothing where none fits, or
/// the gradient is not finite or zero.
[[nodiscard]] std::vector<std::string> hypotheses_of(const WrongGradient& gradient);

}  // namespace plumbline::conformance
