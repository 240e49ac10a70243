#include "reference/scaler/grad_scaler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reference/scaler/unscale.hpp"

namespace plumbline::scaler {

std::string_view name_of(GradScaler::Stage stage) {
  constexpr auto names = std::to_array<std::string_view>({"READY", "UNSCALED", "STEPPED"});
  return names[static_cast<std::size_t>(stage)];
}

GradScaler::GradScaler(GradScalerOptions options) : options_(std::move(options)), scale_{.rule = options_.rule} {
  if (!options_.enabled) return;
  if (options_.as_torch)
    check_as_torch(options_.rule);
  else
    check(options_.rule);
}

float GradScaler::scaled(float loss) {
  if (!options_.enabled) return loss;
  exists_ = true;
  return loss * scale_.scale;
}

void GradScaler::expect_scale(std::string_view call) const {
  if (!exists_) throw StateError(fmt::format("{}: there is no scale yet; a loss must be scaled first", call));
}

void GradScaler::unscale(int optimizer, std::span<const comm::Buffer> gradients) {
  if (!options_.enabled) return;
  expect_scale("unscale");
  const Stage stage = this->stage(optimizer);
  if (stage == Stage::unscaled)
    throw StateError(
        fmt::format("unscale: the gradients of optimizer {} are unscaled since the last update", optimizer));
  if (stage == Stage::stepped)
    throw StateError(fmt::format("unscale: optimizer {} has stepped since the last update", optimizer));
  std::vector<Unscaling> work;
  for (const comm::Buffer& gradient : gradients) {
    if (gradient.dtype == comm::DType::f16)
      throw InvalidArgument(fmt::format(
          "unscale: optimizer {} has gradients in f16, where small ones vanish when they are unscaled", optimizer));
    work.push_back({gradient, gradient});
  }
  std::array flag{scaler::unscale(work, inverse_of(static_cast<double>(scale_.scale))) ? 1.0F : 0.0F};
  Seen& seen = seen_[optimizer];
  if (options_.agree) options_.agree(flag);
  if (options_.agree || !gradients.empty()) seen.found_inf = flag.front();
  seen.stage = Stage::unscaled;
}

bool GradScaler::step(int optimizer, std::span<const comm::Buffer> gradients, const Apply& apply) {
  if (!options_.enabled) {
    apply();
    return true;
  }
  expect_scale("step");
  if (stage(optimizer) == Stage::stepped)
    throw StateError(fmt::format("step: optimizer {} has stepped since the last update", optimizer));
  if (stage(optimizer) == Stage::ready) unscale(optimizer, gradients);
  Seen& seen = seen_[optimizer];
  if (!seen.found_inf)
    throw StateError(fmt::format("step: optimizer {} has no gradients that could be looked at", optimizer));
  const bool applies = *seen.found_inf == 0;
  if (applies) apply();
  seen.stage = Stage::stepped;
  return applies;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  expect_scale("update");
  const auto has_looked = [](const auto& entry) { return entry.second.found_inf.has_value(); };
  if (std::ranges::none_of(seen_, has_looked))
    throw StateError("update: no optimizer's gradients were unscaled since the last update");
  const auto found_something = [](const auto& entry) { return entry.second.found_inf.value_or(0) > 0; };
  scaler::update(scale_, std::ranges::any_of(seen_, found_something));
  seen_.clear();
}

void GradScaler::update(double scale) {
  if (!options_.enabled) return;
  expect_scale("update");
  const auto narrow = static_cast<float>(scale);
  if (!options_.as_torch && !(std::isfinite(narrow) && narrow > 0))
    throw InvalidArgument(fmt::format("update: the new scale is {}; it must be finite and above 0", scale));
  scale_.scale = narrow;
  seen_.clear();
}

GradScalerState GradScaler::state() const {
  if (!options_.enabled) throw StateError("state: the scaler is disabled and has none");
  return {.scale = scale(),
          .growth_factor = scale_.rule.growth_factor,
          .backoff_factor = scale_.rule.backoff_factor,
          .growth_interval = scale_.rule.growth_interval,
          .growth_tracker = scale_.growth_tracker};
}

void GradScaler::load(const GradScalerState& state) {
  if (!options_.enabled) return;
  TorchRule rule{.init_scale = state.scale,
                 .growth_factor = state.growth_factor,
                 .backoff_factor = state.backoff_factor,
                 .growth_interval = state.growth_interval};
  if (!options_.as_torch) {
    // Nothing keeps this rule's scale above 0: one that has fallen so far is a state as well.
    TorchRule checked = rule;
    if (state.scale == 0) checked.init_scale = 1;
    check(checked);
    if (state.growth_tracker < 0)
      throw InvalidArgument(fmt::format("load: growth_tracker is {}; it cannot be below 0", state.growth_tracker));
  }
  scale_ = {.rule = rule, .growth_tracker = state.growth_tracker};
}

GradScaler::Stage GradScaler::stage(int optimizer) const {
  const auto found = seen_.find(optimizer);
  return found == seen_.end() ? Stage::ready : found->second.stage;
}

std::optional<float> GradScaler::found_inf(int optimizer) const {
  const auto found = seen_.find(optimizer);
  return found == seen_.end() ? std::nullopt : found->second.found_inf;
}

}  // namespace plumbline::scaler
