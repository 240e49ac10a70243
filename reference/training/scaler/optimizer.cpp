#include "reference/training/scaler/optimizer.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/scaler/grad_scaler.hpp"
#include "reference/training/detail/added_type.hpp"

namespace plumbline::training {
namespace {

// Memory of floats in a leaf's shape and order.
at::Tensor view_like(const at::Tensor& leaf, std::span<const float> memory) {
  return at::from_blob(const_cast<float*>(memory.data()), leaf.sizes(), leaf.strides(), at::TensorOptions(at::kFloat));
}

std::vector<float> floats_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const auto* first = static_cast<const float*>(tensor.const_data_ptr());
  return {first, first + tensor.numel()};
}

// The number of steps, then both moments of each parameter.
class InnerState {
 public:
  InnerState(const job::Optimizer& rule, std::vector<at::Tensor> like)
      : like_(std::move(like)), state_(rule, like_.size()) {}

  void step(std::span<const scaler::Master> master_weights) {
    const c10::AutoGradMode without_gradients(false);
    std::vector<at::Tensor> values, gradients;
    for (std::size_t i = 0; i < master_weights.size(); ++i) {
      values.push_back(view_like(like_[i], master_weights[i].values));
      gradients.push_back(master_weights[i].gradient.empty() ? at::Tensor()
                                                             : view_like(like_[i], master_weights[i].gradient));
    }
    state_.step(values, gradients);
  }
  [[nodiscard]] scaler::InnerOptimizer::State state() const {
    scaler::InnerOptimizer::State state{{static_cast<float>(state_.steps())}};
    for (const OptimizerState::Moments& moments : state_.moments()) {
      state.push_back(floats_of(moments.first));
      state.push_back(floats_of(moments.second));
    }
    return state;
  }
  void load(const scaler::InnerOptimizer::State& state) {
    std::vector<OptimizerState::Moments> moments(like_.size());
    if (state.empty()) return state_.restore(0, std::move(moments));
    if (state.size() != 2 * like_.size() + 1 || state.front().size() != 1)
      throw InvalidArgument(fmt::format("the state has {} parts; that of {} parameters has {}", state.size(),
                                        like_.size(), 2 * like_.size() + 1));
    for (std::size_t i = 0; i < like_.size(); ++i) {
      moments[i].first = moment(state[2 * i + 1], i);
      moments[i].second = moment(state[2 * i + 2], i);
    }
    state_.restore(static_cast<int>(state.front().front()), std::move(moments));
  }

 private:
  [[nodiscard]] at::Tensor moment(const std::vector<float>& values, std::size_t i) const {
    if (values.empty()) return {};
    if (static_cast<std::int64_t>(values.size()) != like_[i].numel())
      throw InvalidArgument(fmt::format("a moment has {} elements, its parameter {}", values.size(), like_[i].numel()));
    return view_like(like_[i], values).clone();
  }

  std::vector<at::Tensor> like_;
  OptimizerState state_;
};

void check(const ScaledLeaf& leaf) {
  if (!leaf.leaf.is_non_overlapping_and_dense())
    throw InvalidArgument(fmt::format("leaf '{}' has gaps in memory", leaf.name));
}

scaler::ModelParameter model_parameter(const ScaledLeaf& leaf, const at::Tensor& host) {
  return {.name = leaf.name, .values = buffer_of(host), .replicated = leaf.replicated, .tied_copy = leaf.tied_copy};
}

// Gradients on the host, each in its leaf's order.
class HostGradients {
 public:
  [[nodiscard]] std::vector<comm::Buffer> of(std::span<const at::Tensor> gradients,
                                             const std::vector<at::Tensor>& like) {
    std::vector<comm::Buffer> buffers;
    kept_.clear();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) {
        buffers.emplace_back();
        continue;
      }
      const bool lies_so = gradients[i].is_cpu() && gradients[i].strides() == like[i].strides();
      kept_.push_back(lies_so ? gradients[i] : at::empty_like(like[i], gradients[i].scalar_type()).copy_(gradients[i]));
      buffers.push_back(buffer_of(kept_.back()));
    }
    return buffers;
  }

 private:
  std::vector<at::Tensor> kept_;
};

class RoundedOptimizer final : public ScaledOptimizer {
 public:
  RoundedOptimizer(std::vector<ScaledLeaf> leaves, std::span<const at::Tensor> values, const job::Optimizer& rule,
                   const Scaling& scaling)
      : leaves_(std::move(leaves)) {
    const c10::AutoGradMode without_gradients(false);
    std::vector<scaler::ModelParameter> parameters;
    for (const ScaledLeaf& one : leaves_) {
      check(one);
      if (!added_type_of(one.leaf.scalar_type()))
        throw InvalidArgument(fmt::format("leaf '{}' is of {}; it must be f16, bf16 or f32", one.name,
                                          c10::toString(one.leaf.scalar_type())));
      host_.push_back(one.leaf.detach().cpu());
      parameters.push_back(model_parameter(one, host_.back()));
    }
    optimizer_.emplace(std::move(parameters), inner_optimizer(rule, host_), scaling.options, scaling.groups);
    if (!values.empty()) start_from(values);
  }

  double scale() const override { return optimizer_->scale(); }
  scaler::StepOutcome step(std::span<const at::Tensor> gradients) override {
    const c10::AutoGradMode without_gradients(false);
    HostGradients host;
    const scaler::StepOutcome outcome = optimizer_->step(host.of(gradients, host_));
    if (outcome.stepped) copy_to_leaves();
    return outcome;
  }
  std::vector<at::Tensor> values() const override {
    return views([this](std::size_t i) { return optimizer_->master(i); });
  }
  std::vector<at::Tensor> gradients() const override {
    return views([this](std::size_t i) { return optimizer_->master_gradient(i); });
  }
  void zero_grad() override {
    const c10::AutoGradMode without_gradients(false);
    optimizer_->zero_grad({});
    for (const ScaledLeaf& one : leaves_)
      if (one.leaf.grad().defined()) one.leaf.grad().zero_();
  }
  scaler::Fp16State state() const override { return optimizer_->state(); }
  void load(const scaler::Fp16State& state) override {
    optimizer_->load(state);
    copy_to_leaves();
  }

 private:
  void start_from(std::span<const at::Tensor> values) {
    scaler::Fp16State state{.scale = optimizer_->loss_scale(), .master_weights = {}, .inner = {}};
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      state.master_weights.push_back(floats_of(at::empty_like(host_[i], at::kFloat).copy_(values[i])));
    load(state);
  }
  // Where they lie on the host they are what the optimizer has written to.
  void copy_to_leaves() {
    const c10::AutoGradMode without_gradients(false);
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (!leaves_[i].leaf.is_cpu()) leaves_[i].leaf.detach().copy_(host_[i]);
  }
  template <class Memory>
  [[nodiscard]] std::vector<at::Tensor> views(const Memory& memory) const {
    std::vector<at::Tensor> all;
    for (std::size_t i = 0; i < leaves_.size(); ++i) all.push_back(view_like(host_[i], memory(i)));
    return all;
  }

  std::vector<ScaledLeaf> leaves_;
  std::vector<at::Tensor> host_;  // of the leaves' values; on the host the same memory
  std::optional<scaler::Fp16Optimizer> optimizer_;
};

scaler::GradScalerOptions grad_scaler_of(const scaler::LossScale& scale, bool is_on) {
  if (const auto* constant = std::get_if<scaler::ConstantScale>(&scale))
    return {.rule = {.init_scale = constant->scale}, .enabled = is_on};
  if (const auto* torch = std::get_if<scaler::TorchScale>(&scale)) return {.rule = torch->rule, .enabled = is_on};
  throw Unsupported(fmt::format("autocast with a {} scale; it has torch's or a constant", scaler::kind_of(scale)));
}

class AutocastOptimizer final : public ScaledOptimizer {
 public:
  AutocastOptimizer(const std::vector<ScaledLeaf>& leaves, const job::Optimizer& rule, const Scaling& scaling)
      : scaling_(scaling), is_constant_(std::holds_alternative<scaler::ConstantScale>(scaling.options.scale)) {
    scaler::expect_clipping(scaling.options.clip_norm, scaling.options.norm_type);
    for (const ScaledLeaf& one : leaves) {
      check(one);
      if (one.leaf.scalar_type() != at::kFloat)
        throw InvalidArgument(fmt::format("leaf '{}' is of {}; under autocast it must be f32", one.name,
                                          c10::toString(one.leaf.scalar_type())));
      leaves_.push_back(one.leaf);
      host_.push_back(one.leaf.detach().cpu());
      parameters_.push_back(model_parameter(one, host_.back()));
    }
    inner_.emplace(inner_optimizer(rule, host_));
    scaler::GradScalerOptions settings = grad_scaler_of(scaling.options.scale, scaling.options.skips_overflows);
    settings.agree = [this](std::span<float> found) { agree(found); };
    scaler_.emplace(std::move(settings));
    if (scaling.options.skips_overflows) (void)scaler_->scaled(0);  // the scale exists from here on
  }

  double scale() const override { return scaler_->scale(); }
  scaler::StepOutcome step(std::span<const at::Tensor> gradients) override {
    const c10::AutoGradMode without_gradients(false);
    scaler::StepOutcome outcome{.scale = scale()};
    unscaled_.clear();
    std::vector<comm::Buffer> found_in;
    for (std::size_t i = 0; i < host_.size(); ++i) {
      unscaled_.push_back(gradients[i].defined() ? at::empty_like(host_[i]).copy_(gradients[i]) : at::Tensor());
      if (gradients[i].defined()) found_in.push_back(buffer_of(unscaled_.back()));
    }
    scaler_->unscale(kOnly, found_in);
    outcome.found_inf = scaler_->found_inf(kOnly).value_or(0) > 0;
    clip_over_model(parameters_, master_weights(), scaling_.options, scaling_.groups, outcome);
    outcome.stepped = scaler_->step(kOnly, found_in, [this] { inner_->step(master_weights()); });
    if (is_constant_)
      scaler_->update(outcome.scale);
    else
      scaler_->update();
    if (outcome.stepped) copy_to_leaves();
    return outcome;
  }
  std::vector<at::Tensor> values() const override { return host_; }
  std::vector<at::Tensor> gradients() const override {
    std::vector<at::Tensor> all;
    for (std::size_t i = 0; i < host_.size(); ++i) {
      const bool has_one = i < unscaled_.size() && unscaled_[i].defined();
      all.push_back(has_one ? unscaled_[i] : at::zeros_like(host_[i]));
    }
    return all;
  }
  void zero_grad() override {
    const c10::AutoGradMode without_gradients(false);
    unscaled_.clear();
    for (const at::Tensor& leaf : leaves_)
      if (leaf.grad().defined()) leaf.grad().zero_();
  }
  scaler::Fp16State state() const override {
    scaler::Fp16State state{.scale = scaling_.options.scale, .master_weights = {}, .inner = inner_->state()};
    if (auto* torch = std::get_if<scaler::TorchScale>(&state.scale)) {
      torch->scale = static_cast<float>(scaler_->scale());
      torch->growth_tracker = scaler_->growth_tracker();
    }
    for (const at::Tensor& value : host_) state.master_weights.push_back(floats_of(value));
    return state;
  }
  void load(const scaler::Fp16State& state) override {
    const c10::AutoGradMode without_gradients(false);
    if (state.scale.index() != scaling_.options.scale.index())
      throw InvalidArgument(fmt::format("the state has a {} scale, the optimizer a {} one",
                                        scaler::kind_of(state.scale), scaler::kind_of(scaling_.options.scale)));
    if (state.master_weights.size() != host_.size())
      throw InvalidArgument(
          fmt::format("the state has {} parameters, the optimizer {}", state.master_weights.size(), host_.size()));
    for (std::size_t i = 0; i < host_.size(); ++i)
      if (static_cast<std::int64_t>(state.master_weights[i].size()) != host_[i].numel())
        throw InvalidArgument(fmt::format("a parameter has {} elements, in the state {}", host_[i].numel(),
                                          state.master_weights[i].size()));
    inner_->load(state.inner);
    if (const auto* torch = std::get_if<scaler::TorchScale>(&state.scale))
      scaler_->load({.scale = static_cast<double>(torch->scale),
                     .growth_factor = torch->rule.growth_factor,
                     .backoff_factor = torch->rule.backoff_factor,
                     .growth_interval = torch->rule.growth_interval,
                     .growth_tracker = torch->growth_tracker});
    else
      scaler_->update(scaler::value_of(state.scale));
    for (std::size_t i = 0; i < host_.size(); ++i) host_[i].copy_(view_like(host_[i], state.master_weights[i]));
    copy_to_leaves();
  }

 private:
  static constexpr int kOnly = 0;  // the scaler knows several optimizers

  void agree(std::span<float> found) const {
    scaler::agree_on_found_inf(deciding_groups(scaling_.options.deciding, scaling_.groups), found,
                               scaling_.options.timeout);
  }
  [[nodiscard]] std::vector<scaler::Master> master_weights() {
    std::vector<scaler::Master> all;
    for (std::size_t i = 0; i < host_.size(); ++i) {
      const auto count = static_cast<std::size_t>(host_[i].numel());
      const auto floats = [count](const at::Tensor& tensor) {
        return std::span(static_cast<float*>(tensor.data_ptr()), count);
      };
      all.push_back({floats(host_[i]), unscaled_[i].defined() ? floats(unscaled_[i]) : std::span<float>()});
    }
    return all;
  }
  void copy_to_leaves() {
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (!leaves_[i].is_cpu()) leaves_[i].detach().copy_(host_[i]);
  }

  Scaling scaling_;
  bool is_constant_;
  std::vector<at::Tensor> leaves_;
  std::vector<at::Tensor> host_;                    // of the leaves' values; on the host the same memory
  std::vector<scaler::ModelParameter> parameters_;  // in that memory
  std::vector<at::Tensor> unscaled_;
  std::optional<scaler::InnerOptimizer> inner_;
  std::optional<scaler::GradScaler> scaler_;
};

}  // namespace

scaler::InnerOptimizer inner_optimizer(const job::Optimizer& rule, const std::vector<at::Tensor>& like) {
  const auto inner = std::make_shared<InnerState>(rule, like);
  return {.step = [inner](std::span<const scaler::Master> master_weights) { inner->step(master_weights); },
          .state = [inner] { return inner->state(); },
          .load = [inner](const scaler::InnerOptimizer::State& state) { inner->load(state); }};
}

scaler::LossScale loss_scale_of(const std::optional<job::Scaler>& given) {
  if (!given) return scaler::ConstantScale();
  if (!given->dynamic) return scaler::ConstantScale{given->init_scale};
  const scaler::TorchRule rule{.init_scale = given->init_scale,
                               .growth_factor = given->growth_factor,
                               .backoff_factor = given->backoff_factor,
                               .growth_interval = given->growth_interval};
  return scaler::TorchScale{.rule = rule, .scale = static_cast<float>(rule.init_scale)};
}

std::unique_ptr<ScaledOptimizer> rounded_optimizer(std::vector<ScaledLeaf> leaves, std::span<const at::Tensor> values,
                                                   const job::Optimizer& rule, const Scaling& scaling) {
  return std::make_unique<RoundedOptimizer>(std::move(leaves), values, rule, scaling);
}

std::unique_ptr<ScaledOptimizer> autocast_optimizer(const std::vector<ScaledLeaf>& leaves, const job::Optimizer& rule,
                                                    const Scaling& scaling) {
  return std::make_unique<AutocastOptimizer>(leaves, rule, scaling);
}

}  // namespace plumbline::training
