// reference/scaler/loss_scale.hpp: by how much a loss is multiplied, and how that number follows overflows.
//
// Model   fp16 loses small gradients, so the loss is multiplied by a scale before the backward pass and the gradients
//         are divided by it afterwards. Each step either found a gradient that is not finite or was clean. A scale is a
//         plain value, a rule with its state: update() is the transition. Who finds, unscales and skips is not its
//         business.
// Rules   Torch       found: x backoff. The growth_interval-th clean step in a row: x growth, unless that is infinite.
//         Hysteresis  found: one of `hysteresis` chances is spent; when none is left, x backoff, at least min_scale.
//                     The growth_interval-th clean step in a row gives all chances back, and grows below max_scale. A
//                     clean step alone gives none back.
//         DeepSpeed   counts steps since the last overflow from -1 on: grows one clean step later than the others. The
//                     last chance is never spent: it backs off and stays. consecutive: every clean step gives the
//                     chances back.
//                     At min_scale it throws, unless told to hold.
// Numbers Torch and Hysteresis keep the scale in f32, DeepSpeed in f64. Torch multiplies in f64 and rounds once;
//         Hysteresis rounds the factor to f32 first.
// Sources torch 2.13 (_amp_update_scale_); Megatron-LM and ColossalAI (DynamicGradScaler); DeepSpeed 0.19
//         (DynamicLossScaler, FP16_Optimizer); Micikevicius et al., Mixed Precision Training, ICLR 2018.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "reference/comm/errors.hpp"

namespace plumbline::scaler {

/// An overflow at the smallest scale, where the rule says to give up. The scale is as it was.
class ScaleAtMinimum : public StateError {
 public:
  using StateError::StateError;
};

struct ConstantScale {
  double scale = 1;
  friend bool operator==(const ConstantScale&, const ConstantScale&) = default;
};

struct TorchRule {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  friend bool operator==(const TorchRule&, const TorchRule&) = default;
};
struct TorchScale {
  TorchRule rule{};
  float scale = static_cast<float>(rule.init_scale);
  std::int64_t growth_tracker = 0;  // clean steps in a row
  friend bool operator==(const TorchScale&, const TorchScale&) = default;
};

struct HysteresisRule {
  double initial_scale = 4294967296;
  double min_scale = 1;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 1000;
  std::int64_t hysteresis = 2;
  std::optional<double> max_scale{};  // a scale below it still grows, and may pass it once
  friend bool operator==(const HysteresisRule&, const HysteresisRule&) = default;
};
struct HysteresisScale {
  HysteresisRule rule{};
  float scale = static_cast<float>(rule.initial_scale);
  std::int64_t growth_tracker = 0;
  std::int64_t hysteresis_tracker = rule.hysteresis;  // chances left; continues to fall below 0
  friend bool operator==(const HysteresisScale&, const HysteresisScale&) = default;
};

struct DeepSpeedRule {
  double init_scale = 4294967296;
  double scale_factor = 2;
  std::int64_t scale_window = 1000;
  double min_scale = 1;
  std::int64_t delayed_shift = 1;  // chances; 1: the first overflow backs off
  bool consecutive_hysteresis = false;
  bool raise_error_at_min_scale = true;
  friend bool operator==(const DeepSpeedRule&, const DeepSpeedRule&) = default;
};
struct DeepSpeedScale {
  DeepSpeedRule rule{};
  double scale = rule.init_scale;
  std::int64_t cur_iter = 0;
  std::int64_t last_overflow_iter = -1;
  std::int64_t cur_hysteresis = rule.delayed_shift;
  friend bool operator==(const DeepSpeedScale&, const DeepSpeedScale&) = default;
};

using LossScale = std::variant<ConstantScale, TorchScale, HysteresisScale, DeepSpeedScale>;

/// "constant", "torch", "hysteresis", "deepspeed".
[[nodiscard]] std::string_view kind_of(const LossScale& scale);

// Each throws InvalidArgument, naming field and value, for a rule that makes no sense: a scale or minimum that is not
// finite and above 0, a growth factor not above 1, a backoff factor not between 0 and 1, an interval, window or number
// of chances below 1, and of hysteresis a minimum above the first scale, a maximum that is not finite, not above 1 or
// below the first scale. What is kept in f32 must be a finite number above 0 there, too.
// DeepSpeed takes such a minimum: the first overflow lifts the scale to it.
void check(const ConstantScale& scale);
void check(const TorchRule& rule);
void check(const HysteresisRule& rule);
void check(const DeepSpeedRule& rule);
/// The rule, and its state: a scale that is finite and not below 0 (PyTorch's may have fallen to 0, the others' not),
/// and counts of steps not below 0.
void check(const LossScale& scale);
/// PyTorch looks at two of them: growth above 1, backoff below 1.
void check_as_torch(const TorchRule& rule);

// The transition of a step. That of DeepSpeed throws ScaleAtMinimum, before anything changes.
void update(ConstantScale& scale, bool found_inf);
void update(TorchScale& scale, bool found_inf);
void update(HysteresisScale& scale, bool found_inf);
void update(DeepSpeedScale& scale, bool found_inf);
void update(LossScale& scale, bool found_inf);

[[nodiscard]] double value_of(const LossScale& scale);
/// What gradients are multiplied by: 1 / scale, computed in f64 and rounded once. Infinite for a scale below 2^-128.
[[nodiscard]] float inverse_of(double scale);

}  // namespace plumbline::scaler
