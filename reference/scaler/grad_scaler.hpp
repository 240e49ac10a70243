// reference/scaler/grad_scaler.hpp: PyTorch's GradScaler: one scale for several optimizers, unscaled once a step each.
//
// Model   scaled(loss); backward; for each optimizer unscale() where gradients are to be seen, and step(); update()
//         ends the step. An optimizer whose gradients had an infinity or NaN skips, the others do not; update() backs
//         off if any had.
//         Gradients that are changed after they were unscaled are not looked at again.
// Group   With `agree`, what an optimizer's ranks found is agreed on before it counts: it is called once per unscale(),
//         also on a rank that has no gradients.
// State   The scale exists from the first scaled() on. A disabled scaler multiplies by nothing, skips nothing, has no
//         state.
// Errors  InvalidArgument: factors, intervals, gradients in f16, a state of another kind. StateError: a call out of
//         order; nothing has changed then, but that a step() without gradients has tried to unscale.
// Sources torch 2.13, torch.amp.GradScaler; ColossalAI #94: agreement over the model group.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "reference/comm/call.hpp"
#include "reference/scaler/loss_scale.hpp"

namespace plumbline::scaler {

struct GradScalerOptions {
  TorchRule rule{};
  bool enabled = true;
  /// Accepts the rules and states that PyTorch accepts: it looks at little.
  bool as_torch = false;
  /// Makes a flag, above 0 where this rank found something, the group's.
  std::function<void(std::span<float> found_inf)> agree{};
};

/// What a checkpoint keeps. Nothing, of a disabled scaler.
struct GradScalerState {
  double scale = 0;
  double growth_factor = 0;
  double backoff_factor = 0;
  std::int64_t growth_interval = 0;
  std::int64_t growth_tracker = 0;
  friend bool operator==(const GradScalerState&, const GradScalerState&) = default;
};

class GradScaler {
 public:
  enum class Stage { ready, unscaled, stepped };
  /// Runs the optimizer's own step.
  using Apply = std::function<void()>;

  /// Throws InvalidArgument, unless disabled.
  explicit GradScaler(GradScalerOptions options = {});

  /// A value times the scale, which exists from now on.
  [[nodiscard]] float scaled(float loss);
  /// Gradients in place, divided by the scale. Throws StateError where they are already, or the optimizer has stepped.
  void unscale(int optimizer, std::span<const comm::Buffer> gradients);
  /// Unscales where that was not done, and calls `apply` unless something was found. Returns whether it did.
  bool step(int optimizer, std::span<const comm::Buffer> gradients, const Apply& apply);
  /// The next scale, from what all optimizers found. Throws StateError where none has looked.
  void update();
  /// The next scale as told. The count of clean steps stays.
  void update(double scale);

  [[nodiscard]] GradScalerState state() const;  // throws StateError when disabled
  /// Throws InvalidArgument.
  void load(const GradScalerState& state);

  [[nodiscard]] bool is_enabled() const { return options_.enabled; }
  [[nodiscard]] bool has_scale() const { return exists_; }
  /// The scale; before the first scaled(), the initial one as it was given.
  [[nodiscard]] double scale() const {
    if (!options_.enabled) return 1;
    return exists_ ? static_cast<double>(scale_.scale) : scale_.rule.init_scale;
  }
  [[nodiscard]] std::int64_t growth_tracker() const { return scale_.growth_tracker; }
  [[nodiscard]] Stage stage(int optimizer) const;
  /// What was found since the last update(), agreed on; nothing where no check was made.
  [[nodiscard]] std::optional<float> found_inf(int optimizer) const;
  void set_growth_factor(double factor) { set(&TorchRule::growth_factor, factor); }
  void set_backoff_factor(double factor) { set(&TorchRule::backoff_factor, factor); }
  void set_growth_interval(std::int64_t interval) { set(&TorchRule::growth_interval, interval); }

 private:
  struct Seen {
    Stage stage = Stage::ready;
    std::optional<float> found_inf{};
  };
  template <class Field, class Value>
  void set(Field field, Value value) {
    TorchRule rule = scale_.rule;
    rule.*field = value;
    if (!options_.as_torch) check(rule);
    scale_.rule = rule;
  }
  void expect_scale(std::string_view call) const;

  GradScalerOptions options_;
  TorchScale scale_;
  bool exists_ = false;
  std::map<int, Seen> seen_;  // by optimizer
};

/// "READY", "UNSCALED", "STEPPED".
[[nodiscard]] std::string_view name_of(GradScaler::Stage stage);

}  // namespace plumbline::scaler
