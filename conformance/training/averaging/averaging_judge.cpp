#include "conformance/training/averaging/averaging_judge.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "conformance/training/averaging/averaging_formulas.hpp"
#include "conformance/training/bounds.hpp"
#include "conformance/training/carried_optimizer.hpp"
#include "conformance/training/causes.hpp"
#include "conformance/training/compare.hpp"
#include "conformance/training/single_device.hpp"
#include "harness/suite/requirement.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/run_files.hpp"

namespace plumbline::conformance {

using training::AveragedStep;
using training::AveragingSettings;

namespace {

namespace ids = averaging_requirements;
using comm::rounded_to;
using Matrix = MixingMatrix;
using Doubles = std::vector<double>;

std::string id_of(std::string_view citation) { return std::string(suite::id_of_citation(citation)); }

class Judge {
 public:
  Judge(const job::RunSpec& spec, const AveragingSettings& settings, const AveragedRanks& ranks,
        training::Training& training, bool rank_order, const std::function<void(int step)>& told)
      : spec_(spec),
        settings_(settings),
        ranks_(ranks),
        training_(training),
        rank_order_(rank_order),
        told_(told),
        list_(job::parameters_of(spec)),
        world_(static_cast<int>(ranks.size())),
        nodes_(world_ / settings.ranks_per_node),
        dtype_(compute_dtype(spec.run.dtype)),
        calendar_(settings, nodes_),
        bound_(nodes_),
        overlaps_(settings.overlap && calendar_.gossips()) {
    for (const job::Parameter& parameter : list_)
      elements_ += static_cast<std::size_t>(job::elements_of(parameter.shape));
    for (const job::Layer& layer : spec.layers)  // mean, variance, number of batches
      if (const auto* norm = std::get_if<job::BatchNorm2d>(&layer))
        statistics_ += 2 * static_cast<std::size_t>(norm->features) + 1;
    const job::RunFiles files(spec);
    for (const job::Parameter& parameter : list_) {
      const std::vector<float> values = files.weight(parameter.name);
      start_.insert(start_.end(), values.begin(), values.end());
    }
    for (int rank = 0; rank < world_; ++rank) {
      auto& own = optimizers_.emplace_back();
      for (const job::Parameter& parameter : list_)
        own.emplace_back(spec.optimizer, static_cast<std::size_t>(job::elements_of(parameter.shape)));
    }
    slow_.assign(static_cast<std::size_t>(nodes_), {.old = Doubles(start_.begin(), start_.end()),
                                                    .momentum = Doubles(elements_),
                                                    .largest = Doubles(elements_),
                                                    .slack = Doubles(elements_)});
  }

  AveragingJudgement run() {
    const std::size_t steps = ranks_.front().size();
    for (int rank = 0; rank < world_; ++rank)
      if (!has_all(rank, steps)) return std::move(judgement_);
    for (std::size_t step = 0; step < steps; ++step) {
      judge(static_cast<int>(step));
      told_(static_cast<int>(step));
    }
    return std::move(judgement_);
  }

 private:
  // Of a node.
  struct Slow {
    Doubles old, momentum;  // as the paper's x_t and u, or v
    Doubles largest;        // term that is in the momentum
    Doubles slack;          // how far rounding to 16 bits can have taken the momentum
  };

  [[nodiscard]] const AveragedStep& at(int rank, int step) const {
    return ranks_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step)];
  }
  [[nodiscard]] const AveragedStep& of_node(int node, int step) const {
    return at(node * settings_.ranks_per_node, step);
  }
  [[nodiscard]] double rate(int step) const {
    const double rate = std::visit([](const auto& rule) { return rule.lr; }, spec_.optimizer);
    return rate * std::pow(settings_.rate_decay, step);
  }
  [[nodiscard]] bool has_halves() const { return dtype_ != comm::DType::f32; }

  bool has_all(int rank, std::size_t steps) {
    const auto& own = ranks_[static_cast<std::size_t>(rank)];
    bool whole = own.size() == steps && steps > 0;
    for (const AveragedStep& one : own)
      for (const auto* list : {&one.before, &one.seen, &one.gradient, &one.updated, &one.after})
        whole = whole && list->size() == elements_;
    for (const AveragedStep& one : own) {
      whole = whole && one.mixed.size() == (overlaps_ ? elements_ : 0);
      whole = whole && one.halves.size() == (has_halves() ? elements_ : 0);
      whole = whole && one.buffers_seen.size() == statistics_ && one.buffers.size() == statistics_;
    }
    if (!whole)
      judgement_.findings.push_back({.requirement = id_of(ids::kEstimate),
                                     .rank = rank,
                                     .parameter = "",
                                     .what = "its record lacks steps or values"});
    return whole;
  }

  // Parameter after parameter.
  void within(std::string_view citation, int step, int rank, const std::string& what, const std::vector<float>& got,
              const Doubles& expected, const std::function<double(std::size_t)>& bound) {
    judgement_.judged.insert(id_of(citation));
    std::size_t first = 0;
    for (const job::Parameter& parameter : list_) {
      const auto count = static_cast<std::size_t>(job::elements_of(parameter.shape));
      Largest largest;
      compare_within(
          std::span(got).subspan(first, count), std::span(expected).subspan(first, count),
          [&](std::size_t i) { return bound(first + i); },
          {.requirement = id_of(citation), .step = step, .rank = rank, .parameter = parameter.name, .what = what},
          judgement_.findings, largest);
      first += count;
    }
  }
  // Values by other rules than the right one, each with its name.
  using Rules = std::vector<std::pair<std::string, Doubles>>;
  // Adds to the findings from `known` on by which rule their values came about. Compared are changes of `from`; with a
  // step, those to the values of all ranks then, too, of which some alone may have been averaged.
  void explain(std::size_t known, const std::vector<float>& got, const Doubles& from, const Doubles& expected,
               const Rules& rules, int averaged_in = -1) {
    std::size_t first = 0;
    for (const job::Parameter& parameter : list_) {
      const auto count = static_cast<std::size_t>(job::elements_of(parameter.shape));
      const auto change = [&](const auto& values) {
        Doubles changes(count);
        for (std::size_t i = 0; i < count; ++i) changes[i] = values[first + i] - from[first + i];
        return changes;
      };
      for (std::size_t i = known; i < judgement_.findings.size(); ++i) {
        Finding& finding = judgement_.findings[i];
        if (finding.parameter != parameter.name || finding.index < 0) continue;
        const Doubles exact = change(got), right = change(expected);
        const std::vector<float> recorded(exact.begin(), exact.end());
        std::vector<Doubles> others;
        for (const auto& [name, values] : rules) others.push_back(change(values));
        for (int rank = 0; rank < world_ && averaged_in >= 0; ++rank)
          others.push_back(change(at(rank, averaged_in).updated));
        WrongGradient wrong{.got = recorded, .expected = right, .slices = {}, .of_step_before = {}, .factors = {}};
        for (std::size_t rule = 0; rule < rules.size(); ++rule)
          wrong.by_other_rules.emplace_back(rules[rule].first, others[rule]);
        wrong.slices.assign(others.begin() + static_cast<std::ptrdiff_t>(rules.size()), others.end());
        finding.hypotheses = hypotheses_of(wrong);
        leave_out_own_slice(finding);
      }
      first += count;
    }
  }
  // A rule has the rank's own values already, in better words.
  static void leave_out_own_slice(Finding& finding) {
    const auto begin_with = [](const std::string& words) {
      return [words](const std::string& one) { return one.starts_with(words); };
    };
    if (std::ranges::any_of(finding.hypotheses, begin_with("the rank's own values")))
      std::erase_if(finding.hypotheses, begin_with(fmt::format("of data rank {} alone", finding.rank)));
  }
  // Where each rank is a node, messages say rank.
  [[nodiscard]] std::string_view node_in_words() const { return settings_.ranks_per_node == 1 ? "rank" : "node"; }
  void bits(std::string_view citation, int step, int rank, const char* what, const std::vector<float>& got,
            const std::vector<float>& expected) {
    judgement_.judged.insert(id_of(citation));
    compare_bits(got, expected,
                 {.requirement = id_of(citation), .step = step, .rank = rank, .parameter = "parameters", .what = what},
                 judgement_.findings);
  }

  void judge(int step) {
    const DueAveraging due = calendar_.at(step);
    judge_start(step);
    const DueAveraging last = step > 0 ? calendar_.at(step - 1) : DueAveraging();
    at_round_.clear();
    if ((last.average || last.slow) && !overlaps_) at_round_ = optimizers_;
    if (overlaps_) judge_overlap(step, due);
    for (int rank = 0; rank < world_; ++rank) {
      judge_estimate(step, rank);
      judge_update(step, rank);
      judge_buffers(step, rank);
    }
    for (int node = 0; node < nodes_; ++node) judge_gradient(step, node);
    const bool gossips = due.gossip && !overlaps_;
    const Matrix mixing = due.slow_averages || due.average ? complete_mixing(nodes_)
                          : gossips                        ? next_mixing(step)
                                                           : no_mixing(nodes_);
    if (due.slow)
      judge_slow(step, due, mixing);
    else if (gossips)
      judge_gossip(step, mixing);
    else if (overlaps_)
      judge_after_overlap(step);
    else if (due.average)
      judge_average(step);
    else
      for (int rank = 0; rank < world_; ++rank)
        bits(calendar_.has_slow_steps() ? ids::kSlowStep : ids::kAverage, step, rank,
             "nothing was due, and the values changed after the optimizer's step", at(rank, step).after,
             at(rank, step).updated);
    judge_halves(step);
    summarise(step, mixing);
  }

  [[nodiscard]] Matrix next_mixing(int step) {
    Matrix mixing = uniform_mixing(settings_, nodes_, rounds_++);
    if (settings_.graph == "random-matching" && settings_.peers <= 1 && !is_matching(mixing))
      judgement_.findings.push_back({.requirement = id_of(ids::kGossip),
                                     .step = step,
                                     .parameter = "",
                                     .what = "the round's pairs are no matching"});
    return mixing;
  }

  // ---- inside a rank ----

  void judge_start(int step) {
    if (under_way_ && settings_.checkpoint_steps > 0 && step % settings_.checkpoint_steps == 0)
      return judge_start_after_checkpoint(step);
    for (int rank = 0; rank < world_; ++rank) {
      if (step == 0)
        bits(ids::kEstimate, step, rank, "the run does not start from the given weights", at(rank, step).before,
             start_);
      else
        bits(ids::kEstimate, step, rank, "the step does not start where the one before ended", at(rank, step).before,
             at(rank, step - 1).after);
      judge_weight_before(ids::kEstimate, step, rank, step == 0 ? 1 : at(rank, step - 1).weight, 0);
    }
  }
  void judge_weight_before(std::string_view citation, int step, int rank, double expected, double tolerance) {
    const double got = at(rank, step).weight_before;
    if (std::fabs(got - expected) <= tolerance * expected) return;
    judgement_.findings.push_back(
        {.requirement = id_of(citation),
         .step = step,
         .rank = rank,
         .parameter = "",
         .what = fmt::format("the step starts with weight {}, and that was {}", got, expected)});
  }

  // Halves keep less of their masters than is handed over, and so are off by that in parts of what they keep.
  void judge_estimate(int step, int rank) {
    const AveragedStep& own = at(rank, step);
    const double weight = own.weight_before;
    const double kept = overlaps_ ? kept_[static_cast<std::size_t>(rank / settings_.ranks_per_node)] : 1;
    Doubles expected(elements_);
    for (std::size_t i = 0; i < elements_; ++i) expected[i] = own.before[i] / weight;
    const double u = (overlaps_ ? 6 : 3) * unit_roundoff(dtype_);
    const bool is_exact = weight == 1 && !has_halves() && !overlaps_;
    const std::size_t known = judgement_.findings.size();
    within(ids::kEstimate, step, rank, "the forward does not see the numerators divided by their weight", own.seen,
           expected, [&](std::size_t i) {
             if (is_exact) return 0.0;
             if (!has_halves()) return u * std::fabs(expected[i]) + kSmallestFloat;
             return u * std::fabs(expected[i]) / kept + 0x1p-24 * (1 + 1 / (kept * weight));
           });
    if (judgement_.findings.size() > known)
      explain(known, own.seen, Doubles(elements_), expected, other_estimates(own.before, weight));
  }
  [[nodiscard]] static Rules other_estimates(const std::vector<float>& numerators, double weight) {
    Rules rules;
    const auto add = [&](const std::string& name, double factor) {
      Doubles& values = rules.emplace_back(name, Doubles(numerators.begin(), numerators.end())).second;
      for (double& value : values) value *= factor;
    };
    const std::string words = fmt::format("the push-sum weight {:.6g}", weight);
    add("the numerators, not divided by " + words, 1);
    add("the numerators, multiplied by " + words, weight);
    add("the numerators, divided twice by " + words, 1 / (weight * weight));
    return rules;
  }

  void judge_gradient(int step, int node) {
    const int members = settings_.ranks_per_node;
    const AveragedStep& own = of_node(node, step);
    std::vector<training::Slice> slices;
    for (int rank = node * members; rank < (node + 1) * members; ++rank) slices.push_back(slice_of(step, rank));
    const training::Values seen = values_by_parameter(spec_, own.seen);
    const auto baseline = [&](training::Arithmetic arithmetic) {
      return training_.baseline(spec_, slices, seen, arithmetic, spec_.run.device);
    };
    const training::Baseline narrow = baseline(training::Arithmetic::float32);
    const Doubles mean = flat_of(narrow.mean.gradients);
    const bool has_bits = rank_order_ && !has_halves();
    Doubles expected = mean;
    double bound = 0;
    if (!has_bits) {
      const training::Baseline wide = baseline(training::Arithmetic::float64);
      expected = flat_of(wide.mean.gradients);
      double largest = 0;
      for (const training::LossGradient& slice : wide.slices)
        largest = std::max(largest, largest_of(flat_of(slice.gradients)));
      bound = bound_beside(distance(mean, expected), largest, unit_roundoff(dtype_));
    }
    for (int member = 0; member < members; ++member) {
      const int rank = node * members + member;
      within(ids::kGradient, step, rank,
             fmt::format("the gradient is not the single device's of the {}'s rows", node_in_words()),
             at(rank, step).gradient, expected, [&](std::size_t) { return bound; });
      judge_loss(step, rank, narrow.slices[static_cast<std::size_t>(member)].loss);
    }
  }
  void judge_loss(int step, int rank, double expected) {
    const double got = at(rank, step).loss;
    if (std::fabs(got - expected) <= 64 * unit_roundoff(dtype_) * (1 + std::fabs(expected)) || got == expected) return;
    if (!std::isfinite(expected) && !std::isfinite(got)) return;
    judgement_.findings.push_back({.requirement = id_of(ids::kGradient),
                                   .step = step,
                                   .rank = rank,
                                   .parameter = "",
                                   .what = fmt::format("the loss is {}, on a single device {}", got, expected)});
  }
  // Data rank d of D takes the d-th of D equal consecutive slices, in equal micro-batches.
  [[nodiscard]] training::Slice slice_of(int step, int rank) const {
    const std::int64_t cuts = std::int64_t{world_} * spec_.run.micro_batches;
    training::Slice slice;
    for (std::int64_t i = 0; i < spec_.run.accumulation; ++i)
      for (std::int64_t part = 0; part < spec_.run.micro_batches; ++part) {
        const std::int64_t cut = std::int64_t{rank} * spec_.run.micro_batches + part;
        const std::int64_t begin = spec_.run.global_batch * cut / cuts;
        slice.push_back({std::int64_t{step} * spec_.run.accumulation + i, begin,
                         spec_.run.global_batch * (cut + 1) / cuts - begin});
      }
    return slice;
  }
  [[nodiscard]] Doubles flat_of(const training::Gradients& gradients) const {
    Doubles flat;
    for (const job::Parameter& parameter : list_) {
      const Doubles& values = gradients.at(parameter.name);
      flat.insert(flat.end(), values.begin(), values.end());
    }
    return flat;
  }

  void judge_update(int step, int rank) {
    const AveragedStep& own = at(rank, step);
    Doubles expected, bound;
    std::size_t first = 0;
    for (CarriedOptimizer& optimizer : optimizers_[static_cast<std::size_t>(rank)]) {
      const auto count = static_cast<std::size_t>(job::elements_of(
          list_[static_cast<std::size_t>(&optimizer - optimizers_[static_cast<std::size_t>(rank)].data())].shape));
      optimizer.set_learning_rate(rate(step));
      const std::vector<float>& from = overlaps_ ? own.mixed : own.before;
      const ExpectedUpdate update =
          optimizer.step(std::span(from).subspan(first, count), std::span(own.gradient).subspan(first, count));
      expected.insert(expected.end(), update.after.begin(), update.after.end());
      bound.insert(bound.end(), update.bound.begin(), update.bound.end());
      first += count;
    }
    const std::size_t known = judgement_.findings.size();
    within(ids::kUpdate, step, rank, "the optimizer's step is not made on the numerators by its rule", own.updated,
           expected, [&](std::size_t i) { return bound[i]; });
    if (judgement_.findings.size() == known) return;
    const Doubles before(own.before.begin(), own.before.end());
    if (!at_round_.empty())
      explain(known, own.updated, before, expected, other_updates(own, step));
    else if (own.weight_before != 1 && !overlaps_)
      explain(known, own.updated, before, expected, other_pushed_updates(own, expected));
  }
  // The optimizer's step on other values than the numerators, or of another size.
  [[nodiscard]] static Rules other_pushed_updates(const AveragedStep& own, const Doubles& expected) {
    Rules rules{{"made on the numerators divided by their push-sum weight", expected},
                {fmt::format("the change multiplied by the push-sum weight {:.6g}", own.weight_before), expected},
                {fmt::format("the change divided by the push-sum weight {:.6g}", own.weight_before), expected}};
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double before = own.before[i], change = expected[i] - before;
      rules[0].second[i] = own.seen[i] + change;
      rules[1].second[i] = before + change * own.weight_before;
      rules[2].second[i] = before + change / own.weight_before;
    }
    return rules;
  }
  // The first step of a round, if ranks treated the optimizer's state as they do parameters.
  [[nodiscard]] Rules other_updates(const AveragedStep& own, int step) const {
    Rules rules{{"the optimizer begins the round without its state", {}},
                {"the optimizer begins the round with the mean of the ranks' states", {}}};
    std::size_t first = 0;
    for (std::size_t parameter = 0; parameter < list_.size(); ++parameter) {
      const auto count = static_cast<std::size_t>(job::elements_of(list_[parameter].shape));
      std::vector<CarriedOptimizer> ranks;
      for (const std::vector<CarriedOptimizer>& rank : at_round_) ranks.push_back(rank[parameter]);
      CarriedOptimizer begins[] = {CarriedOptimizer(spec_.optimizer, count), CarriedOptimizer::mean_of(ranks)};
      for (std::size_t rule = 0; rule < rules.size(); ++rule) {
        begins[rule].set_learning_rate(rate(step));
        const ExpectedUpdate update = begins[rule].step(std::span(own.before).subspan(first, count),
                                                        std::span(own.gradient).subspan(first, count));
        rules[rule].second.insert(rules[rule].second.end(), update.after.begin(), update.after.end());
      }
      first += count;
    }
    return rules;
  }

  void judge_buffers(int step, int rank) {
    const AveragedStep& own = at(rank, step);
    if (statistics_ == 0) return;
    bits(ids::kBuffers, step, rank, "the forward does not see rank 0's running statistics", own.buffers_seen,
         step == 0 ? at(0, 0).buffers_seen : at(0, step - 1).buffers);
    if (own.buffers == own.buffers_seen)
      judgement_.findings.push_back({.requirement = id_of(ids::kBuffers),
                                     .step = step,
                                     .rank = rank,
                                     .parameter = "",
                                     .what = "the forward left the running statistics as they were"});
  }

  // ---- between ranks ----

  // Of the nodes' values, weighted.
  template <class ValuesOf>
  [[nodiscard]] Doubles mixed(const Doubles& shares, const ValuesOf& values_of) const {
    Doubles sum(elements_);
    for (int node = 0; node < nodes_; ++node) {
      const double share = shares[static_cast<std::size_t>(node)];
      const auto& values = values_of(node);
      if (share != 0)
        for (std::size_t i = 0; i < elements_; ++i) sum[i] += share * values[i];
    }
    return sum;
  }
  [[nodiscard]] double largest_at(int step, std::size_t i) const {
    double largest = 0;
    for (int rank = 0; rank < world_; ++rank)
      largest = std::max(largest, std::fabs(static_cast<double>(at(rank, step).updated[i])));
    return largest;
  }
  [[nodiscard]] double mixing_bound(int step, std::size_t i) const { return mixing_bound(largest_at(step, i)); }
  // Of an average or a round of values up to this one, in the parameters' type.
  [[nodiscard]] double mixing_bound(double largest) const {
    if (has_halves()) return (nodes_ + 4) * (unit_roundoff(dtype_) * largest + 0x1p-24);
    return (world_ + 4) * unit_roundoff(comm::DType::f32) * largest + kSmallestFloat;
  }
  // Parameters of 16 bits as they are sent: divided and multiplied by the number of nodes, each time rounded.
  [[nodiscard]] Doubles halves_sent(int node, int step) const {
    Doubles halves;
    for (const float value : of_node(node, step).updated) {
      const float half = rounded_to(dtype_, value);
      halves.push_back(
          rounded_to(dtype_, rounded_to(dtype_, half / static_cast<float>(nodes_)) * static_cast<float>(nodes_)));
    }
    return halves;
  }

  void judge_average(int step) {
    if (has_halves()) return judge_average_of_halves(step);
    const Doubles mean =
        mixed(complete_mixing(nodes_).front(), [&](int node) -> const auto& { return of_node(node, step).updated; });
    for (int rank = 0; rank < world_; ++rank) {
      const std::size_t known = judgement_.findings.size();
      within(ids::kAverage, step, rank, "an average was due, and the value is not the mean of the nodes'",
             at(rank, step).after, mean, [&](std::size_t i) { return mixing_bound(step, i); });
      if (judgement_.findings.size() == known) continue;
      const AveragedStep& own = at(rank, step);
      Doubles sum = mean;
      for (double& value : sum) value *= nodes_;
      const Doubles from(own.before.begin(), own.before.end());
      explain(known, own.after, from, mean,
              {{"the rank's own values, without an average", Doubles(own.updated.begin(), own.updated.end())},
               {"the sum of the ranks' values in place of their mean", sum}},
              step);
    }
  }

  // A master is the mean of the halves and what its own half had lost: so less that, all are equal, and near the mean.
  void judge_average_of_halves(int step) {
    std::vector<Doubles> sent;
    for (int node = 0; node < nodes_; ++node) sent.push_back(halves_sent(node, step));
    const Doubles mean = mixed(complete_mixing(nodes_).front(),
                               [&](int node) -> const auto& { return sent[static_cast<std::size_t>(node)]; });
    Doubles common(elements_);
    const auto common_of = [&](int rank, std::size_t i) {
      const double lost =
          at(rank, step).updated[i] - sent[static_cast<std::size_t>(rank / settings_.ranks_per_node)][i];
      return at(rank, step).after[i] - lost;
    };
    for (std::size_t i = 0; i < elements_; ++i) common[i] = common_of(0, i);
    for (int rank = 0; rank < world_; ++rank) {
      std::vector<float> got(elements_);
      for (std::size_t i = 0; i < elements_; ++i) got[i] = static_cast<float>(common_of(rank, i));
      within(ids::kHalves, step, rank, "masters do not differ by what their halves had lost", got, common,
             [&](std::size_t i) { return 8 * unit_roundoff(comm::DType::f32) * largest_at(step, i) + 0x1p-40; });
      within(ids::kHalves, step, rank, "the average of the halves is another one", got, mean,
             [&](std::size_t i) { return mixing_bound(step, i); });
    }
  }
  void judge_halves(int step) {
    if (!has_halves()) return;
    for (int rank = 0; rank < world_; ++rank) {
      std::vector<float> expected;
      for (const float value : at(rank, step).after) expected.push_back(rounded_to(dtype_, value));
      bits(ids::kHalves, step, rank, "the parameters are not their masters, rounded", at(rank, step).halves, expected);
    }
  }

  void judge_gossip(int step, const Matrix& mixing) {
    for (int node = 0; node < nodes_; ++node) {
      const Doubles& shares = mixing[static_cast<std::size_t>(node)];
      const std::vector<OtherShares> others = other_shares(mixing, node);
      judge_weight(step, node, weight_of(step, shares), others);
      if (has_halves()) {
        judge_gossip_of_halves(step, node, shares);
        continue;
      }
      const auto sum_of = [&](const Doubles& of_nodes) {
        return mixed(of_nodes, [&](int from) -> const auto& { return of_node(from, step).updated; });
      };
      const Doubles expected = sum_of(shares);
      for (int member = 0; member < settings_.ranks_per_node; ++member) {
        const int rank = node * settings_.ranks_per_node + member;
        const std::size_t known = judgement_.findings.size();
        within(ids::kGossip, step, rank, "a round of gossip was due, and the numerator is not the sum of the shares",
               at(rank, step).after, expected, [&](std::size_t i) { return mixing_bound(step, i); });
        if (judgement_.findings.size() == known) continue;
        const AveragedStep& own = at(rank, step);
        Rules rules = other_sums(own, expected);
        for (const OtherShares& other : others) rules.emplace_back(other.words, sum_of(other.shares));
        explain(known, own.after, Doubles(own.before.begin(), own.before.end()), expected, rules);
      }
    }
  }
  // What a round of gossip would add up by another rule: the share of each node's value.
  struct OtherShares {
    std::string words;
    Doubles shares;  // [from]
  };
  [[nodiscard]] std::vector<OtherShares> other_shares(const Matrix& mixing, int node) const {
    const auto self = static_cast<std::size_t>(node);
    const Doubles& right = mixing[self];
    const std::string_view one = node_in_words();
    Doubles own(right.size()), whole = right, others = right, undivided(right.size()), by_row(right.size()), column;
    own[self] = whole[self] = 1;
    others[self] = 0;
    const auto senders = static_cast<double>(std::ranges::count_if(right, [](double share) { return share != 0; }));
    for (std::size_t from = 0; from < right.size(); ++from) {
      undivided[from] = right[from] != 0 ? 1 : 0;
      by_row[from] = undivided[from] / senders;
      column.push_back(mixing[from][self]);
    }
    std::vector<OtherShares> all{
        {fmt::format("the {}'s own value, without a round of gossip", one), own},
        {fmt::format("the {}'s own value in whole, and the shares that came", one), whole},
        {fmt::format("the shares that came, without the {}'s own", one), others},
        {"the values that came, not divided into shares", undivided},
        {"the mean of what came: rows of the mixing matrix add up to 1 and not its columns", by_row},
        {fmt::format("the mixing matrix transposed: shares of the {0}s that this {0} sends to", one), column},
        {fmt::format("the mean of all {}s", one), complete_mixing(nodes_)[self]}};
    if (rounds_ > 1 && settings_.graph != "random-matching")
      all.push_back({"the peers of the round before", uniform_mixing(settings_, nodes_, rounds_ - 2)[self]});
    return all;
  }
  // The right shares, of other values or treated otherwise.
  [[nodiscard]] Rules other_sums(const AveragedStep& own, const Doubles& expected) const {
    Rules rules{{fmt::format("the sum of the shares, divided by the push-sum weight {:.6g}", own.weight), expected}};
    for (double& value : rules[0].second) value /= own.weight;
    return rules;
  }
  // A master is the sum of the shares of halves, and what its own half had lost.
  void judge_gossip_of_halves(int step, int node, const Doubles& shares) {
    std::vector<Doubles> sent;
    for (int from = 0; from < nodes_; ++from) {
      Doubles& halves = sent.emplace_back();
      for (const float value : of_node(from, step).updated) halves.push_back(rounded_to(dtype_, value));
    }
    const Doubles mixed_halves =
        mixed(shares, [&](int from) -> const auto& { return sent[static_cast<std::size_t>(from)]; });
    for (int member = 0; member < settings_.ranks_per_node; ++member) {
      const int rank = node * settings_.ranks_per_node + member;
      Doubles expected = mixed_halves;
      for (std::size_t i = 0; i < elements_; ++i)
        expected[i] += at(rank, step).updated[i] - rounded_to(dtype_, at(rank, step).updated[i]);
      within(ids::kHalves, step, rank, "a round of gossip leaves masters that are not the shares and what was lost",
             at(rank, step).after, expected, [&](std::size_t i) { return mixing_bound(step, i); });
      judge_feedback(step, rank, at(rank, step).updated, at(rank, step).after, 1);
    }
  }
  // What changes a master is what a half becomes in place of another one: a multiple of the last place of the smaller
  // one, or of what was kept meanwhile. What the halves lack is none.
  void judge_feedback(int step, int rank, const std::vector<float>& from, const std::vector<float>& to, double kept) {
    const int digits = dtype_ == comm::DType::f16 ? 10 : 7;  // after the point
    const int least = dtype_ == comm::DType::f16 ? -24 : -133;
    Doubles expected(elements_), bound(elements_);
    for (std::size_t i = 0; i < elements_; ++i) {
      const double smaller = std::min(kept * std::fabs(double{from[i]}), std::fabs(double{to[i]}));
      // One place more, since a half may be of the next lower power of two.
      const int place = smaller == 0 ? least : std::max(std::ilogb(smaller) - digits - 1, least);
      const double change = double{to[i]} - double{from[i]};
      expected[i] = double{from[i]} + std::ldexp(std::nearbyint(std::ldexp(change, -place)), place);
      bound[i] = 8 * unit_roundoff(comm::DType::f32) * std::max(std::fabs(from[i]), std::fabs(to[i])) + 0x1p-40;
    }
    within(ids::kFeedback, step, rank, "gossip changed a master by what no halves are apart", to, expected,
           [&](std::size_t i) { return bound[i]; });
  }

  // ---- gossip beside the forward and backward ----

  // A round that was handed over before a forward, from the numerators and weights of then.
  struct UnderWay {
    int step = 0;
    Matrix mixing;
    std::vector<Doubles> parameters{};  // by node; of 16 bits they are the numerators, rounded
  };
  [[nodiscard]] UnderWay handed_over(int step) {
    UnderWay round{.step = step, .mixing = next_mixing(step)};
    for (int node = 0; node < nodes_; ++node) {
      Doubles& values = round.parameters.emplace_back();
      for (const float value : of_node(node, step).before) values.push_back(rounded_to(dtype_, value));
    }
    return round;
  }
  // What a node is sent of it, and with which weight.
  [[nodiscard]] Doubles coming_to(int node) const {
    Doubles shares = under_way_->mixing[static_cast<std::size_t>(node)];
    shares[static_cast<std::size_t>(node)] = 0;
    return mixed(shares,
                 [&](int from) -> const auto& { return under_way_->parameters[static_cast<std::size_t>(from)]; });
  }
  [[nodiscard]] double weight_coming_to(int node) const {
    Doubles shares = under_way_->mixing[static_cast<std::size_t>(node)];
    shares[static_cast<std::size_t>(node)] = 0;
    return weight_of(under_way_->step, shares);
  }
  // Before the forward a node keeps its share, unless a round is under way; after the backward, `lag` steps later,
  // it gets the others'. The optimizer changes what comes of it.
  void judge_overlap(int step, const DueAveraging& due) {
    const bool hands_over = due.gossip && !under_way_;
    if (hands_over) under_way_ = handed_over(step);
    const bool collects = due.gossip && step - under_way_->step >= settings_.overlap_lag;
    kept_.clear();
    weights_after_.clear();
    for (int node = 0; node < nodes_; ++node) {
      const auto self = static_cast<std::size_t>(node);
      const double kept = kept_.emplace_back(hands_over ? under_way_->mixing[self][self] : 1);
      const std::vector<float>& before = of_node(node, step).before;
      Doubles expected(before.begin(), before.end());
      for (std::size_t i = 0; i < elements_ && hands_over; ++i)
        expected[i] -= (1 - kept) * under_way_->parameters[self][i];
      weights_after_.push_back(kept * of_node(node, step).weight_before + (collects ? weight_coming_to(node) : 0));
      if (collects) add(coming_to(node), expected);
      for (int member = 0; member < settings_.ranks_per_node; ++member) {
        const int rank = node * settings_.ranks_per_node + member;
        const AveragedStep& own = at(rank, step);
        within(ids::kOverlap, step, rank, "the optimizer does not find what the node kept and what came", own.mixed,
               expected, [&](std::size_t i) { return overlap_bound(step, i); });
        if (has_halves()) judge_feedback(step, rank, own.before, own.mixed, kept);
      }
    }
    if (collects) under_way_.reset();
  }
  static void add(const Doubles& values, Doubles& sum) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  // Of what a node has before a step, and of the round that is under way.
  [[nodiscard]] double overlap_bound(int step, std::size_t i) const {
    const double largest = largest_before(step, i);
    return mixing_bound(under_way_ ? std::max(largest, largest_before(under_way_->step, i)) : largest);
  }
  // A checkpoint after the step before waited for what was under way, which is added.
  void judge_start_after_checkpoint(int step) {
    for (int rank = 0; rank < world_; ++rank) {
      const int node = rank / settings_.ranks_per_node;
      const AveragedStep& last = at(rank, step - 1);
      Doubles expected(last.after.begin(), last.after.end());
      add(coming_to(node), expected);
      within(ids::kCheckpoints, step, rank, "the checkpoint did not add what was under way", at(rank, step).before,
             expected, [&](std::size_t i) { return overlap_bound(step, i); });
      if (has_halves()) judge_feedback(step, rank, last.after, at(rank, step).before, 1);
      judge_weight_before(ids::kCheckpoints, step, rank, last.weight + weight_coming_to(node), 1e-6);
    }
    under_way_.reset();
  }
  [[nodiscard]] double largest_before(int step, std::size_t i) const {
    double largest = 0;
    for (int rank = 0; rank < world_; ++rank)
      largest = std::max(largest, std::fabs(static_cast<double>(at(rank, step).before[i])));
    return largest;
  }
  void judge_after_overlap(int step) {
    for (int rank = 0; rank < world_; ++rank)
      bits(ids::kOverlap, step, rank, "values changed after the optimizer's step, beside which gossip is over",
           at(rank, step).after, at(rank, step).updated);
    for (int node = 0; node < nodes_; ++node) judge_weight(step, node, weights_after_[static_cast<std::size_t>(node)]);
  }

  [[nodiscard]] double weight_of(int step, const Doubles& shares) const {
    double weight = 0;
    for (int from = 0; from < nodes_; ++from)
      weight += shares[static_cast<std::size_t>(from)] * of_node(from, step).weight_before;
    return weight;
  }
  void judge_weight(int step, int node, double expected, const std::vector<OtherShares>& others = {}) {
    judgement_.judged.insert(id_of(ids::kGossip));
    const auto is_near = [](double got, double value) { return std::fabs(got - value) <= 1e-6 * value; };
    for (int member = 0; member < settings_.ranks_per_node; ++member) {
      const int rank = node * settings_.ranks_per_node + member;
      const double got = at(rank, step).weight;
      if (is_near(got, expected)) continue;
      Finding& finding = judgement_.findings.emplace_back(
          Finding{.requirement = id_of(ids::kGossip),
                  .step = step,
                  .rank = rank,
                  .parameter = "",
                  .what = fmt::format("the push-sum weight is {}, the shares come to {}", got, expected)});
      for (const OtherShares& other : others)
        if (const double by_other = weight_of(step, other.shares); is_near(got, by_other))
          finding.hypotheses.push_back(fmt::format("{}: {:.6g}", other.words, by_other));
    }
  }

  // ---- slow momentum ----

  void judge_slow(int step, const DueAveraging& due, const Matrix& mixing) {
    ++slow_steps_;
    for (int node = 0; node < nodes_; ++node) {
      const Doubles& shares = mixing[static_cast<std::size_t>(node)];
      const double weight = due.slow_averages || !calendar_.gossips() ? 1
                            : overlaps_                               ? weights_after_[static_cast<std::size_t>(node)]
                                                                      : weight_of(step, shares);
      if (calendar_.gossips()) judge_weight(step, node, weight);
      Doubles reached = due.slow_averages
                            ? mean_of_ranks(step)
                            : mixed(shares, [&](int from) -> const auto& { return of_node(from, step).updated; });
      for (double& value : reached) value /= weight;
      Slow& slow = slow_[static_cast<std::size_t>(node)];
      const Doubles momentum = slow.momentum;
      const Doubles expected = slow_step(slow, reached, rate(step));
      // Gossip of 16 bits is in what was reached: a round in this step, or one that was under way.
      if (has_halves() && (due.slow_averages ? under_way_.has_value() : due.gossip && !overlaps_))
        loosen(slow, step, weight);
      for (int member = 0; member < settings_.ranks_per_node; ++member) {
        const int rank = node * settings_.ranks_per_node + member;
        const std::size_t known = judgement_.findings.size();
        judge_slow_values(step, rank, slow, expected, weight);
        if (judgement_.findings.size() > known && weight == 1)
          explain(known, at(rank, step).after, slow.old, expected,
                  other_slow_steps(slow, momentum, reached, at(rank, step).updated, rate(step)));
      }
      // Where the next round starts is what was recorded.
      const std::vector<float> estimate = estimate_of(of_node(node, step));
      slow.old.assign(estimate.begin(), estimate.end());
    }
    if (due.slow_averages) under_way_.reset();
  }
  // Of all ranks, not nodes: with gradients averaged in a node it is the same.
  [[nodiscard]] Doubles mean_of_ranks(int step) const {
    Doubles mean(elements_);
    for (int rank = 0; rank < world_; ++rank)
      for (std::size_t i = 0; i < elements_; ++i) mean[i] += at(rank, step).updated[i];
    for (double& value : mean) value /= world_;
    for (int node = 0; node < nodes_ && under_way_; ++node) {  // what is under way is added first
      const Doubles coming = coming_to(node);
      for (std::size_t i = 0; i < elements_; ++i) mean[i] += coming[i] / nodes_;
    }
    return mean;
  }
  void loosen(Slow& slow, int step, double weight) const {
    for (std::size_t i = 0; i < elements_; ++i) {
      const double largest = std::max(largest_at(step, i), largest_before(under_way_ ? under_way_->step : step, i));
      slow.slack[i] += mixing_bound(largest) / (weight * rate(step));
    }
  }
  [[nodiscard]] Doubles slow_step(Slow& slow, const Doubles& reached, double rate) const {
    Doubles moved(elements_);
    const bool nesterov = settings_.algorithm == "diloco";
    for (std::size_t i = 0; i < elements_; ++i) {
      const double gradient = slow.old[i] - reached[i];
      double& u = slow.momentum[i];
      if (nesterov) {
        u = settings_.outer_momentum * u + gradient;
        slow.largest[i] = std::fabs(settings_.outer_momentum) * slow.largest[i] + std::fabs(gradient);
        moved[i] = slow.old[i] - settings_.outer_learning_rate * (gradient + settings_.outer_momentum * u);
      } else {
        u = settings_.slow_momentum * u + gradient / rate;
        slow.slack[i] *= std::fabs(settings_.slow_momentum);
        slow.largest[i] = std::fabs(settings_.slow_momentum) * slow.largest[i] + std::fabs(gradient) / rate;
        moved[i] = slow.old[i] - settings_.slow_learning_rate * rate * u;
      }
    }
    return moved;
  }
  // What faults that programs have had make of a slow step; `momentum` is that of the rounds before.
  [[nodiscard]] Rules other_slow_steps(const Slow& slow, const Doubles& momentum, const Doubles& reached,
                                       const std::vector<float>& own, double rate) const {
    const bool nesterov = settings_.algorithm == "diloco";
    const double m = nesterov ? settings_.outer_momentum : settings_.slow_momentum;
    const double lr = nesterov ? settings_.outer_learning_rate : settings_.slow_learning_rate;
    const double scale = nesterov ? 1 : rate;  // SlowMo divides differences by the rate, and multiplies by it again
    Rules rules;
    const auto add = [&](const char* name, const std::function<double(double old, double g, double v)>& value) {
      Doubles& values = rules.emplace_back(name, Doubles(elements_)).second;
      for (std::size_t i = 0; i < elements_; ++i)
        values[i] = value(slow.old[i], (slow.old[i] - reached[i]) / scale, momentum[i]);
    };
    const auto change = [m, nesterov](double g, double v) { return nesterov ? g + m * (m * v + g) : m * v + g; };
    add("without the momentum of the rounds before",
        [&](double old, double g, double) { return old - lr * scale * change(g, 0); });
    add("the outer learning rate left out", [&](double old, double g, double v) { return old - scale * change(g, v); });
    add("the difference of the round with the opposite sign",
        [&](double old, double g, double v) { return old + lr * scale * change(g, v); });
    add("the mean that the ranks reached, without an outer step",
        [&](double old, double g, double) { return old - scale * g; });
    if (nesterov)
      add("heavy-ball momentum in place of Nesterov's",
          [&](double old, double g, double v) { return old - lr * (m * v + g); });
    else
      add("the difference of the round not divided by the learning rate",
          [&](double old, double g, double v) { return old - lr * scale * scale * (m * v + g); });
    rules.emplace_back("the rank's own values, without an average or an outer step", Doubles(own.begin(), own.end()));
    return rules;
  }

  void judge_slow_values(int step, int rank, const Slow& slow, const Doubles& expected, double weight) {
    const bool nesterov = settings_.algorithm == "diloco";
    const double factor = nesterov ? 2 * settings_.outer_learning_rate : settings_.slow_learning_rate * rate(step);
    Doubles numerators = expected;
    for (double& value : numerators) value *= weight;
    within(ids::kSlowStep, step, rank, "an outer step (slow step) was due, and the value is not the paper's",
           at(rank, step).after, numerators, [&](std::size_t i) {
             const double terms = std::fabs(slow.old[i]) + largest_at(step, i) * (1 + std::fabs(factor)) +
                                  std::fabs(factor) * slow.largest[i];
             return 16 * (slow_steps_ + world_) * (unit_roundoff(comm::DType::f32) * terms + kSmallestFloat) +
                    weight * std::fabs(factor) * slow.slack[i];
           });
  }

  // ---- all ranks together ----

  void summarise(int step, const Matrix& mixing) {
    AveragingSummary summary;
    std::vector<std::vector<float>> estimates;
    for (int rank = 0; rank < world_; ++rank) {
      summary.loss += at(rank, step).loss / world_;
      estimates.push_back(estimate_of(at(rank, step)));
    }
    summary.distance = training::consensus_distance(estimates);
    knows_distance_ = knows_distance_ && !overlaps_ && is_doubly_stochastic(mixing) && !has_halves();
    if (knows_distance_) judge_distance(step, mixing, summary);
    judgement_.steps.push_back(summary);
  }
  // Of the nodes' values: all of them, which no one of them exceeds.
  void judge_distance(int step, const Matrix& mixing, AveragingSummary& summary) {
    const auto deviation = [&](const auto& value_of) {
      double squares = 0;
      for (std::size_t i = 0; i < elements_; ++i) {
        double mean = 0;
        for (int node = 0; node < nodes_; ++node) mean += value_of(of_node(node, step), i) / nodes_;
        for (int node = 0; node < nodes_; ++node) squares += std::pow(value_of(of_node(node, step), i) - mean, 2);
      }
      return std::sqrt(squares);
    };
    const double own = deviation([](const AveragedStep& one, std::size_t i) {
      return static_cast<double>(one.updated[i]) - static_cast<double>(one.before[i]);
    });
    const double got =
        deviation([](const AveragedStep& one, std::size_t i) { return static_cast<double>(one.after[i]); });
    double size = 0;
    for (const float value : at(0, step).after) size += static_cast<double>(value) * value;
    rounding_ += (world_ + 4) * unit_roundoff(comm::DType::f32) * std::sqrt(size * nodes_);
    summary.distance_bound = bound_.step(own, mixing) * (1 + 1e-9) + rounding_;
    judgement_.judged.insert(id_of(ids::kDistance));
    if (got <= summary.distance_bound) return;
    judgement_.findings.push_back(
        {.requirement = id_of(ids::kDistance),
         .step = step,
         .parameter = "",
         .what = fmt::format(
             "the nodes are {:.6g} from their mean, and what they did since they were mixed comes to {:.6g}", got,
             summary.distance_bound)});
  }

  const job::RunSpec& spec_;
  const AveragingSettings& settings_;
  const AveragedRanks& ranks_;
  training::Training& training_;
  bool rank_order_;
  const std::function<void(int step)>& told_;
  std::vector<job::Parameter> list_;
  int world_, nodes_;
  comm::DType dtype_;
  AveragingCalendar calendar_;
  DistanceBound bound_;
  bool overlaps_;
  std::optional<UnderWay> under_way_;
  Doubles kept_;                // by node, the share that stays where gossip overlaps, and
  Doubles weights_after_;       // its weight after that
  std::size_t statistics_ = 0;  // running ones of the model
  std::size_t elements_ = 0;
  std::vector<float> start_;
  std::vector<std::vector<CarriedOptimizer>> optimizers_;  // [rank][parameter]
  std::vector<std::vector<CarriedOptimizer>> at_round_;    // the same before a round's first step; empty in others
  std::vector<Slow> slow_;                                 // by node
  int rounds_ = 0, slow_steps_ = 0;
  bool knows_distance_ = true;
  double rounding_ = 0;
  AveragingJudgement judgement_;
};

}  // namespace

std::vector<float> estimate_of(const AveragedStep& step) {
  std::vector<float> estimate = step.after;
  for (float& value : estimate) value = static_cast<float>(value / step.weight);
  return estimate;
}

training::Values values_by_parameter(const job::RunSpec& spec, const std::vector<float>& flat) {
  training::Values values;
  auto from = flat.begin();
  for (const job::Parameter& parameter : job::parameters_of(spec)) {
    const auto count = static_cast<std::ptrdiff_t>(job::elements_of(parameter.shape));
    values[parameter.name].assign(from, from + count);
    from += count;
  }
  return values;
}

AveragingJudgement judge_averaging(const job::RunSpec& spec, const AveragingSettings& settings,
                                   const AveragedRanks& ranks, training::Training& training, bool rank_order,
                                   const std::function<void(int step)>& told) {
  return Judge(spec, settings, ranks, training, rank_order, told).run();
}

}  // namespace plumbline::conformance
