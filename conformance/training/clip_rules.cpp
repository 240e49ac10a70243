#include "conformance/training/clip_rules.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "reference/record/layout.hpp"

namespace plumbline::conformance {
namespace {

using job::Parameter;

class ClipRules {
 public:
  ClipRules(const job::RunSpec& spec, const SingleDevice& single, const training::PrecisionSettings& settings,
            const std::string& parameter)
      : spec_(spec), single_(single), settings_(settings), own_(parameter), list_(job::parameters_of(spec)) {}

  void add(const std::string& rule, double coefficient) {
    std::vector<double> gradient = single_.mean64(own_);
    for (double& value : gradient) value *= coefficient;
    found_.push_back({rule, std::move(gradient)});
  }
  // By a norm in which each parameter's gradient counts so often.
  void add(const std::string& rule, const std::function<double(const Parameter&)>& count) {
    add(rule, coefficient(norm_of(count, [&](const Parameter& one) { return single_.mean64(one.name); })));
  }
  void add_clipped_before_the_mean() {
    std::vector<double> mean(single_.mean64(own_).size());
    for (int data = 0; data < spec_.parallel.data; ++data) {
      const double norm = norm_of([](const Parameter&) { return 1.0; },
                                  [&](const Parameter& one) { return single_.slice64(data, one.name); });
      const std::vector<double>& slice = single_.slice64(data, own_);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += coefficient(norm) * slice[i] / spec_.parallel.data;
    }
    found_.push_back({"each data rank's gradient clipped before the mean over them", std::move(mean)});
  }
  [[nodiscard]] const std::vector<int> holders_of(const Parameter& parameter) const {
    return job::holders_of(spec_, parameter);
  }
  [[nodiscard]] double coefficient(double norm) const { return std::min(1.0, settings_.clip_norm / (norm + 1e-6)); }
  [[nodiscard]] const Parameter& own() const { return *std::ranges::find(list_, own_, &Parameter::name); }
  [[nodiscard]] std::vector<ClippedByOther> found() && { return std::move(found_); }

 private:
  [[nodiscard]] double norm_of(const std::function<double(const Parameter&)>& count,
                               const std::function<std::vector<double>(const Parameter&)>& gradient_of) const {
    const double p = settings_.norm_type;
    double sum = 0;
    for (const Parameter& one : list_) {
      const double times = count(one);
      if (times == 0) continue;
      for (const double value : gradient_of(one))
        sum = std::isinf(p) ? std::max(sum, std::fabs(value)) : sum + times * std::pow(std::fabs(value), p);
    }
    return std::isinf(p) ? sum : std::pow(sum, 1 / p);
  }

  const job::RunSpec& spec_;
  const SingleDevice& single_;
  const training::PrecisionSettings& settings_;
  const std::string& own_;
  std::vector<Parameter> list_;
  std::vector<ClippedByOther> found_;
};

}  // namespace

std::vector<ClippedByOther> clipped_by_other_rules(const job::RunSpec& spec, const SingleDevice& single,
                                                   const training::PrecisionSettings& settings,
                                                   const std::string& parameter, const std::set<std::string>& whole,
                                                   double norm_of_step_before) {
  ClipRules rules(spec, single, settings, parameter);
  const job::Parallel& sizes = spec.parallel;
  rules.add("the gradient before clipping", 1);
  rules.add("clipped by the norm of this parameter alone",
            [&](const Parameter& one) { return one.name == parameter ? 1.0 : 0.0; });
  if (norm_of_step_before > 0)
    rules.add("clipped by the norm of the step before", rules.coefficient(norm_of_step_before));
  if (sizes.data > 1) {
    rules.add_clipped_before_the_mean();
    rules.add("clipped by a norm in which each data rank's copy counts",
              [&](const Parameter&) { return static_cast<double>(sizes.data); });
  }
  if (sizes.pipeline > 1) {
    for (const int rank : rules.holders_of(rules.own()))
      rules.add(fmt::format("clipped by the norm of pipeline rank {} alone", rank), [&, rank](const Parameter& one) {
        return std::ranges::count(rules.holders_of(one), rank) > 0 ? 1.0 : 0.0;
      });
    rules.add("clipped by a norm in which each copy of a tied weight counts",
              [&](const Parameter& one) { return static_cast<double>(rules.holders_of(one).size()); });
  }
  if (sizes.tensor > 1) {
    rules.add("clipped by a norm in which what tensor ranks hold whole counts for each of them",
              [&](const Parameter& one) { return whole.contains(one.name) ? static_cast<double>(sizes.tensor) : 1.0; });
    rules.add("clipped by a norm without what tensor ranks hold parts of",
              [&](const Parameter& one) { return whole.contains(one.name) ? 1.0 : 0.0; });
  }
  return std::move(rules).found();
}

}  // namespace plumbline::conformance
