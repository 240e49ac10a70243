// conformance/slowmo/slowmo_training.hpp: small training runs with SlowMo, and what they must come to.
//
// Model   Each rank has a few parameters and gradients that differ by rank and step and depend on the parameters that
//         the forward sees, so that whoever sees others comes to other numbers. The expected run is computed by every
//         rank alone, for all ranks at once, from the papers' formulas, in double precision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/suite/check.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::conformance {

using SlowMoValues = std::vector<double>;

struct SlowMoTraining {
  slowmo::Options options;
  std::vector<std::int64_t> sizes{5, 3, 4};  // of the parameters
  int steps = 7;
  comm::DType dtype = comm::DType::f64;
  std::function<double(int step)> rate = [](int) { return 0.25; };
  int groups = 1;                       // of the optimizer: the second one has the last parameter, and half the rate
  bool starts_apart = false;            // ranks have other parameters before anything is made
  std::optional<int> resumes_before{};  // all is saved and loaded into another SlowMo before that step
  std::function<bool(int step)> evaluates_after = [](int) { return false; };  // a forward in evaluation, and a step()
};

/// Of one rank, after each step.
struct SlowMoStepResult {
  SlowMoValues parameters;  // as they are: numerators
  double weight = 1;
  std::optional<slowmo::SlowState> slow;
  SlowMoValues descent;  // what the optimizer took from the numerators
  [[nodiscard]] SlowMoValues estimate() const;
};
struct SlowMoRankResult {
  std::vector<SlowMoStepResult> steps;
  std::vector<slowmo::Warning> warnings;
};

[[nodiscard]] SlowMoRankResult train_with_slowmo(comm::Communicator& world, const SlowMoTraining& training);

/// The parameters that ranks start with, where they start together; `rank` where they do not.
[[nodiscard]] SlowMoValues initial_values(const SlowMoTraining& training, int rank = 0);
/// A rank's gradients at the parameters that its forward sees.
[[nodiscard]] SlowMoValues gradients_at(const SlowMoValues& seen, int rank, int step);

/// What is averaged when, in words of the papers.
struct ExpectedSlowMoRun {
  int ranks = 1, ranks_per_node = 1;
  int average_every = 0;  // steps; 0: never
  int slow_every = 0;     // and
  double beta = 0, alpha = 1;
  /// Column-stochastic (to, from) between nodes, of a round; empty: no gossip.
  std::function<std::vector<SlowMoValues>(int round)> mixing{};
  bool averages_at_slow_steps = true;
  /// Another outer step: x, the mean that ranks have come to, what is remembered.
  std::function<void(double& x, double mean, double& memory)> outer{};
  /// Other steps that average.
  std::function<bool(int step)> averages{};
};
/// The nodes' numerators and weights after each step.
struct ExpectedSlowMoStep {
  std::vector<SlowMoValues> numerators;
  SlowMoValues weights;
};
[[nodiscard]] std::vector<ExpectedSlowMoStep> expected_run(const SlowMoTraining& training,
                                                           const ExpectedSlowMoRun& run);

/// Runs the training and says where it first differs from the expected run, in numerators or weights; "" where it does
/// not.
[[nodiscard]] std::string problem_of_run(comm::Communicator& world, const SlowMoTraining& training,
                                         const ExpectedSlowMoRun& run);

/// "" when all are within `tolerance` of each other, relative to the larger or 1; else the first that is not.
[[nodiscard]] std::string difference_of(const SlowMoValues& expected, const SlowMoValues& got, double tolerance);

}  // namespace plumbline::conformance
