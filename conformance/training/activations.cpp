#include "conformance/training/activations.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "conformance/training/attention_faults.hpp"
#include "conformance/training/bounds.hpp"
#include "conformance/training/causes.hpp"
#include "conformance/training/compare.hpp"
#include "conformance/training/single_device.hpp"
#include "harness/suite/requirement.hpp"
#include "reference/record/layout.hpp"

namespace plumbline::conformance {

using job::Direction;
using job::Shape;
using training::Arithmetic;
using training::LayerActivation;
using training::SliceActivations;

namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

const std::vector<double>& in_direction(const LayerActivation& layer, Direction direction) {
  return direction == Direction::forward ? layer.output : layer.gradient;
}

// A part of a row-major tensor along a dimension.
struct Part {
  std::size_t dim = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// All of it, without a part.
std::vector<double> part_of(const std::vector<double>& whole, const Shape& shape, const std::optional<Part>& part) {
  if (!part) return whole;
  const std::int64_t along = shape[part->dim];
  const auto after = shape.begin() + static_cast<std::ptrdiff_t>(part->dim);
  const std::int64_t inner = job::elements_of({after + 1, shape.end()});
  std::vector<double> values;
  for (std::int64_t outer = 0; outer < job::elements_of({shape.begin(), after}); ++outer) {
    const auto first = whole.begin() + (outer * along + part->begin) * inner;
    values.insert(values.end(), first, first + part->size * inner);
  }
  return values;
}

// Along which dimension a layer's bias is added; nothing for one without.
std::optional<std::size_t> dimension_of_bias(const job::Layer& layer, const Shape& shape) {
  if (const auto* linear = std::get_if<job::Linear>(&layer); linear != nullptr && linear->bias) return shape.size() - 1;
  if (const auto* conv = std::get_if<job::Conv2d>(&layer); conv != nullptr && conv->bias) return 1;
  return std::nullopt;
}

std::vector<double> with_bias(std::vector<double> values, const Shape& shape, std::size_t dim,
                              const std::vector<float>& bias, double times) {
  const auto inner =
      static_cast<std::size_t>(job::elements_of({shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape.end()}));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += times * bias[i / inner % bias.size()];
  return values;
}

}  // namespace

// One step's judgement.
class ActivationJudge::Step {
 public:
  Step(const ActivationJudge& judge, const StepOfActivations& known)
      : judge_(judge),
        spec_(judge.spec_),
        known_(known),
        wide_(computed(Arithmetic::float64, {})),
        narrow_(computed(Arithmetic::float32, {})),
        unit_roundoff_(unit_roundoff(compute_dtype(spec_.run.dtype))) {
    if (known.scale) in_type_ = computed(Arithmetic::float32, known.scale);
  }

  std::vector<Finding> wrong() {
    const int layers = static_cast<int>(spec_.layers.size());
    for (const Direction direction : job::kDirections) {
      if (direction == Direction::backward && known_.skipped) break;
      for (int i = 0; i < layers; ++i)
        for (int micro_batch = 0; micro_batch < spec_.run.micro_batches * spec_.run.accumulation; ++micro_batch)
          judge({known_.step, direction, direction == Direction::forward ? i : layers - 1 - i, micro_batch});
    }
    return std::move(findings_);
  }
  std::vector<SliceActivations> take_expected() { return std::move(wide_); }

 private:
  // ---- what is expected ----

  // Of each data rank, at its own values: they are the same on all, unless replicas have parted.
  [[nodiscard]] std::vector<SliceActivations> computed(Arithmetic arithmetic, std::optional<double> scale) const {
    std::vector<SliceActivations> all(known_.before.size()), at_values;
    const training::Values* values = nullptr;
    for (std::size_t data = 0; data < all.size(); ++data) {
      const std::optional<training::Values>& own = known_.before[data];
      if (!own) continue;
      if (values == nullptr || *values != *own)
        at_values =
            judge_.training_.activations(spec_, slices_of(spec_, known_.step), *own, arithmetic, scale, judge_.device_);
      values = &*own;
      all[data] = at_values[data];
    }
    return all;
  }
  [[nodiscard]] static const std::vector<double>& at(const std::vector<SliceActivations>& all, std::size_t data,
                                                     const job::ActivationPlace& place) {
    const auto micro_batch = static_cast<std::size_t>(place.micro_batch), layer = static_cast<std::size_t>(place.layer);
    return in_direction(all[data][micro_batch][layer], place.direction);
  }
  [[nodiscard]] const Shape& shape_of(std::size_t data, const job::ActivationPlace& place) const {
    return wide_[data][static_cast<std::size_t>(place.micro_batch)][static_cast<std::size_t>(place.layer)].shape;
  }

  // ---- how far off it may be ----

  [[nodiscard]] double bound_of(std::size_t data, const job::ActivationPlace& place) const {
    const std::vector<double>& wide = at(wide_, data, place);
    double d = distance(at(narrow_, data, place), wide);
    if (!in_type_.empty()) d = std::max(d, distance(at(in_type_, data, place), wide));
    return bound_beside(d, largest_of(wide), unit_roundoff_);
  }
  [[nodiscard]] std::vector<double> bounds_of(std::size_t data, const job::ActivationPlace& place) const {
    std::vector<double> bounds(at(wide_, data, place).size(), bound_of(data, place));
    if (place.direction == Direction::forward || bounds.empty()) return bounds;
    const std::vector<bool> unsure = unsure_rows(data, place);
    const std::size_t a_row = bounds.size() / unsure.size();
    for (std::size_t i = 0; i < bounds.size(); ++i)
      if (unsure[i / a_row]) bounds[i] = kNoBound;
    return bounds;
  }
  // Rows whose gradient comes through a relu with an input that rounding can take to the other side of 0.
  [[nodiscard]] std::vector<bool> unsure_rows(std::size_t data, job::ActivationPlace place) const {
    std::vector<bool> unsure(static_cast<std::size_t>(shape_of(data, place).front()));
    const int first = place.layer;
    place.direction = Direction::forward;
    for (int layer = static_cast<int>(spec_.layers.size()) - 1; layer > first; --layer) {
      const job::Layer& kind = spec_.layers[static_cast<std::size_t>(layer)];
      place.layer = layer - 1;
      if (std::holds_alternative<job::Relu>(kind)) add_unsure(data, place, unsure);
      if (std::holds_alternative<job::BatchNorm2d>(kind) && std::ranges::count(unsure, true) > 0)
        unsure.assign(unsure.size(), true);
    }
    return unsure;
  }
  void add_unsure(std::size_t data, const job::ActivationPlace& input, std::vector<bool>& unsure) const {
    const std::vector<double>&wide = at(wide_, data, input), &narrow = at(narrow_, data, input);
    const double bound = bound_of(data, input);
    const std::size_t a_row = wide.size() / unsure.size();
    for (std::size_t i = 0; i < wide.size(); ++i)
      if (std::fabs(wide[i]) <= bound && (wide[i] != 0 || narrow[i] != 0)) unsure[i / a_row] = true;
  }

  // ---- what was recorded ----

  void judge(const job::ActivationPlace& place) {
    const std::vector<job::Activation> recorded = judge_.record_.activations(place);
    for (const job::Activation& one : recorded) {
      const job::Coordinates own = job::coordinates_of(spec_.parallel, one.rank);
      const auto data = static_cast<std::size_t>(own.data);
      const int holder = job::pipeline_rank_of_stage(spec_, job::stage_of_layer(spec_, place.layer));
      if (own.pipeline != holder || wide_[data].empty()) continue;  // the coverage, or that of `before`
      std::vector<const job::Activation*> group;
      for (const job::Activation& other : recorded) {
        const job::Coordinates at = job::coordinates_of(spec_.parallel, other.rank);
        if (at.pipeline == own.pipeline && at.data == own.data) group.push_back(&other);
      }
      judge_one(place, one, data, group);
    }
  }

  void judge_one(const job::ActivationPlace& place, const job::Activation& one, std::size_t data,
                 const std::vector<const job::Activation*>& group) {
    Finding finding{.requirement = std::string(suite::id_of_citation(training_requirements::kActivations)),
                    .step = place.step,
                    .rank = one.rank,
                    .parameter = job::name_of(place)};
    const Shape& shape = shape_of(data, place);
    std::optional<Part> part;
    if (const std::string problem = problem_of_form(one, shape, group, part); !problem.empty()) {
      finding.what = problem;
      findings_.push_back(std::move(finding));
      return;
    }
    finding.what = words_for(place);
    const std::vector<double> expected = part_of(at(wide_, data, place), shape, part);
    const std::vector<double> bounds = part_of(bounds_of(data, place), shape, part);
    const std::size_t known = findings_.size();
    Largest unused;
    compare_within(
        one.values, expected, [&](std::size_t i) { return bounds[i]; }, std::move(finding), findings_, unused);
    if (findings_.size() > known) findings_.back().hypotheses = hypotheses(place, one, data, part, group);
  }

  // Where it went wrong, if what came before is right.
  [[nodiscard]] std::string words_for(const job::ActivationPlace& place) const {
    const auto named = [&](int layer) {
      return fmt::format("layer {} ({})", layer, job::name_of(spec_.layers[static_cast<std::size_t>(layer)]));
    };
    if (place.direction == Direction::forward)
      return fmt::format("forward of {}, micro-batch {}: the output is not the single device's", named(place.layer),
                         place.micro_batch);
    const bool is_last = place.layer + 1 == static_cast<int>(spec_.layers.size());
    return fmt::format(
        "backward of {}, micro-batch {}: the gradient that it passes to layer {} is not the single device's",
        is_last ? "the loss" : named(place.layer + 1), place.micro_batch, place.layer);
  }
  [[nodiscard]] static std::string_view noun_of(Direction direction) {
    return direction == Direction::forward ? "output" : "gradient";
  }

  // What is wrong with the shape, or nothing and the part that it is.
  [[nodiscard]] static std::string problem_of_form(const job::Activation& one, const Shape& shape,
                                                   const std::vector<const job::Activation*>& group,
                                                   std::optional<Part>& part) {
    const auto dim = static_cast<std::size_t>(one.dim.value_or(0));
    Shape like = shape;
    if (one.dim && dim < shape.size() && one.shape.size() == shape.size()) like[dim] = one.shape[dim];
    if (one.shape != like || dim >= shape.size())
      return fmt::format("it is {}; it must be {}{}", job::text_of(one.shape),
                         one.dim ? fmt::format("a part along dimension {} of ", *one.dim) : "", job::text_of(shape));
    if (!one.dim) return "";
    part = Part{.dim = dim, .size = one.shape[dim]};
    std::int64_t all = 0;
    for (const job::Activation* other : group) {
      if (other->dim != one.dim || other->shape.size() != shape.size()) continue;
      if (other->rank < one.rank) part->begin += other->shape[dim];
      all += other->shape[dim];
    }
    if (all == shape[dim]) return "";
    return fmt::format("the tensor ranks' parts make {} of dimension {}; the whole is {}", all, dim,
                       job::text_of(shape));
  }

  // ---- what may have made it so ----

  // What should stand elsewhere, with words for the place.
  using Rules = std::vector<std::pair<std::string, std::vector<double>>>;

  [[nodiscard]] std::vector<std::string> hypotheses(const job::ActivationPlace& place, const job::Activation& one,
                                                    std::size_t data, const std::optional<Part>& part,
                                                    const std::vector<const job::Activation*>& group) const {
    const Shape& shape = shape_of(data, place);
    const std::vector<double> expected = part_of(at(wide_, data, place), shape, part);
    Rules rules = of_other_places(place, data, part);
    if (place.direction == Direction::forward) add_biases(place, data, part, rules);
    if (place.direction == Direction::forward) add_attentions(place, data, part, rules);
    if (!part && group.size() > 1) add_unsummed(place, one, data, group, rules);
    WrongGradient wrong{.got = one.values,
                        .expected = expected,
                        .slices = {},
                        .of_step_before = {},
                        .factors = factors_of_step(spec_),
                        .name = std::string(noun_of(place.direction))};
    if (spec_.run.micro_batches > 1 && spec_.run.accumulation > 1)
      wrong.factors.emplace_back("micro-batches of the step", spec_.run.micro_batches * spec_.run.accumulation);
    for (const auto& [words, values] : rules) wrong.by_other_rules.emplace_back(words, values);
    std::vector<std::string> found = hypotheses_of(wrong);
    if (found.empty()) add_factor(one.values, expected, noun_of(place.direction), found);
    return found;
  }

  [[nodiscard]] Rules of_other_places(const job::ActivationPlace& place, std::size_t data,
                                      const std::optional<Part>& part) const {
    Rules rules;
    const Shape& shape = shape_of(data, place);
    const std::string noun(noun_of(place.direction));
    const auto add = [&](std::string words, const std::vector<SliceActivations>& from, std::size_t rank,
                         const job::ActivationPlace& other) {
      if (from.size() <= rank || from[rank].empty()) return;
      const auto micro_batch = static_cast<std::size_t>(other.micro_batch),
                 layer = static_cast<std::size_t>(other.layer);
      const LayerActivation& there = from[rank][micro_batch][layer];
      if (there.shape == shape)
        rules.emplace_back(std::move(words), part_of(in_direction(there, place.direction), shape, part));
    };
    add(fmt::format("the {} of the step before", noun), judge_.of_step_before_, data, place);
    for (int other = 0; other < spec_.run.micro_batches * spec_.run.accumulation; ++other)
      if (other != place.micro_batch)
        add(fmt::format("the {} for micro-batch {}", noun, other), wide_, data,
            {place.step, place.direction, place.layer, other});
    for (std::size_t other = 0; other < wide_.size(); ++other)
      if (other != data) add(fmt::format("the {} on data rank {}", noun, other), wide_, other, place);
    for (int other = 0; other < static_cast<int>(spec_.layers.size()); ++other)
      if (other != place.layer)
        add(place.direction == Direction::forward ? fmt::format("the output of layer {}", other)
                                                  : fmt::format("the gradient of layer {}'s output", other),
            wide_, data, {place.step, place.direction, other, place.micro_batch});
    return rules;
  }

  [[nodiscard]] std::optional<std::vector<float>> bias_of(const job::ActivationPlace& place, std::size_t data) const {
    const auto found = known_.before[data]->find(fmt::format("{}.bias", place.layer));
    return found == known_.before[data]->end() ? std::nullopt : std::optional(found->second);
  }

  void add_biases(const job::ActivationPlace& place, std::size_t data, const std::optional<Part>& part,
                  Rules& rules) const {
    const Shape& shape = shape_of(data, place);
    const auto dim = dimension_of_bias(spec_.layers[static_cast<std::size_t>(place.layer)], shape);
    if (!dim) return;
    for (const int times : std::set{0, 2, spec_.parallel.tensor}) {
      if (times == 1) continue;
      const std::string words =
          times == 0 ? "without the layer's bias" : fmt::format("with the layer's bias {} times", times);
      rules.emplace_back(
          fmt::format("the output {}", words),
          part_of(with_bias(at(wide_, data, place), shape, *dim, *bias_of(place, data), times - 1), shape, part));
    }
  }

  // Of an attention layer, what common faults make of its input.
  void add_attentions(const job::ActivationPlace& place, std::size_t data, const std::optional<Part>& part,
                      Rules& rules) const {
    const auto* attention = std::get_if<job::Attention>(&spec_.layers[static_cast<std::size_t>(place.layer)]);
    if (attention == nullptr || place.layer == 0) return;
    const job::ActivationPlace input{place.step, place.direction, place.layer - 1, place.micro_batch};
    for (auto& [words, output] : wrong_attentions(at(wide_, data, input), shape_of(data, input), attention->heads))
      rules.emplace_back(std::move(words), part_of(output, shape_of(data, place), part));
  }

  // Each tensor rank has its own share of the sum; the bias is added to each share, or to the sum.
  void add_unsummed(const job::ActivationPlace& place, const job::Activation& one, std::size_t data,
                    const std::vector<const job::Activation*>& group, Rules& rules) const {
    std::vector<double> rest = at(wide_, data, place);
    for (const job::Activation* other : group)
      for (std::size_t i = 0; other->rank != one.rank && i < std::min(rest.size(), other->values.size()); ++i)
        rest[i] -= static_cast<double>(other->values[i]);
    const std::string words = "not summed over the tensor ranks, whose values add up to the expected one";
    const Shape& shape = shape_of(data, place);
    const auto dim = dimension_of_bias(spec_.layers[static_cast<std::size_t>(place.layer)], shape);
    if (dim && place.direction == Direction::forward)
      rules.emplace_back(words + " but for the bias, which each adds",
                         with_bias(rest, shape, *dim, *bias_of(place, data), spec_.parallel.tensor - 1));
    rules.emplace_back(words, std::move(rest));
  }

  // Any factor.
  static void add_factor(const std::vector<float>& got, const std::vector<double>& expected, std::string_view noun,
                         std::vector<std::string>& found) {
    double both = 0, size = 0, off = 0, all = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      both += static_cast<double>(got[i]) * expected[i];
      size += expected[i] * expected[i];
    }
    if (size == 0 || !std::isfinite(both) || both == 0) return;
    const double ratio = both / size;
    for (std::size_t i = 0; i < got.size(); ++i) {
      off += std::pow(got[i] - ratio * expected[i], 2);
      all += std::pow(got[i], 2);
    }
    const double residual = std::sqrt(off / all);
    if (residual <= std::min(kResidual, std::fabs(1 - ratio) / 10))
      found.push_back(fmt::format("the expected {} times {:.4g}: residual {:.0e}", noun, ratio, residual));
  }

  const ActivationJudge& judge_;
  const job::RunSpec& spec_;
  const StepOfActivations& known_;
  // By data rank; empty where it is not known. In float64, in float32, and in the run's type if that is another.
  std::vector<SliceActivations> wide_, narrow_, in_type_;
  double unit_roundoff_;
  std::vector<Finding> findings_;
};

ActivationJudge::ActivationJudge(const job::RunSpec& spec, const job::TrainingRecord& record,
                                 training::Training& training, std::string device)
    : spec_(spec), record_(record), training_(training), device_(std::move(device)) {}

std::vector<Finding> ActivationJudge::wrong_in(const StepOfActivations& known) {
  Step step(*this, known);
  std::vector<Finding> findings = step.wrong();
  of_step_before_ = step.take_expected();
  return findings;
}

}  // namespace plumbline::conformance
