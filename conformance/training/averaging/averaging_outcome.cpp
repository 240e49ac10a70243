// What a run whose ranks average parameters comes to: the steps of data-parallel SGD, and what it has learned.
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "conformance/training/averaging/averaging_judge.hpp"
#include "conformance/training/bounds.hpp"
#include "conformance/training/compare.hpp"
#include "harness/suite/requirement.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

namespace {

// The rows of all ranks in a step, one after the other.
std::vector<training::Slice> slices_of_step(const job::RunSpec& spec, int step) {
  std::vector<training::Slice> slices;
  const std::int64_t rows = spec.run.global_batch / spec.parallel.data;
  for (int rank = 0; rank < spec.parallel.data; ++rank)
    slices.push_back({{.batch = step, .first_row = rows * rank, .rows = rows}});
  return slices;
}

// The values of data-parallel SGD after a step: what it begins with less rate x the mean of the ranks' gradients.
void judge_step_beside(const job::RunSpec& spec, int step, const AveragedRanks& ranks, training::Training& training,
                       std::vector<Finding>& findings) {
  const double rate = std::visit([](const auto& rule) { return rule.lr; }, spec.optimizer);
  const auto world = static_cast<double>(ranks.size());
  const std::vector<training::Slice> slices = slices_of_step(spec, step);
  const std::vector<float> before =
      step == 0 ? ranks[0][0].before : estimate_of(ranks[0][static_cast<std::size_t>(step) - 1]);
  const training::Values values = values_by_parameter(spec, before);
  const auto baseline = [&](training::Arithmetic arithmetic) {
    return training.baseline(spec, slices, values, arithmetic, spec.run.device).mean.gradients;
  };
  const training::Gradients narrow = baseline(training::Arithmetic::float32);
  const training::Gradients wide = baseline(training::Arithmetic::float64);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const training::Values got = values_by_parameter(spec, estimate_of(ranks[rank][static_cast<std::size_t>(step)]));
    for (const auto& [name, gradient] : wide) {
      const double slack = bound_beside(distance(narrow.at(name), gradient), largest_of(gradient), 0x1p-24);
      const std::vector<float>& x = values.at(name);
      std::vector<double> expected;
      for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(x[i] - rate * gradient[i]);
      Largest largest;
      compare_within(
          got.at(name), expected,
          [&](std::size_t i) {
            return rate * slack + (world + 6) * 0x1p-24 * (std::fabs(x[i]) + rate * std::fabs(gradient[i])) +
                   kSmallestFloat;
          },
          {.requirement = std::string(suite::id_of_citation(averaging_requirements::kSynchronous)),
           .step = step,
           .rank = static_cast<int>(rank),
           .parameter = name,
           .what = "the value is not that of data-parallel SGD"},
          findings, largest);
    }
  }
}

}  // namespace

std::vector<Finding> findings_beside_data_parallel(const job::RunSpec& spec, const AveragedRanks& ranks,
                                                   training::Training& training) {
  std::vector<Finding> findings;
  for (int step = 0; step < static_cast<int>(ranks.front().size()); ++step)
    judge_step_beside(spec, step, ranks, training, findings);
  return findings;
}

AveragedAccuracy accuracy_of(const job::RunSpec& spec, const AveragedRanks& ranks, training::Training& training) {
  std::vector<double> sum(ranks.front().back().after.size());
  for (const auto& steps : ranks) {
    const std::vector<float> estimate = estimate_of(steps.back());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += estimate[i] / static_cast<double>(ranks.size());
  }
  const training::LabelledRows rows = training::held_out_rows(spec, training::digits());
  const auto classified = [&](const training::Values& values) {
    return training.accuracy(spec, values, rows, spec.run.device);
  };
  return {.mean = classified(values_by_parameter(spec, {sum.begin(), sum.end()})),
          .single_device = classified(training.alone(spec, 1, [](int, double) {}))};
}

}  // namespace plumbline::conformance
