// conformance/training/carried_optimizer.hpp: what an optimizer's rule makes of recorded gradients, in
// float64.
//
// Model   Starts with zero moments; after S steps they are sums of up to S+1 terms, each a power of a decay
//         times one recorded gradient. The values before each step are the recorded ones, so errors do not
//         pile up in them.
// Bound   At step S 16 (S+1) u (|before| + largest term of the update), u = 2^-24: some rounding errors for
//         each of the S+1 terms, each relative to the largest that entered.
// Source  torch.optim.SGD (dampening 0, coupled weight decay) and torch.optim.Adam (no weight decay) at their
//         defaults.
#pragma once

#include <span>
#include <vector>

#include "reference/record/run_spec.hpp"

namespace plumbline::conformance {

struct ExpectedUpdate {
  std::vector<double> after;
  std::vector<double> bound;
};

/// The state of one parameter.
class CarriedOptimizer {
 public:
  CarriedOptimizer(const job::Optimizer& optimizer, std::size_t elements);
  /// The next step, from the recorded value before it and the recorded gradient.
  [[nodiscard]] ExpectedUpdate step(std::span<const float> before, std::span<const float> gradient);
  /// With the mean of the moments of one parameter's on all ranks, as of ranks that average them, too.
  [[nodiscard]] static CarriedOptimizer mean_of(const std::vector<CarriedOptimizer>& ranks);
  /// The rate of the steps from now on.
  void set_learning_rate(double rate) {
    std::visit([&](auto& rule) { rule.lr = rate; }, optimizer_);
  }

 private:
  // An element's moments, and the magnitude of the largest term that is in the first.
  struct Moments {
    double first = 0;
    double second = 0;
    double largest = 0;
  };
  // What is subtracted from the value, and the largest term of it.
  struct Change {
    double value;
    double largest;
  };
  [[nodiscard]] Change change(const job::Sgd& sgd, double before, double gradient, Moments& moments) const;
  [[nodiscard]] Change change(const job::Adam& adam, double before, double gradient, Moments& moments) const;

  job::Optimizer optimizer_;
  std::vector<Moments> moments_;
  int steps_ = 0;
};

}  // namespace plumbline::conformance
