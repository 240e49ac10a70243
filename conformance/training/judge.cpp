#include "conformance/training/judge.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "conformance/training/activations.hpp"
#include "conformance/training/bounds.hpp"
#include "conformance/training/carried_optimizer.hpp"
#include "conformance/training/causes.hpp"
#include "conformance/training/clip_rules.hpp"
#include "conformance/training/routing.hpp"
#include "conformance/training/scaling.hpp"
#include "conformance/training/scheduled_rate.hpp"
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
      : spec_(spec),
        record_(record),
        training_(training),
        options_(options),
        of_mean_(spec.row_weights ? ids::kWeightedGradient : ids::kGradient),
        of_loss_(spec.row_weights ? ids::kWeightedLoss : ids::kLoss),
        parameters_(job::parameters_of(spec)),
        skipped_(spec, record) {
    if (options.earlier) {
      of_update_ = ids::kResumedState;
      of_losses_.push_back(ids::kResumedRows);
      skipped_.take(SkippedSteps(*options.earlier->spec, *options.earlier->record), spec.first_step());
    }
    if (record.has_activations()) activations_.emplace(spec, record, training, options.device);
    of_gradients_ = {of_mean_};
    if (!mixes_rows(spec) && !spec.row_weights) of_gradients_.push_back(ids::kUnionGradient);
    if (in_rank_order()) of_gradients_.push_back(ids::kGradientBits);
  }

  Judgement run() {
    coverage();
    if (options_.earlier)
      resumed_values();
    else
      given_weights();
    for (int step = spec_.first_step(); step < spec_.end_step(); ++step) {
      result_.steps.push_back({.step = step});
      continuity(step);
      replicas(step);
      against_single_device(step);
      tell_progress();
    }
    updates();
    scaling();
    return std::move(result_);
  }

 private:
  // Something is about to be compared, or found, by this requirement.
  void judge_by(std::string_view citation) { result_.judged.emplace(suite::id_of_citation(citation)); }

  void find(std::string_view citation, int step, int rank, std::string parameter, std::string what) {
    judge_by(citation);
    result_.findings.push_back(finding_of(citation, step, rank, std::move(parameter), std::move(what)));
  }
  // Of each rank the first gap: the coverage has them all.
  void not_judged(std::string_view citation, int step, int rank, const std::string& parameter,
                  const std::string& lacks) {
    if (!gaps_.emplace(citation, rank).second) return;
    find(citation, step, rank, parameter, fmt::format("not judged: {} is missing in the record", lacks));
  }
  // The same for each rank that should hold a copy and has none.
  void not_judged_where_absent(std::string_view citation, int step, const Parameter& parameter,
                               const std::vector<job::Copy>& copies, const std::string& lacks) {
    for (const int rank : ranks_of(parameter))
      if (!has_copy(copies, rank)) not_judged(citation, step, rank, parameter.name, lacks);
  }

  // The ranks that hold a parameter, in whole or in part.
  [[nodiscard]] std::vector<int> ranks_of(const Parameter& parameter) const {
    std::vector<int> ranks;
    for (const int pipeline : job::holders_of(spec_, parameter))
      for (int data = 0; data < spec_.parallel.data; ++data) {
        if (!job::is_on_data_rank(spec_, parameter, data)) continue;
        for (int tensor = 0; tensor < spec_.parallel.tensor; ++tensor)
          ranks.push_back(job::rank_of(spec_.parallel, {pipeline, data, tensor}));
      }
    return ranks;
  }
  [[nodiscard]] static bool has_copy(const std::vector<job::Copy>& copies, int rank) {
    return std::ranges::any_of(copies,
                               [rank](const job::Copy& copy) { return std::ranges::count(copy.ranks, rank) > 0; });
  }

  void scaling() {
    if (!spec_.scaler) return;
    for (const std::string_view citation :
         {scaling_requirements::kSkipsTogether, scaling_requirements::kScale, scaling_requirements::kSkipLeaves})
      judge_by(citation);
    for (StepSummary& step : result_.steps) {
      step.skipped = skipped_.any(step.step);
      for (const job::RankNumber& one : record_.scales(step.step))
        if (one.rank == 0) step.scale = static_cast<double>(one.value);
    }
    std::vector<Finding> findings = judge_scaling(spec_, record_, skipped_);
    std::ranges::move(findings, std::back_inserter(result_.findings));
    for (int step = spec_.first_step(); step < spec_.end_step(); ++step) gaps_of_scaling(step);
  }

  // What judge_scaling() passed over, since the record lacks it.
  void gaps_of_scaling(int step) {
    const auto lacks = [](const std::vector<job::RankNumber>& numbers, int rank) {
      return std::ranges::find(numbers, rank, &job::RankNumber::rank) == numbers.end();
    };
    const std::vector<job::RankNumber> scales = record_.scales(step), flags = record_.skipped(step);
    for (int rank = 0; rank < spec_.parallel.world(); ++rank) {
      if (lacks(scales, rank)) not_judged(scaling_requirements::kScale, step, rank, "scale", "the scale");
      if (!lacks(flags, rank)) continue;
      for (const std::string_view citation : {scaling_requirements::kSkipsTogether, scaling_requirements::kSkipLeaves})
        not_judged(citation, step, rank, "skipped", "whether the step was skipped");
    }
    for (const Parameter& parameter : parameters_)
      for (const auto& [moment, name] : {std::pair(Moment::before, "'before'"), std::pair(Moment::after, "'after'")}) {
        const std::vector<job::Copy> copies = record_.copies(step, moment, parameter);
        for (const int rank : ranks_of(parameter))
          if (skipped_.at(step, rank) && !has_copy(copies, rank))
            not_judged(scaling_requirements::kSkipLeaves, step, rank, parameter.name, name);
      }
  }

  void coverage() {
    judge_by(ids::kCoverage);
    for (const job::RecordFinding& one : record_.findings())
      find(ids::kCoverage, one.step, one.rank, one.tensor, one.what);
  }

  void given_weights() {
    const job::RunFiles files(spec_);
    for (const Parameter& parameter : parameters_) {
      const std::vector<job::Copy> copies = record_.copies(0, Moment::before, parameter);
      not_judged_where_absent(ids::kGivenWeights, 0, parameter, copies, "'before'");
      for (const job::Copy& copy : copies) {
        judge_by(ids::kGivenWeights);
        compare_bits(
            copy.values, files.weight(parameter.name),
            finding_of(ids::kGivenWeights, 0, copy.rank, parameter.name, "does not start from the given weights"),
            result_.findings);
      }
    }
  }

  // The values with which the run that saved the checkpoint ended.
  void resumed_values() {
    const int first = spec_.first_step();
    for (const Parameter& parameter : parameters_) {
      const std::vector<job::Copy> ends = options_.earlier->record->copies(first - 1, Moment::after, parameter);
      const std::vector<job::Copy> starts = record_.copies(first, Moment::before, parameter);
      not_judged_where_absent(ids::kResumedValues, first, parameter, starts, "'before'");
      if (ends.empty())
        not_judged(ids::kResumedValues, first, -1, parameter.name, "'after' of the last step before the checkpoint");
      else
        for (const job::Copy& start : starts) {
          judge_by(ids::kResumedValues);
          compare_bits(start.values, ends.front().values,
                       finding_of(ids::kResumedValues, first, start.rank, parameter.name,
                                  "does not start from where the run that saved the checkpoint ended"),
                       result_.findings);
        }
    }
  }

  void continuity(int step) {
    if (step == spec_.first_step()) return;
    for (const Parameter& parameter : parameters_) {
      const std::vector<job::Copy> ends = record_.copies(step - 1, Moment::after, parameter);
      const std::vector<job::Copy> starts = record_.copies(step, Moment::before, parameter);
      not_judged_where_absent(ids::kContinuity, step, parameter, starts, "'before'");
      not_judged_where_absent(ids::kContinuity, step, parameter, ends, "'after' of the step before");
      for (const job::Copy& start : starts) {
        const auto end = std::ranges::find(ends, start.rank, &job::Copy::rank);
        if (end == ends.end()) continue;
        judge_by(ids::kContinuity);
        compare_bits(start.values, end->values,
                     finding_of(ids::kContinuity, step, start.rank, parameter.name,
                                "does not start from where the step before it ended"),
                     result_.findings);
      }
    }
  }

  void replicas(int step) {
    const std::tuple<std::string_view, Moment, const char*> rows[] = {
        {ids::kEqualParameters, Moment::before, "the value before the step"},
        {ids::kEqualGradients, Moment::grad, "the gradient"},
        {ids::kEqualParameters, Moment::after, "the value after the step"}};
    for (const auto& [citation, moment, name] : rows)
      for (const Parameter& parameter : parameters_) {
        if (moment == Moment::grad && (is_frozen(parameter) || parts_on_purpose(step, parameter.name))) continue;
        const std::vector<job::Copy> copies = record_.copies(step, moment, parameter);
        if (moment == Moment::grad && parameter.expert >= 0 && copies.empty()) continue;  // see is_left_out()
        if (ranks_of(parameter).size() > 1) not_judged_where_absent(citation, step, parameter, copies, name);
        for (std::size_t i = 1; i < copies.size(); ++i) {
          judge_by(citation);
          const job::Copy& first = moment == Moment::grad && parts_by_tensor_rank(step, parameter.name)
                                       ? first_of_tensor_rank(copies, i)
                                       : copies.front();
          compare_bits(copies[i].values, first.values,
                       finding_of(citation, step, copies[i].rank, parameter.name,
                                  fmt::format("{} differs from that of rank {}", name, first.rank)),
                       result_.findings);
        }
      }
  }

  // Gradients, losses and rows of one step, against the single device at the recorded values.
  void against_single_device(int step) {
    const std::optional<training::Values> before = values_of(spec_, record_, step, Moment::before);
    if (!before) {
      std::vector<std::string_view> citations = of_gradients_;
      citations.insert(citations.end(), of_losses_.begin(), of_losses_.end());
      citations.push_back(ids::kOwnRows);
      if (activations_) citations.push_back(ids::kActivations);
      for (const std::string_view citation : citations)
        not_judged(citation, step, -1, "", "'before' of some parameter");
      return;
    }
    if (is_routing_unsure(spec_, step, *before, training_, options_.device)) return;
    if (activations_) activations(step);
    SingleDevice single(spec_, step, *before, training_, options_.device);
    if (computes_narrow()) single.compute_scaled(expected_scale(spec_, skipped_, step, 0));
    clip_rules_.reset();
    const double norm =
        options_.precision.clip_norm > 0 ? GradientNorm(single.means64(), options_.precision.norm_type).whole() : 0;
    coefficient_ = options_.precision.clip_norm > 0 ? clip_coefficient(options_.precision.clip_norm, norm) : 1;
    for (const Parameter& parameter : parameters_)
      if (!is_frozen(parameter) && !is_left_out(step, parameter, single)) gradients(step, parameter, single);
    for (const Parameter& parameter : parameters_) of_step_before_[parameter.name] = single.mean64(parameter.name);
    norm_of_step_before_ = norm;
    clip_rules_.reset();  // they refer to what is gone after the step
    const std::vector<job::RankNumber> recorded = record_.losses(step);
    for (const job::RankNumber& one : recorded)
      result_.steps.back().loss += static_cast<double>(one.value) / static_cast<double>(recorded.size());
    for (int data = 0; data < spec_.parallel.data; ++data) own_rows(step, data, *before, single);
  }

  // The outputs of layers in a step, and their gradients.
  void activations(int step) {
    judge_by(ids::kActivations);
    StepOfActivations known{.step = step, .before = {}, .skipped = skipped_.any(step)};
    for (int data = 0; data < spec_.parallel.data; ++data) known.before.push_back(values_of_data_rank(step, data));
    if (spec_.run.dtype != "float32") known.scale = expected_scale(spec_, skipped_, step, 0);
    std::vector<Finding> wrong = activations_->wrong_in(known);
    std::ranges::move(wrong, std::back_inserter(result_.findings));
  }

  // What a data rank started the step from; nothing where the record lacks any of it.
  [[nodiscard]] std::optional<training::Values> values_of_data_rank(int step, int data) const {
    training::Values values;
    for (const Parameter& parameter : parameters_) {
      std::vector<job::Copy> copies = record_.copies(step, Moment::before, parameter);
      // Of an expert on another data rank, that of the data ranks that hold all experts together.
      const auto own = std::ranges::find_if(copies, [&](const job::Copy& copy) {
        if (parameter.expert >= 0) return copy.data / spec_.parallel.expert == data / spec_.parallel.expert;
        return std::ranges::any_of(copy.ranks,
                                   [&](int rank) { return job::coordinates_of(spec_.parallel, rank).data == data; });
      });
      if (own == copies.end()) return std::nullopt;
      values[parameter.name] = std::move(own->values);
    }
    return values;
  }
  [[nodiscard]] std::vector<int> ranks_with_loss(int data) const {
    std::vector<int> ranks;
    for (int tensor = 0; tensor < spec_.parallel.tensor; ++tensor)
      ranks.push_back(job::rank_of(spec_.parallel, {job::last_pipeline_rank(spec_), data, tensor}));
    return ranks;
  }

  // A data rank that has parted from the others, who had `before`, is still judged by what it had itself.
  void own_rows(int step, int data, const training::Values& before, const SingleDevice& single) {
    const std::optional<training::Values> own = values_of_data_rank(step, data);
    if (!own)
      for (const int rank : ranks_with_loss(data)) {
        not_judged(ids::kOwnRows, step, rank, "", "'before' of some parameter");
        for (const std::string_view citation : of_losses_)
          not_judged(citation, step, rank, "", "'before' of some parameter");
      }
    else if (*own == before)
      own_rows(step, data, single);
    else
      own_rows_at(step, data, *own);
  }

  void own_rows_at(int step, int data, const training::Values& before) {
    SingleDevice single(spec_, step, before, training_, options_.device);
    const int rank = job::rank_of(spec_.parallel, {.data = data});
    if (computes_narrow()) single.compute_scaled(expected_scale(spec_, skipped_, step, rank));
    own_rows(step, data, single);
  }

  void own_rows(int step, int data, const SingleDevice& single) {
    bool told = false;  // by a local gradient
    for (const Parameter& parameter : parameters_) told |= local_gradients(step, data, parameter, single);
    const std::vector<job::RankNumber> losses = record_.losses(step);
    for (const int rank : ranks_with_loss(data)) {
      const auto own = std::ranges::find(losses, rank, &job::RankNumber::rank);
      if (own != losses.end()) {
        loss(step, *own, single);
        continue;
      }
      for (const std::string_view citation : of_losses_) not_judged(citation, step, rank, "loss", "the loss");
      if (!told) not_judged(ids::kOwnRows, step, rank, "loss", "the loss");
    }
  }

  // Whether the single device computes in the run's type, too: for bits.
  [[nodiscard]] bool computes_scaled() const { return options_.reduction && is_mixed(spec_, options_.precision); }

  // The same, for bits or for bounds.
  [[nodiscard]] bool computes_narrow() const { return computes_scaled() || spec_.run.dtype != "float32"; }

  // Whether a gradient may be anything: an injection has gone into it, or into what it was added up from.
  [[nodiscard]] bool is_injected(int step, const std::string& parameter) const {
    return std::ranges::any_of(spec_.injections, [&](const job::Injection& one) {
      return one.step == step && one.parameter == parameter && std::isfinite(one.value);
    });
  }

  // Whether one replica's gradient was changed after the reduction, in a step that nobody makes.
  [[nodiscard]] bool parts_on_purpose(int step, const std::string& parameter) const {
    return is_skipped_for(step, parameter, [](const job::Injection& one) { return one.reduced; });
  }

  // Whether that of one tensor rank was, which the reduction over data ranks leaves apart from the others'.
  [[nodiscard]] bool parts_by_tensor_rank(int step, const std::string& parameter) const {
    return spec_.parallel.tensor > 1 && is_skipped_for(step, parameter, [](const job::Injection&) { return true; });
  }

  [[nodiscard]] bool is_skipped_for(int step, const std::string& parameter, const auto& concerns) const {
    return skipped_.any(step) && std::ranges::any_of(spec_.injections, [&](const job::Injection& one) {
             return one.step == step && one.parameter == parameter && concerns(one);
           });
  }

  // The first copy of the same tensor rank.
  [[nodiscard]] const job::Copy& first_of_tensor_rank(const std::vector<job::Copy>& copies, std::size_t i) const {
    const auto tensor_rank = [&](const job::Copy& copy) { return coordinates_of(spec_.parallel, copy.rank).tensor; };
    return *std::ranges::find(copies, tensor_rank(copies[i]), tensor_rank);
  }

  // The recorded values, in a skipped step without those that are not finite.
  template <class T>
  [[nodiscard]] std::vector<float> comparable(int step, int rank, const std::vector<float>& values,
                                              const std::vector<T>& expected) const {
    std::vector<float> kept = values;
    if (skipped_.at(step, rank) && values.size() == expected.size())
      for (std::size_t i = 0; i < kept.size(); ++i)
        if (!std::isfinite(kept[i])) kept[i] = static_cast<float>(expected[i]);
    return kept;
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
    for (const std::string_view citation : of_gradients_)
      not_judged_where_absent(citation, step, parameter, copies, "the gradient");
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (repeats(copies, i) || is_injected(step, parameter.name)) continue;
      const std::size_t found = result_.findings.size();
      mean_gradient(step, copies[i], parameter.name, single);
      if (is_unused_somewhere(parameter, single)) of_unused(found);
      if (!mixes_rows(spec_)) union_gradient(step, copies[i], parameter.name, single);
    }
  }

  // Whether no rank has a gradient of an expert that no row of the step uses: then it is not updated, either.
  bool is_left_out(int step, const Parameter& parameter, const SingleDevice& single) {
    if (parameter.expert < 0 || !record_.copies(step, Moment::grad, parameter).empty()) return false;
    if (!std::ranges::all_of(single.mean64(parameter.name), [](double value) { return value == 0; })) return false;
    left_out_.emplace(step, parameter.name);
    std::erase_if(result_.findings, [&](const Finding& one) {
      return one.requirement == suite::id_of_citation(ids::kCoverage) && one.what == "is missing" &&
             one.parameter == fmt::format("step{}/grad/{}", step, parameter.name);
    });
    return true;
  }

  // Whether no row of some data rank uses an expert.
  [[nodiscard]] bool is_unused_somewhere(const Parameter& parameter, const SingleDevice& single) const {
    for (int data = 0; parameter.expert >= 0 && data < spec_.parallel.data; ++data)
      if (std::ranges::all_of(single.slice64(data, parameter.name), [](double value) { return value == 0; }))
        return true;
    return false;
  }
  // What was found of a gradient violates what is asked of unused parameters, too.
  void of_unused(std::size_t first) {
    judge_by(ids::kUnused);
    for (std::size_t i = first, end = result_.findings.size(); i < end; ++i) {
      Finding finding = result_.findings[i];
      finding.requirement = suite::id_of_citation(ids::kUnused);
      result_.findings.push_back(std::move(finding));
    }
  }

  void mean_gradient(int step, const job::Copy& copy, const std::string& name, const SingleDevice& single) {
    judge_by(of_mean_);
    Largest& largest = result_.steps.back().gradient;
    Finding finding = finding_of(
        of_mean_, step, copy.rank, name,
        fmt::format("the gradient is not the {}mean of the single device's", spec_.row_weights ? "weighted " : ""));
    const std::vector<double> magnitudes = single.magnitudes(name);
    const auto compressed = error_of_wire(single);
    if (!options_.reduction) {
      const double bound = gradient_bound(name, single, step, copy.rank);
      const std::vector<double> expected = clipped(single.mean64(name), step, copy.rank);
      const std::size_t before = result_.findings.size();
      compare_within(
          comparable(step, copy.rank, copy.values, expected), expected,
          [&](std::size_t i) { return bound + compressed(magnitudes[i]); }, std::move(finding), result_.findings,
          largest);
      if (result_.findings.size() > before)
        result_.findings.back().hypotheses = hypotheses(step, copy.values, expected, name, single);
      return;
    }
    if (computes_scaled()) {
      const std::vector<float> expected = single.scaled_mean(name);
      const std::vector<float> got = comparable(step, copy.rank, copy.values, expected);
      const std::vector<double> wide(expected.begin(), expected.end());
      compare_within(got, wide, [](std::size_t) { return 0; }, finding, result_.findings, largest);
      judge_by(scaling_requirements::kBits);
      finding.requirement = suite::id_of_citation(scaling_requirements::kBits);
      compare_bits(got, expected, std::move(finding), result_.findings);
      return;
    }
    compare_within(
        copy.values, single.mean_of_slices(name),
        [&](std::size_t i) {
          return mean_error(spec_.parallel.data, options_.reduction->accumulator, magnitudes[i]) +
                 compressed(magnitudes[i]);
        },
        std::move(finding), result_.findings, largest);
    if (!in_rank_order()) return;
    judge_by(ids::kGradientBits);
    compare_bits(copy.values, single.rank_order_mean(name),
                 finding_of(ids::kGradientBits, step, copy.rank, name,
                            "the gradient is not the sum of the single device's in rank order, divided once"),
                 result_.findings);
  }

  // What may have made a gradient wrong.
  [[nodiscard]] std::vector<std::string> hypotheses(int step, const std::vector<float>& got,
                                                    const std::vector<double>& expected, const std::string& name,
                                                    const SingleDevice& single) {
    WrongGradient gradient{
        .got = got, .expected = expected, .slices = {}, .of_step_before = {}, .factors = factors_of_step(spec_)};
    if (spec_.parallel.shard > 1) gradient.factors.emplace_back("replicas", spec_.parallel.replicas());
    gradient.factors.emplace_back("uses of the tied weight", static_cast<int>(uses_of(spec_, name).size()));
    if (spec_.parallel.pipeline * spec_.parallel.tensor > 1)
      gradient.factors.emplace_back("ranks of the world", spec_.parallel.world());
    if (spec_.run.micro_batches > 1 && spec_.run.accumulation > 1)
      gradient.factors.emplace_back("micro-batches of the step", spec_.run.micro_batches * spec_.run.accumulation);
    for (int data = 0; data < spec_.parallel.data; ++data) gradient.slices.emplace_back(single.slice64(data, name));
    if (const auto before = of_step_before_.find(name); before != of_step_before_.end())
      gradient.of_step_before = before->second;
    std::vector<ClippedByOther> clipped_otherwise;
    // Nothing is clipped in a step that is skipped.
    if (options_.precision.clip_norm > 0 && !skipped_.any(step))
      clipped_otherwise = clip_rules(step, single).of(name);
    else
      for (const SingleDevice::OtherRule& rule : single.by_other_rules())
        gradient.by_other_rules.emplace_back(rule.name, rule.gradients.at(name));
    std::vector<std::vector<double>> of_replicas;
    if (spec_.parallel.shard > 1 && spec_.parallel.replicas() > 1)
      for (int replica = 0; replica < spec_.parallel.replicas(); ++replica)
        of_replicas.push_back(mean_of_replica(replica, name, single));
    for (std::size_t i = 0; i < of_replicas.size(); ++i)
      gradient.by_other_rules.emplace_back(fmt::format("the mean over the ranks of replica {} alone", i),
                                           of_replicas[i]);
    if (coefficient_ == 1)
      for (const SingleDevice::OtherSum& sum : single.by_other_uses(name))
        gradient.by_other_rules.emplace_back(sum.name, sum.gradient);
    for (const ClippedByOther& other : clipped_otherwise)
      gradient.by_other_rules.emplace_back(other.rule, other.gradient);
    return hypotheses_of(gradient);
  }

  [[nodiscard]] std::vector<double> mean_of_replica(int replica, const std::string& name,
                                                    const SingleDevice& single) const {
    const int ranks = spec_.parallel.shard;
    std::vector<double> mean = single.slice64(replica * ranks, name);
    for (int rank = 1; rank < ranks; ++rank) {
      const std::vector<double>& slice = single.slice64(replica * ranks + rank, name);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += slice[i];
    }
    for (double& value : mean) value /= ranks;
    return mean;
  }

  // Made for the first gradient of the step that is wrong.
  [[nodiscard]] const ClipRules& clip_rules(int step, const SingleDevice& single) {
    if (!clip_rules_)
      clip_rules_.emplace(spec_, single, options_.precision, whole_on_tensor_ranks(step), norm_of_step_before_);
    return *clip_rules_;
  }

  // The parameters that no tensor rank recorded a part of.
  [[nodiscard]] std::set<std::string> whole_on_tensor_ranks(int step) const {
    std::set<std::string> whole;
    for (const Parameter& parameter : parameters_)
      if (std::ranges::all_of(record_.copies(step, Moment::grad, parameter),
                              [](const job::Copy& copy) { return copy.ranks.size() == 1; }))
        whole.insert(parameter.name);
    return whole;
  }

  [[nodiscard]] bool in_rank_order() const {
    return options_.reduction && options_.reduction->rank_order && !options_.wire;
  }
  // What compression adds to a bound, by the sum of the ranks' magnitudes.
  [[nodiscard]] std::function<double(double)> error_of_wire(const SingleDevice& single) const {
    if (!options_.wire) return [](double) { return 0; };
    if (options_.wire != comm::DType::u8)
      return [ranks = spec_.parallel.data, wire = *options_.wire](double magnitudes) {
        return compressed_mean_error(ranks, wire, magnitudes);
      };
    std::vector<double> largest(static_cast<std::size_t>(spec_.parallel.data));
    for (std::size_t data = 0; data < largest.size(); ++data)
      for (const Parameter& parameter : job::parameters_of(spec_))
        largest[data] = std::max(largest[data], largest_of(single.slice64(static_cast<int>(data), parameter.name)));
    return [error = quantised_mean_error(largest)](double) { return error; };
  }

  // Nothing is clipped in a step that is skipped.
  [[nodiscard]] double coefficient_on(int step, int rank) const { return skipped_.at(step, rank) ? 1 : coefficient_; }
  // What a rank uses of the single device's gradient.
  [[nodiscard]] std::vector<double> clipped(std::vector<double> gradient, int step, int rank) const {
    for (double& value : gradient) value *= coefficient_on(step, rank);
    return gradient;
  }
  // The norm by which it was clipped may be off as far as a gradient.
  [[nodiscard]] double gradient_bound(const std::string& name, const SingleDevice& single, int step, int rank) const {
    const double coefficient = coefficient_on(step, rank);
    const double bound = single.gradient_bound(name) * coefficient;
    return coefficient == 1 ? bound : 2 * bound;
  }

  void union_gradient(int step, const job::Copy& copy, const std::string& name, const SingleDevice& single) {
    // Where float32 overflows, the union in float64 says nothing of it.
    if (!std::ranges::all_of(single.mean_of_slices(name), [](double value) { return std::isfinite(value); })) return;
    const std::string_view citation = spec_.row_weights ? of_mean_ : ids::kUnionGradient;
    judge_by(citation);
    Largest unused;
    const double bound = gradient_bound(name, single, step, copy.rank);
    const std::vector<double> magnitudes = single.magnitudes(name);
    const auto compressed = error_of_wire(single);
    const std::vector<double> expected = clipped(single.union64(name), step, copy.rank);
    compare_within(
        comparable(step, copy.rank, copy.values, expected), expected,
        [&](std::size_t i) { return bound + compressed(magnitudes[i]); },
        finding_of(citation, step, copy.rank, name,
                   fmt::format("the gradient is not that of the {}mean loss over all rows of the step",
                               spec_.row_weights ? "weighted " : "")),
        result_.findings, unused);
  }

  // What a rank computed before the reduction shows which rows it used, where it is recorded: true.
  bool local_gradients(int step, int data, const Parameter& parameter, const SingleDevice& single) {
    bool recorded = false;
    if (spec_.parallel.expert > 1 && parameter.expert >= 0) return false;  // it is of other ranks' rows, too
    for (const job::Copy& copy : record_.copies(step, Moment::local_grad, parameter)) {
      if (copy.data != data) continue;
      recorded = true;
      judge_by(ids::kOwnRows);
      Finding finding = finding_of(ids::kOwnRows, step, copy.rank, parameter.name,
                                   fmt::format("the local gradient is not that of the rows of data rank {}", data));
      if (is_injected(step, parameter.name)) continue;
      if (options_.reduction) {
        const std::vector<float> expected =
            computes_scaled() ? single.scaled_slice(data, parameter.name) : single.slice32(data, parameter.name);
        compare_bits(comparable(step, copy.rank, copy.values, expected), expected, std::move(finding),
                     result_.findings);
        continue;
      }
      Largest unused;
      const double bound = single.slice_bound(data, parameter.name);
      const std::vector<double>& expected = single.slice64(data, parameter.name);
      compare_within(
          comparable(step, copy.rank, copy.values, expected), expected, [bound](std::size_t) { return bound; },
          std::move(finding), result_.findings, unused);
    }
    return recorded;
  }

  void loss(int step, const job::RankNumber& recorded, const SingleDevice& single) {
    const int data = recorded.data;
    judge_by(ids::kOwnRows);
    for (const std::string_view citation : of_losses_) judge_by(citation);
    if (loss_is_of(recorded, data, single)) return;
    Finding finding = finding_of(of_loss_, step, recorded.rank, "loss",
                                 fmt::format("the loss is not the {}mean over the rows of data rank {}",
                                             spec_.row_weights ? "weighted " : "", data));
    finding.index = 0;
    finding.expected =
        options_.reduction ? static_cast<double>(static_cast<float>(exact_loss(data, single))) : single.loss64(data);
    finding.got = static_cast<double>(recorded.value);
    finding.bound = options_.reduction ? 0 : single.loss_bound(data);
    finding.wrong = finding.elements = 1;
    result_.findings.push_back(finding);
    if (options_.earlier) {
      finding.requirement = suite::id_of_citation(ids::kResumedRows);
      finding.hypotheses = rows_from_the_start(step, recorded);
      result_.findings.push_back(std::move(finding));
    }
    for (int other = 0; other < spec_.parallel.data; ++other)
      if (other != data && loss_is_of(recorded, other, single))
        find(ids::kOwnRows, step, recorded.rank, "loss",
             fmt::format("the loss is that of the rows of data rank {}", other));
  }

  // Whether a run that continues uses the batches of the run's first steps again.
  [[nodiscard]] std::vector<std::string> rows_from_the_start(int step, const job::RankNumber& recorded) {
    const std::optional<training::Values> before = values_of_data_rank(step, recorded.data);
    const int other = step - spec_.first_step();
    if (!before) return {};
    SingleDevice single(spec_, other, *before, training_, options_.device);
    if (computes_narrow()) single.compute_scaled(expected_scale(spec_, skipped_, step, recorded.rank));
    if (!loss_is_of(recorded, recorded.data, single)) return {};
    return {fmt::format("the rows of step {}, from the first batch again", other)};
  }

  // Which the executor has in every bit.
  [[nodiscard]] double exact_loss(int data, const SingleDevice& single) const {
    return computes_scaled() ? single.scaled_loss(data) : single.loss32(data);
  }

  [[nodiscard]] bool loss_is_of(const job::RankNumber& recorded, int data, const SingleDevice& single) const {
    const auto got = static_cast<double>(recorded.value);
    if (!std::isfinite(single.loss32(data))) return !std::isfinite(got);  // a run that diverges
    if (options_.reduction) return recorded.value == static_cast<float>(exact_loss(data, single));
    return std::fabs(got - single.loss64(data)) <= single.loss_bound(data);
  }

  void updates() {
    for (const Parameter& parameter : parameters_) {
      if (is_frozen(parameter))
        keeps_given(parameter);
      else
        for (const int rank : ranks_of(parameter)) updates_of(parameter, rank);
      tell_progress();
    }
  }

  [[nodiscard]] bool is_frozen(const Parameter& parameter) const {
    return std::ranges::count(spec_.frozen, parameter.name) > 0;
  }

  void keeps_given(const Parameter& parameter) {
    const job::RunFiles files(spec_);
    const std::vector<float> given = files.weight(parameter.name);
    for (int step = spec_.first_step(); step < spec_.end_step(); ++step) {
      for (const Moment moment : {Moment::grad, Moment::local_grad})
        for (const job::Copy& copy : record_.copies(step, moment, parameter))
          find(ids::kFrozen, step, copy.rank, parameter.name,
               fmt::format("the record has '{}' of a frozen parameter", name_of(moment)));
      for (const Moment moment : {Moment::before, Moment::after}) {
        const std::vector<job::Copy> copies = record_.copies(step, moment, parameter);
        not_judged_where_absent(ids::kFrozen, step, parameter, copies, fmt::format("'{}'", name_of(moment)));
        for (const job::Copy& copy : copies) {
          judge_by(ids::kFrozen);
          compare_bits(copy.values, given,
                       finding_of(ids::kFrozen, step, copy.rank, parameter.name,
                                  fmt::format("the value {} the step of a frozen parameter is not the given one",
                                              name_of(moment))),
                       result_.findings);
        }
      }
    }
  }

  // A part is a step's gradients, or a parameter's updates.
  void tell_progress() {
    options_.progress(++done_, spec_.end_step() - spec_.first_step() + static_cast<int>(parameters_.size()));
  }

  // The updates of a rank's copy, until its record has a gap: the moments after that are not known. What a tensor group
  // holds in parts is judged once, as its first rank's.
  void updates_of(const Parameter& parameter, int rank) {
    const auto copy_of = [&](int step, Moment moment) -> std::optional<job::Copy> {
      for (job::Copy& copy : record_.copies(step, moment, parameter))
        if (std::ranges::count(copy.ranks, rank) > 0) return std::move(copy);
      return std::nullopt;
    };
    const auto count = static_cast<std::size_t>(job::elements_of(parameter.shape));
    const bool decays = std::ranges::find(spec_.no_decay, parameter.name) == spec_.no_decay.end();
    CarriedOptimizer optimizer(rule_of_group(decays), count), of_other_group(rule_of_group(!decays), count);
    CarriedOptimizer without_state = optimizer;
    bool has_skipped = false;
    for (int step = 0; step < spec_.first_step(); ++step)
      for (CarriedOptimizer* one : {&optimizer, &of_other_group})
        if (!carry_earlier(*one, parameter, step)) {
          find(of_update_, step, rank, parameter.name, "not judged: a value is missing in the earlier run's record");
          return;
        }
    for (int step = spec_.first_step(); step < spec_.end_step(); ++step) {
      const auto before = copy_of(step, Moment::before);
      const auto gradient = copy_of(step, Moment::grad);
      const auto after = copy_of(step, Moment::after);
      if (before && !gradient && after && left_out_.contains({step, parameter.name})) {
        judge_by(of_update_);
        compare_bits(after->values, before->values,
                     finding_of(of_update_, step, rank, parameter.name, "is updated without a gradient"),
                     result_.findings);
        continue;
      }
      if (!before || !gradient || !after) {
        find(of_update_, step, rank, parameter.name, "not judged from here on: a value is missing in the record");
        return;
      }
      if (before->rank != rank) return;
      judge_by(of_update_);
      if (skipped_.at(step, rank)) {
        has_skipped = true;
        continue;
      }
      const std::optional<CarriedOptimizer> unstepped = begin_scheduled(optimizer, step);
      const ExpectedUpdate expected = optimizer.step(before->values, gradient->values);
      std::optional<ExpectedUpdate> forgetful;
      if (options_.earlier) {
        (void)begin_scheduled(without_state, step);
        forgetful = without_state.step(before->values, gradient->values);
      }
      std::optional<ExpectedUpdate> otherwise;
      if (!spec_.no_decay.empty()) {
        judge_by(ids::kGroupedUpdate);
        (void)begin_scheduled(of_other_group, step);
        otherwise = of_other_group.step(before->values, gradient->values);
      }
      const std::size_t found = result_.findings.size();
      compare_within(
          after->values, expected.after, [&](std::size_t i) { return expected.bound[i]; },
          finding_of(of_update_, step, rank, parameter.name, "the update is not the optimizer's"), result_.findings,
          result_.steps[static_cast<std::size_t>(step - spec_.first_step())].update);
      if (result_.findings.size() == found) continue;
      Finding& wrong = result_.findings.back();
      if (unstepped)
        wrong.hypotheses = by_other_rates(*unstepped, step, before->values, gradient->values, after->values);
      if (forgetful && is_within(after->values, *forgetful))
        wrong.hypotheses.emplace_back("the optimizer's state of before the checkpoint is lost");
      if (otherwise && is_within(after->values, *otherwise)) {
        if (wrong.hypotheses.empty()) wrong.requirement = suite::id_of_citation(ids::kGroupedUpdate);
        wrong.hypotheses.emplace_back(decays ? "without weight decay" : "with weight decay");
      }
      if (has_skipped) after_a_skip(result_.findings.back());
    }
  }

  // A step that was made before the checkpoint; false where its record has a gap.
  [[nodiscard]] bool carry_earlier(CarriedOptimizer& optimizer, const Parameter& parameter, int step) const {
    if (skipped_.any(step)) return true;
    const std::vector<job::Copy> before = options_.earlier->record->copies(step, Moment::before, parameter);
    const std::vector<job::Copy> gradients = options_.earlier->record->copies(step, Moment::grad, parameter);
    if (before.empty() || gradients.empty()) return false;
    (void)begin_scheduled(optimizer, step);
    (void)optimizer.step(before.front().values, gradients.front().values);
    return true;
  }

  // The optimizer of the parameters that decay, or of those that weight decay leaves out.
  [[nodiscard]] job::Optimizer rule_of_group(bool decays) const {
    job::Optimizer rule = spec_.optimizer;
    if (auto* sgd = std::get_if<job::Sgd>(&rule); sgd != nullptr && !decays) sgd->weight_decay = 0;
    return rule;
  }

  [[nodiscard]] static bool is_within(std::span<const float> after, const ExpectedUpdate& expected) {
    std::vector<Finding> findings;
    Largest unused;
    compare_within(after, expected.after, [&](std::size_t i) { return expected.bound[i]; }, {}, findings, unused);
    return findings.empty();
  }

  // Gives the optimizer the step's learning rate; what it was before, in a run with a schedule.
  [[nodiscard]] std::optional<CarriedOptimizer> begin_scheduled(CarriedOptimizer& optimizer, int step) const {
    if (!spec_.rate_schedule) return std::nullopt;
    optimizer.set_learning_rate(scheduled_rate(spec_, step));
    return optimizer;
  }

  // The wrong learning rates with which a step makes what was recorded.
  [[nodiscard]] std::vector<std::string> by_other_rates(const CarriedOptimizer& unstepped, int step,
                                                        std::span<const float> before, std::span<const float> gradient,
                                                        std::span<const float> after) const {
    std::vector<std::string> names;
    for (const OtherRate& other : other_rates(spec_, step)) {
      CarriedOptimizer optimizer = unstepped;
      optimizer.set_learning_rate(other.rate);
      if (is_within(after, optimizer.step(before, gradient)))
        names.push_back(fmt::format("{}: {:.6g}", other.name, other.rate));
    }
    return names;
  }

  // A wrong update after a skipped step is not that of an optimizer that never saw the skipped one, either.
  void after_a_skip(Finding finding) {
    finding.requirement = suite::id_of_citation(scaling_requirements::kSkipLeaves);
    finding.what = "the update after a skipped step is not that of an optimizer that never saw it";
    result_.findings.push_back(std::move(finding));
  }

  const job::RunSpec& spec_;
  const job::TrainingRecord& record_;
  training::Training& training_;
  const JudgeOptions& options_;
  std::string_view of_mean_, of_loss_;  // the requirements of the step's mean, and of a rank's loss
  std::vector<std::string_view> of_losses_{of_loss_};
  std::string_view of_update_ = spec_.rate_schedule      ? ids::kScheduledUpdate
                                : spec_.no_decay.empty() ? ids::kUpdate
                                                         : ids::kGroupedUpdate;
  std::vector<Parameter> parameters_;
  std::vector<std::string_view> of_gradients_;  // the requirements that a gradient is held to
  std::set<std::pair<std::string_view, int>> gaps_;
  std::set<std::pair<int, std::string>> left_out_;  // by step: experts without a gradient
  SkippedSteps skipped_;
  std::map<std::string, std::vector<double>> of_step_before_;  // the single device's mean gradients
  double coefficient_ = 1;                                     // of this step's clipping
  double norm_of_step_before_ = 0;
  std::optional<ClipRules> clip_rules_;         // of this step
  std::optional<ActivationJudge> activations_;  // of a record that has some
  int done_ = 0;                                // parts
  Judgement result_;
};

}  // namespace

Judgement judge(const job::RunSpec& spec, const job::TrainingRecord& record, training::Training& training,
                const JudgeOptions& options) {
  JudgeOptions held = options;
  held.precision = training::with_clip_of(spec, options.precision);
  const bool is_rounded = is_mixed(spec, held.precision);
  const bool has_bits = !options.precision.autocast && held.precision.clip_norm == 0 && !options.wire &&
                        options.reduction && options.reduction->rank_order;
  if (!adds_as_a_single_device(spec) || (is_rounded && !has_bits)) held.reduction.reset();
  return Judge(spec, record, training, held).run();
}

bool adds_as_a_single_device(const job::RunSpec& spec) {
  if (spec.parallel.tensor > 1 || spec.parallel.expert > 1) return false;
  if (spec.parallel.shard > 1 && spec.parallel.replicas() > 1) return false;  // shards first, then replicas
  if (spec.parallel.pipeline == 1 && (spec.stages.size() <= 1 || spec.run.dtype == "float32")) return true;
  const bool tied = std::ranges::any_of(
      spec.layers, [](const job::Layer& layer) { return std::holds_alternative<job::TiedLinear>(layer); });
  return spec.run.schedule != "looped-bfs" && !tied;
}

std::vector<Finding> compare_runs(const job::RunSpec& spec, const job::TrainingRecord& first,
                                  const job::TrainingRecord& second, std::string_view requirement) {
  std::vector<Finding> findings;
  const auto differ = [&](int step, int rank, const std::string& name) {
    return finding_of(requirement, step, rank, name, "the second run recorded other bits");
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
