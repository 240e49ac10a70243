#include "conformance/training/clip_rules.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace plumbline::conformance {
namespace {

using job::Parameter;

std::vector<double> times(std::vector<double> gradient, double coefficient) {
  for (double& value : gradient) value *= coefficient;
  return gradient;
}

}  // namespace

ClipRules::ClipRules(const job::RunSpec& spec, const SingleDevice& single, const training::PrecisionSettings& settings,
                     std::set<std::string> whole, double norm_of_step_before)
    : spec_(spec),
      single_(single),
      settings_(settings),
      whole_(std::move(whole)),
      list_(job::parameters_of(spec)),
      norm_(single.means64(), settings.norm_type) {
  rules_.push_back({"the gradient before clipping", 1});
  if (norm_of_step_before > 0)
    rules_.push_back(
        {"clipped by the norm of the step before", clip_coefficient(settings.clip_norm, norm_of_step_before)});
  const auto own = [&](const training::Gradients& gradients) {
    return clip_coefficient(settings.clip_norm, GradientNorm(gradients, settings.norm_type).whole());
  };
  for (int data = 0; spec.parallel.data > 1 && data < spec.parallel.data; ++data)
    of_data_ranks_.push_back(own(single.slices64(data)));
  for (const SingleDevice::OtherRule& rule : single.by_other_rules()) of_other_rules_.push_back(own(rule.gradients));
  add_of_ranks();
}

void ClipRules::add_of_ranks() {
  const job::Parallel& sizes = spec_.parallel;
  if (sizes.data > 1)
    add("clipped by a norm in which each data rank's copy counts",
        [&](const Parameter&) { return static_cast<double>(sizes.data); });
  if (sizes.pipeline > 1)
    add("clipped by a norm in which each copy of a tied weight counts",
        [&](const Parameter& one) { return static_cast<double>(job::holders_of(spec_, one).size()); });
  if (sizes.tensor == 1) return;
  add("clipped by a norm in which what tensor ranks hold whole counts for each of them",
      [&](const Parameter& one) { return whole_.contains(one.name) ? static_cast<double>(sizes.tensor) : 1.0; });
  add("clipped by a norm without what tensor ranks hold parts of",
      [&](const Parameter& one) { return whole_.contains(one.name) ? 1.0 : 0.0; });
}

double ClipRules::by(const Count& count) const {
  std::map<std::string, double> counts;
  for (const Parameter& one : list_) counts[one.name] = count(one);
  return clip_coefficient(settings_.clip_norm, norm_.of(counts));
}

std::vector<double> ClipRules::clipped_before_the_mean(const std::string& parameter) const {
  std::vector<double> mean(single_.mean64(parameter).size());
  for (int data = 0; data < spec_.parallel.data; ++data) {
    const double share = of_data_ranks_[static_cast<std::size_t>(data)] / spec_.parallel.data;
    const std::vector<double>& slice = single_.slice64(data, parameter);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += share * slice[i];
  }
  return mean;
}

std::vector<ClippedByOther> ClipRules::of(const std::string& parameter) const {
  const std::vector<double>& right = single_.mean64(parameter);
  std::vector<ClippedByOther> found;
  const auto add = [&](const std::string& name, double coefficient) {
    found.push_back({name, times(right, coefficient)});
  };
  for (const Rule& rule : rules_) add(rule.name, rule.coefficient);
  add("clipped by the norm of this parameter alone",
      by([&](const Parameter& one) { return one.name == parameter ? 1.0 : 0.0; }));
  if (spec_.parallel.data > 1)
    found.push_back(
        {"each data rank's gradient clipped before the mean over them", clipped_before_the_mean(parameter)});
  if (spec_.parallel.pipeline > 1)
    for (const int rank : job::holders_of(spec_, *std::ranges::find(list_, parameter, &Parameter::name)))
      add(fmt::format("clipped by the norm of pipeline rank {} alone", rank), by([&](const Parameter& one) {
            return std::ranges::count(job::holders_of(spec_, one), rank) > 0 ? 1.0 : 0.0;
          }));
  for (std::size_t i = 0; const SingleDevice::OtherRule& rule : single_.by_other_rules())
    found.push_back({rule.name, times(rule.gradients.at(parameter), of_other_rules_[i++])});
  return found;
}

}  // namespace plumbline::conformance
