// conformance/training/clip_rules.hpp: what a clipped gradient would be by norms that programs have used in place of
// that of the whole model.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "conformance/training/single_device.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/training/gradient_settings.hpp"

namespace plumbline::conformance {

struct ClippedByOther {
  std::string rule;  // "clipped by the norm of pipeline rank 0 alone"
  std::vector<double> gradient;
};

/// Of one step. Its norms are computed once, whatever the number of gradients that are asked for.
class ClipRules {
 public:
  /// `whole` are the parameters that each tensor rank has in full; the norm of the step before is 0 where there is
  /// none. All but these two must outlive it.
  ClipRules(const job::RunSpec& spec, const SingleDevice& single, const training::PrecisionSettings& settings,
            std::set<std::string> whole, double norm_of_step_before);

  /// Gradients of a parameter: the right one clipped otherwise, and those that SingleDevice has by other rules, clipped
  /// by their own norms.
  [[nodiscard]] std::vector<ClippedByOther> of(const std::string& parameter) const;

 private:
  using Count = std::function<double(const job::Parameter&)>;
  struct Rule {
    std::string name;
    double coefficient;
  };
  void add_of_ranks();
  // By a norm in which each parameter's gradient counts that number of times.
  void add(const std::string& name, const Count& count) { rules_.push_back({name, by(count)}); }
  [[nodiscard]] double by(const Count& count) const;
  [[nodiscard]] std::vector<double> clipped_before_the_mean(const std::string& parameter) const;

  const job::RunSpec& spec_;
  const SingleDevice& single_;
  const training::PrecisionSettings& settings_;
  std::set<std::string> whole_;
  std::vector<job::Parameter> list_;
  GradientNorm norm_;                  // of the mean
  std::vector<Rule> rules_;            // of every parameter
  std::vector<double> of_data_ranks_;  // the coefficients of each one's own gradient
  std::vector<double> of_other_rules_;
};

}  // namespace plumbline::conformance
