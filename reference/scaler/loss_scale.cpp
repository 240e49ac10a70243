#include "reference/scaler/loss_scale.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace plumbline::scaler {
namespace {

void expect(bool is_right, std::string_view field, double value, std::string_view must) {
  if (!is_right) throw InvalidArgument(fmt::format("{} is {}; it must be {}", field, value, must));
}

void expect_scale(std::string_view field, double value) {
  expect(std::isfinite(value) && value > 0, field, value, "finite and above 0");
}

// Kept in 32 bits.
void expect_narrow_scale(std::string_view field, double value) {
  const auto narrow = static_cast<float>(value);
  expect(std::isfinite(narrow) && narrow > 0, field, value, "finite and above 0 in 32 bits");
}

template <class Float>
void expect_factors(double growth, double backoff) {
  const auto growth_kept = static_cast<Float>(growth), backoff_kept = static_cast<Float>(backoff);
  expect(std::isfinite(growth_kept) && growth_kept > 1, "growth_factor", growth, "finite and above 1 as it is kept");
  expect(backoff_kept > 0 && backoff_kept < 1, "backoff_factor", backoff, "above 0 and below 1 as it is kept");
}

void expect_count(std::string_view field, std::int64_t value) {
  if (value < 1) throw InvalidArgument(fmt::format("{} is {}; it must be at least 1", field, value));
}

}  // namespace

std::string_view kind_of(const LossScale& scale) {
  constexpr std::array<std::string_view, 4> names{"constant", "torch", "hysteresis", "deepspeed"};
  return names[scale.index()];
}

void check(const ConstantScale& scale) { expect_scale("initial_scale", scale.scale); }

void check(const TorchRule& rule) {
  expect_narrow_scale("init_scale", rule.init_scale);
  expect_factors<double>(rule.growth_factor, rule.backoff_factor);
  expect_count("growth_interval", rule.growth_interval);
}

void check_as_torch(const TorchRule& rule) {
  expect(rule.growth_factor > 1, "growth_factor", rule.growth_factor, "above 1");
  expect(rule.backoff_factor < 1, "backoff_factor", rule.backoff_factor, "below 1");
}

void check(const HysteresisRule& rule) {
  expect_narrow_scale("initial_scale", rule.initial_scale);
  expect_narrow_scale("min_scale", rule.min_scale);
  expect(rule.min_scale <= rule.initial_scale, "min_scale", rule.min_scale,
         fmt::format("at most initial_scale, {}", rule.initial_scale));
  expect_factors<float>(rule.growth_factor, rule.backoff_factor);
  expect_count("growth_interval", rule.growth_interval);
  expect_count("hysteresis", rule.hysteresis);
  if (!rule.max_scale) return;
  expect_narrow_scale("max_scale", *rule.max_scale);
  expect(*rule.max_scale > 1, "max_scale", *rule.max_scale, "above 1");
  expect(*rule.max_scale >= rule.initial_scale, "max_scale", *rule.max_scale,
         fmt::format("at least initial_scale, {}", rule.initial_scale));
}

void check(const DeepSpeedRule& rule) {
  expect_scale("init_scale", rule.init_scale);
  expect_scale("min_scale", rule.min_scale);
  expect(std::isfinite(rule.scale_factor) && rule.scale_factor > 1, "scale_factor", rule.scale_factor,
         "finite and above 1");
  expect_count("scale_window", rule.scale_window);
  expect_count("delayed_shift", rule.delayed_shift);
}

namespace {

void expect_steps(std::string_view field, std::int64_t value) {
  if (value < 0) throw InvalidArgument(fmt::format("{} is {}; it cannot be below 0", field, value));
}

void check_state(const ConstantScale& scale) { check(scale); }
void check_state(const TorchScale& scale) {
  check(scale.rule);
  if (scale.scale != 0) expect_scale("scale", static_cast<double>(scale.scale));
  expect_steps("growth_tracker", scale.growth_tracker);
}
void check_state(const HysteresisScale& scale) {
  check(scale.rule);
  expect_scale("scale", static_cast<double>(scale.scale));
  expect_steps("growth_tracker", scale.growth_tracker);
}
void check_state(const DeepSpeedScale& scale) {
  check(scale.rule);
  expect_scale("scale", scale.scale);
  expect_steps("cur_iter", scale.cur_iter);
  expect_count("cur_hysteresis", scale.cur_hysteresis);
}

}  // namespace

void check(const LossScale& scale) {
  std::visit([](const auto& one) { check_state(one); }, scale);
}

void update(ConstantScale&, bool) {}

void update(TorchScale& scale, bool found_inf) {
  if (found_inf) {
    scale.scale = static_cast<float>(static_cast<double>(scale.scale) * scale.rule.backoff_factor);
    scale.growth_tracker = 0;
    return;
  }
  // Equal, not at least: an interval that was lowered to what the tracker has passed is never reached again.
  if (++scale.growth_tracker != scale.rule.growth_interval) return;
  const auto grown = static_cast<float>(static_cast<double>(scale.scale) * scale.rule.growth_factor);
  if (std::isfinite(grown)) scale.scale = grown;
  scale.growth_tracker = 0;
}

void update(HysteresisScale& scale, bool found_inf) {
  const HysteresisRule& rule = scale.rule;
  if (found_inf) {
    scale.growth_tracker = 0;
    if (--scale.hysteresis_tracker <= 0)
      scale.scale = std::max(scale.scale * static_cast<float>(rule.backoff_factor), static_cast<float>(rule.min_scale));
    return;
  }
  if (++scale.growth_tracker != rule.growth_interval) return;
  scale.growth_tracker = 0;
  scale.hysteresis_tracker = rule.hysteresis;
  if (!rule.max_scale || scale.scale < static_cast<float>(*rule.max_scale))
    scale.scale *= static_cast<float>(rule.growth_factor);
}

void update(DeepSpeedScale& scale, bool found_inf) {
  const DeepSpeedRule& rule = scale.rule;
  if (found_inf) {
    if (rule.delayed_shift == 1 || scale.cur_hysteresis == 1) {
      if (scale.scale == rule.min_scale && rule.raise_error_at_min_scale)
        throw ScaleAtMinimum(fmt::format("step {}: an overflow, and the scale is already its minimum, {}",
                                         scale.cur_iter, rule.min_scale));
      scale.scale = std::max(scale.scale / rule.scale_factor, rule.min_scale);
    } else {
      --scale.cur_hysteresis;
    }
    scale.last_overflow_iter = scale.cur_iter;
  } else {
    if (rule.consecutive_hysteresis) scale.cur_hysteresis = rule.delayed_shift;
    const std::int64_t clean = scale.cur_iter - scale.last_overflow_iter - 1;  // before this step
    if (clean > 0 && clean % rule.scale_window == 0) {
      scale.cur_hysteresis = rule.delayed_shift;
      scale.scale *= rule.scale_factor;
    }
  }
  ++scale.cur_iter;
}

void update(LossScale& scale, bool found_inf) {
  std::visit([found_inf](auto& one) { update(one, found_inf); }, scale);
}

double value_of(const LossScale& scale) {
  return std::visit([](const auto& one) { return static_cast<double>(one.scale); }, scale);
}

float inverse_of(double scale) { return static_cast<float>(1.0 / scale); }

}  // namespace plumbline::scaler
