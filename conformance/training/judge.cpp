#include "conformance/training/judge.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "conformance/training/bounds.hpp"
#include "conformance/training/carried_optimizer.hpp"
#include "conformance/training/single_device.hpp"
#include "harness/suite/requirement.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/run_files.hpp"

namespace plumbline::conformance {

using job::Moment;
using job::Parameter;
namespace ids = training_requirements;

namespace {

Finding finding_of(std::string_view citation, int step, int rank, std::string parameter, std::string what) {
  return {.requirement = std::string(suite::id_of_citation(citation)),
          .step = step,
          .rank = rank,
          .parameter = std::move(parameter),
          .what = std::move(what)};
}

class Judge {
 public:
  Judge(const job::RunSpec& spec, const job::TrainingRecord& record, training::Training& training,
        const JudgeOptions& options)
      : spec_(spec), record_(record), training_(training), options_(options), parameters_(job::parameters_of(spec)) {}

  Judgement run() {
    coverage();
    given_weights();
    for (int step = 0; step < spec_.run.steps; ++step) {
      result_.steps.push_back({.step = step});
      continuity(step);
      replicas(step);
      against_single_device(step);
    }
    updates();
    return std::move(result_);
  }

 private:
  void find(std::string_view citation, int step, int rank, std::string parameter, std::string what) {
    result_.findings.push_back(finding_of(citation, step, rank, std::move(parameter), std::move(what)));
  }
  void not_judged(std::string_view citation, int step, const std::string& parameter, const std::string& lacks) {
    find(citation, step, -1, parameter, fmt::format("not judged: {} is missing in the record", lacks));
  }

  void coverage() {
    for (const job::RecordFinding& one : record_.findings())
      find(ids::kCoverage, one.step, one.rank, one.tensor, one.what);
  }

  void given_weights() {
    const job::RunFiles files(spec_);
    for (const Parameter& parameter : parameters_) {
      const std::vector<job::Copy> copies = record_.copies(0, Moment::before, parameter);
      if (copies.empty()) not_judged(ids::kGivenWeights, 0, parameter.name, "'before'");
      for (const job::Copy& copy : copies)
        compare_bits(
            copy.values, files.weight(parameter.name),
            finding_of(ids::kGivenWeights, 0, copy.rank, parameter.name, "does not start from the given weights"),
            result_.findings);
    }
  }

  void continuity(int step) {
    if (step == 0) return;
    for (const Parameter& parameter : parameters_) {
      const std::vector<job::Copy> ends = record_.copies(step - 1, Moment::after, parameter);
      const std::vector<job::Copy> starts = record_.copies(step, Moment::before, parameter);
      bool judged = false;
      for (const job::Copy& start : starts) {
        const auto end = std::ranges::find(ends, start.rank, &job::Copy::rank);
        if (end == ends.end()) continue;
        judged = true;
        compare_bits(start.values, end->values,
                     finding_of(ids::kContinuity, step, start.rank, parameter.name,
                                "does not start from where the step before it ended"),
                     result_.findings);
      }
      if (!judged) not_judged(ids::kContinuity, step, parameter.name, "'before', or 'after' of the step before,");
    }
  }

  void replicas(int step) {
    const std::tuple<std::string_view, Moment, const char*> rows[] = {
        {ids::kEqualParameters, Moment::before, "the value before the step"},
        {ids::kEqualGradients, Moment::grad, "the gradient"},
        {ids::kEqualParameters, Moment::after, "the value after the step"}};
    for (const auto& [citation, moment, name] : rows)
      for (const Parameter& parameter : parameters_) {
        const std::vector<job::Copy> copies = record_.copies(step, moment, parameter);
        for (std::size_t i = 1; i < copies.size(); ++i)
          compare_bits(copies[i].values, copies.front().values,
                       finding_of(citation, step, copies[i].rank, parameter.name,
                                  fmt::format("{} differs from that of rank {}", name, copies.front().rank)),
                       result_.findings);
      }
  }

  // Gradients, losses and rows of one step, against the single device at the recorded values.
  void against_single_device(int step) {
    const std::optional<training::Values> before = values_of(spec_, record_, step, Moment::before);
    if (!before) {
      for (const std::string_view citation : {ids::kGradient, ids::kUnionGradient, ids::kLoss, ids::kOwnRows})
        not_judged(citation, step, "", "'before' of some parameter");
      return;
    }
    const SingleDevice single(spec_, step, *before, training_, options_.device);
    for (const Parameter& parameter : parameters_) gradients(step, parameter, single);
    const std::vector<job::RankNumber> recorded = record_.losses(step);
    if (recorded.empty()) {
      not_judged(ids::kLoss, step, "", "the loss");
      not_judged(ids::kOwnRows, step, "", "the loss");
    }
    for (const job::RankNumber& one : recorded)
      result_.steps.back().loss += static_cast<double>(one.value) / static_cast<double>(recorded.size());
    for (int data = 0; data < spec_.parallel.data; ++data) {
      // A data rank that has parted from the others is still judged by what it had.
      const training::Values own = values_of_data_rank(step, data, *before);
      if (own == *before)
        own_rows(step, data, single);
      else
        own_rows(step, data, SingleDevice(spec_, step, own, training_, options_.device));
    }
  }

  [[nodiscard]] training::Values values_of_data_rank(int step, int data, training::Values values) const {
    for (const Parameter& parameter : parameters_) {
      std::vector<job::Copy> copies = record_.copies(step, Moment::before, parameter);
      const auto own = std::ranges::find(copies, data, &job::Copy::data);
      if (own != copies.end()) values[parameter.name] = std::move(own->values);
    }
    return values;
  }

  void own_rows(int step, int data, const SingleDevice& single) {
    for (const Parameter& parameter : parameters_) local_gradients(step, data, parameter, single);
    for (const job::RankNumber& one : record_.losses(step))
      if (one.data == data) loss(step, one, single);
  }

  // One copy stands for those with the same bits; the others have findings as replicas, and are judged by
  // themselves.
  [[nodiscard]] static bool repeats(const std::vector<job::Copy>& copies, std::size_t i) {
    return i > 0 && std::ranges::equal(copies[i].values, copies.front().values, [](float a, float b) {
             return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
           });
  }

  void gradients(int step, const Parameter& parameter, const SingleDevice& single) {
    const std::vector<job::Copy> copies = record_.copies(step, Moment::grad, parameter);
    if (copies.empty()) {
      for (const std::string_view citation : {ids::kGradient, ids::kUnionGradient})
        not_judged(citation, step, parameter.name, "the gradient");
    }
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (repeats(copies, i)) continue;
      mean_gradient(step, copies[i], parameter.name, single);
      if (!single.mixes_rows()) union_gradient(step, copies[i], parameter.name, single);
    }
  }

  void mean_gradient(int step, const job::Copy& copy, const std::string& name, const SingleDevice& single) {
    Largest& largest = result_.steps.back().gradient;
    Finding finding =
        finding_of(ids::kGradient, step, copy.rank, name, "the gradient is not the mean of the single device's");
    if (!options_.reduction) {
      const double bound = single.gradient_bound(name);
      compare_within(
          copy.values, single.mean64(name), [bound](std::size_t) { return bound; }, std::move(finding),
          result_.findings, largest);
      return;
    }
    const std::vector<double> magnitudes = single.magnitudes(name);
    compare_within(
        copy.values, single.mean_of_slices(name),
        [&](std::size_t i) { return mean_error(spec_.parallel.data, options_.reduction->accumulator, magnitudes[i]); },
        std::move(finding), result_.findings, largest);
    if (options_.reduction->rank_order)
      compare_bits(copy.values, single.rank_order_mean(name),
                   finding_of(ids::kGradientBits, step, copy.rank, name,
                              "the gradient is not the sum of the single device's in rank order, divided once"),
                   result_.findings);
  }

  void union_gradient(int step, const job::Copy& copy, const std::string& name, const SingleDevice& single) {
    Largest unused;
    const double bound = single.gradient_bound(name);
    compare_within(
        copy.values, single.union64(name), [bound](std::size_t) { return bound; },
        finding_of(ids::kUnionGradient, step, copy.rank, name,
                   "the gradient is not that of the mean loss over all rows of the step"),
        result_.findings, unused);
  }

  // What a rank computed before the reduction shows which rows it used, where it is recorded.
  void local_gradients(int step, int data, const Parameter& parameter, const SingleDevice& single) {
    for (const job::Copy& copy : record_.copies(step, Moment::local_grad, parameter)) {
      if (copy.data != data) continue;
      Finding finding = finding_of(ids::kOwnRows, step, copy.rank, parameter.name,
                                   fmt::format("the local gradient is not that of the rows of data rank {}", data));
      Largest unused;
      const double bound = single.slice_bound(data, parameter.name);
      if (options_.reduction)
        compare_bits(copy.values, single.slice32(data, parameter.name), std::move(finding), result_.findings);
      else
        compare_within(
            copy.values, single.slice64(data, parameter.name), [bound](std::size_t) { return bound; },
            std::move(finding), result_.findings, unused);
    }
  }

  void loss(int step, const job::RankNumber& recorded, const SingleDevice& single) {
    const int data = recorded.data;
    if (loss_is_of(recorded, data, single)) return;
    Finding finding = finding_of(ids::kLoss, step, recorded.rank, "loss",
                                 fmt::format("the loss is not the mean over the rows of data rank {}", data));
    finding.index = 0;
    finding.expected =
        options_.reduction ? static_cast<double>(static_cast<float>(single.loss32(data))) : single.loss64(data);
    finding.got = static_cast<double>(recorded.value);
    finding.bound = options_.reduction ? 0 : single.loss_bound(data);
    finding.wrong = finding.elements = 1;
    result_.findings.push_back(std::move(finding));
    for (int other = 0; other < spec_.parallel.data; ++other)
      if (other != data && loss_is_of(recorded, other, single))
        find(ids::kOwnRows, step, recorded.rank, "loss",
             fmt::format("the loss is that of the rows of data rank {}", other));
  }

  [[nodiscard]] bool loss_is_of(const job::RankNumber& recorded, int data, const SingleDevice& single) const {
    const auto got = static_cast<double>(recorded.value);
    if (options_.reduction) return recorded.value == static_cast<float>(single.loss32(data));
    return std::fabs(got - single.loss64(data)) <= single.loss_bound(data);
  }

  void updates() {
    for (const Parameter& parameter : parameters_)
      for (const job::Copy& first : record_.copies(0, Moment::before, parameter)) updates_of(parameter, first.rank);
  }

  // The updates of one copy, until its record has a gap: the moments after that are not known.
  void updates_of(const Parameter& parameter, int rank) {
    const auto copy_of = [&](int step, Moment moment) -> std::optional<std::vector<float>> {
      std::vector<job::Copy> copies = record_.copies(step, moment, parameter);
      const auto found = std::ranges::find(copies, rank, &job::Copy::rank);
      return found == copies.end() ? std::nullopt : std::optional(std::move(found->values));
    };
    CarriedOptimizer optimizer(spec_.optimizer, static_cast<std::size_t>(job::elements_of(parameter.shape)));
    for (int step = 0; step < spec_.run.steps; ++step) {
      const auto before = copy_of(step, Moment::before);
      const auto gradient = copy_of(step, Moment::grad);
      const auto after = copy_of(step, Moment::after);
      if (!before || !gradient || !after) {
        find(ids::kUpdate, step, rank, parameter.name, "not judged from here on: a value is missing in the record");
        return;
      }
      const ExpectedUpdate expected = optimizer.step(*before, *gradient);
      compare_within(
          *after, expected.after, [&](std::size_t i) { return expected.bound[i]; },
          finding_of(ids::kUpdate, step, rank, parameter.name, "the update is not the optimizer's"), result_.findings,
          result_.steps[static_cast<std::size_t>(step)].update);
    }
  }

  const job::RunSpec& spec_;
  const job::TrainingRecord& record_;
  training::Training& training_;
  const JudgeOptions& options_;
  std::vector<Parameter> parameters_;
  Judgement result_;
};

}  // namespace

Judgement judge(const job::RunSpec& spec, const job::TrainingRecord& record, training::Training& training,
                const JudgeOptions& options) {
  if (spec.scaler || !spec.injections.empty())
    throw Unsupported("[scaler]: only runs without a loss scaler are judged here");
  return Judge(spec, record, training, options).run();
}

std::vector<Finding> compare_runs(const job::RunSpec& spec, const job::TrainingRecord& first,
                                  const job::TrainingRecord& second) {
  std::vector<Finding> findings;
  const auto differ = [&](int step, int rank, const std::string& name) {
    return finding_of(ids::kSameBits, step, rank, name, "the second run recorded other bits");
  };
  for (int step = 0; step < spec.run.steps; ++step) {
    for (const Moment moment : job::kAllMoments)
      for (const Parameter& parameter : job::parameters_of(spec)) {
        const std::vector<job::Copy> once = first.copies(step, moment, parameter);
        const std::vector<job::Copy> again = second.copies(step, moment, parameter);
        if (once.size() != again.size()) findings.push_back(differ(step, -1, parameter.name));
        for (std::size_t i = 0; i < std::min(once.size(), again.size()); ++i)
          compare_bits(again[i].values, once[i].values, differ(step, once[i].rank, parameter.name), findings);
      }
    const std::vector<job::RankNumber> once = first.losses(step);
    const std::vector<job::RankNumber> again = second.losses(step);
    if (once.size() != again.size()) findings.push_back(differ(step, -1, "loss"));
    for (std::size_t i = 0; i < std::min(once.size(), again.size()); ++i)
      compare_bits(std::span(&again[i].value, 1), std::span(&once[i].value, 1), differ(step, once[i].rank, "loss"),
                   findings);
  }
  return findings;
}

std::optional<training::Values> values_of(const job::RunSpec& spec, const job::TrainingRecord& record, int step,
                                          Moment moment) {
  training::Values values;
  for (const Parameter& parameter : job::parameters_of(spec)) {
    std::vector<job::Copy> copies = record.copies(step, moment, parameter);
    if (copies.empty()) return std::nullopt;
    values[parameter.name] = std::move(copies.front().values);
  }
  return values;
}

}  // namespace plumbline::conformance
