#include "conformance/scaler/oracles/dialects.hpp"

#include <algorithm>
#include <array>

namespace plumbline::scaler {

namespace {

LossScale with_hysteresis(const DialectSettings& settings, bool has_maximum) {
  return HysteresisScale{.rule = {.initial_scale = settings.scale,
                                  .min_scale = settings.min_scale,
                                  .growth_interval = settings.growth_interval,
                                  .hysteresis = settings.hysteresis,
                                  .max_scale = has_maximum ? settings.max_scale : std::nullopt}};
}

LossScale of_deepspeed(const DialectSettings& settings, bool is_consecutive) {
  return DeepSpeedScale{.rule = {.init_scale = settings.scale,
                                 .scale_window = settings.growth_interval,
                                 .min_scale = settings.min_scale,
                                 .delayed_shift = settings.hysteresis,
                                 .consecutive_hysteresis = is_consecutive,
                                 .raise_error_at_min_scale = settings.raise_at_minimum}};
}

std::int64_t chances_of(const LossScale& scale) {
  if (const auto* one = std::get_if<HysteresisScale>(&scale)) return one->hysteresis_tracker;
  if (const auto* one = std::get_if<DeepSpeedScale>(&scale)) return one->cur_hysteresis;
  return 0;
}

// Whether an overflow that left the scale as it was has cost a chance: those of Megatron-LM and ColossalAI go on
// falling when there are none.
bool has_spent(const LossScale& before, const LossScale& after) {
  if (chances_of(after) >= chances_of(before)) return false;
  return !std::holds_alternative<HysteresisScale>(after) || chances_of(after) > 0;
}

// Whether a clean step was the last of an interval, where that is counted.
bool ends_interval(const LossScale& after) {
  if (const auto* one = std::get_if<TorchScale>(&after)) return one->growth_tracker == 0;
  if (const auto* one = std::get_if<HysteresisScale>(&after)) return one->growth_tracker == 0;
  return false;
}

}  // namespace

std::vector<Dialect> dialects(const DialectSettings& settings) {
  std::vector<Dialect> all{
      {"torch", TorchScale{.rule = {.init_scale = settings.scale, .growth_interval = settings.growth_interval}}},
      {"colossalai-constant", ConstantScale{settings.scale}},
      {"colossalai", with_hysteresis(settings, true)},
      {"megatron", with_hysteresis(settings, false)},
      {"deepspeed", of_deepspeed(settings, false)},
      {"deepspeed-consecutive", of_deepspeed(settings, true)}};
  for (const Dialect& one : all) check(one.scale);
  return all;
}

std::vector<Dialect> dialects_as_published() {
  const HysteresisRule usual;
  HysteresisRule bounded = usual;
  bounded.max_scale = usual.initial_scale;
  DeepSpeedRule consecutive;
  consecutive.consecutive_hysteresis = true;
  return {{"torch", TorchScale{}},
          {"colossalai-constant", ConstantScale{usual.initial_scale}},
          {"colossalai", HysteresisScale{.rule = bounded}},
          {"megatron", HysteresisScale{.rule = usual}},
          {"deepspeed", DeepSpeedScale{}},
          {"deepspeed-consecutive", DeepSpeedScale{.rule = consecutive}}};
}

std::string_view name_of(Transition deed) {
  constexpr std::array<std::string_view, 9> names{
      "counts",          "grows",     "stays at its bound", "gets its chances back",
      "spends a chance", "backs off", "holds its minimum",  "gives up",
      "is constant"};
  return names[static_cast<std::size_t>(deed)];
}

Transition take(LossScale& scale, bool found_inf) {
  if (std::holds_alternative<ConstantScale>(scale)) return Transition::is_constant;
  const LossScale before = scale;
  try {
    update(scale, found_inf);
  } catch (const ScaleAtMinimum&) {
    return Transition::gives_up;
  }
  if (value_of(scale) != value_of(before)) return found_inf ? Transition::backs_off : Transition::grows;
  if (found_inf) return has_spent(before, scale) ? Transition::spends : Transition::holds;
  if (ends_interval(scale)) return Transition::stays;
  return chances_of(scale) > chances_of(before) ? Transition::refills : Transition::counts;
}

DialectRun run_through(Dialect dialect, const std::vector<bool>& found_inf) {
  DialectRun run{.name = std::move(dialect.name), .first_scale = value_of(dialect.scale), .scales = {}, .deeds = {}};
  for (const bool found : found_inf) {
    run.deeds.push_back(take(dialect.scale, found));
    run.scales.push_back(value_of(dialect.scale));
    if (run.deeds.back() == Transition::gives_up) break;
  }
  return run;
}

std::vector<Divergence> partings(const std::vector<DialectRun>& runs, const std::vector<bool>& found_inf) {
  std::vector<Divergence> all;
  std::int64_t clean = 0;
  for (std::size_t step = 0; step < found_inf.size(); ++step) {
    clean = found_inf[step] ? 0 : clean + 1;
    std::vector<Transition> deeds;
    for (const DialectRun& run : runs)
      if (step < run.deeds.size() && run.deeds[step] != Transition::is_constant) deeds.push_back(run.deeds[step]);
    if (std::ranges::adjacent_find(deeds, std::ranges::not_equal_to()) != deeds.end())
      all.push_back({.step = static_cast<std::int64_t>(step) + 1, .found_inf = found_inf[step], .clean_steps = clean});
  }
  return all;
}

}  // namespace plumbline::scaler
