#include "reference/scaler/fp16_optimizer.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reference/comm/dtype.hpp"

namespace plumbline::scaler {

using comm::Buffer;
using comm::DType;

namespace {

std::size_t count_of(const Buffer& buffer) { return static_cast<std::size_t>(buffer.count); }

void to_master_weight(const Buffer& from, std::span<float> to) {
  (void)unscale(std::array{Unscaling{from, {to.data(), from.count, DType::f32}}}, 1);
}

void to_model(std::span<const float> from, const Buffer& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (to.dtype == DType::f16)
      static_cast<comm::Float16*>(to.data)[i] = comm::to_float16(from[i]);
    else if (to.dtype == DType::bf16)
      static_cast<comm::BFloat16*>(to.data)[i] = comm::to_bfloat16(from[i]);
    else
      static_cast<float*>(to.data)[i] = from[i];
  }
}

void check_parameter(const ModelParameter& parameter) {
  const Buffer& values = parameter.values;
  const bool is_known = values.dtype == DType::f16 || values.dtype == DType::bf16 || values.dtype == DType::f32;
  if (!is_known || values.device.kind != comm::Device::Kind::cpu)
    throw InvalidArgument(fmt::format("parameter '{}' is {} on {}; it must be f16, bf16 or f32 on cpu", parameter.name,
                                      comm::name_of(values.dtype), comm::name_of(values.device)));
}

// The partial norm and the number of zeros of what this rank counts.
std::array<double, 2> counted_once(std::span<const ModelParameter> parameters, std::span<const Master> master_weights,
                                   const Fp16Options& options, const ScalerGroups& groups) {
  const int tensor_rank = groups.tensor == nullptr ? 0 : groups.tensor->rank();
  std::vector<std::span<const float>> counted;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!master_weights[i].gradient.empty() && is_counted(parameters[i], tensor_rank))
      counted.emplace_back(master_weights[i].gradient);
  double zeros = 0;
  for (const auto& gradient : counted) zeros += static_cast<double>(std::ranges::count(gradient, 0.0F));
  return {partial_norm(counted, options.norm_type), zeros};
}

// Both over the group, in one message where both are sums.
void combine(std::array<double, 2>& message, comm::Communicator& group, const Fp16Options& options) {
  const auto reduce = [&](double* first, std::int64_t count, comm::ReduceOp by) {
    const Buffer buffer{first, count, DType::f64};
    group.all_reduce(buffer, buffer, by, options.timeout);
  };
  const comm::ReduceOp op = std::isinf(options.norm_type) ? comm::ReduceOp::max : comm::ReduceOp::sum;
  if (op == comm::ReduceOp::sum) return reduce(message.data(), std::ssize(message), op);
  reduce(message.data(), 1, op);
  if (options.count_zeros) reduce(&message[1], 1, comm::ReduceOp::sum);
}

}  // namespace

void expect_clipping(double clip_norm, double norm_type) {
  if (!(norm_type > 0)) throw InvalidArgument(fmt::format("norm_type is {}; it must be above 0, or inf", norm_type));
  if (!(clip_norm >= 0)) throw InvalidArgument(fmt::format("clip_norm is {}; it cannot be below 0", clip_norm));
}

InnerOptimizer sgd(const SgdOptions& options) {
  const auto buffers = std::make_shared<InnerOptimizer::State>();
  const auto step = [buffers, options](std::span<const Master> master_weights) {
    buffers->resize(master_weights.size());
    const auto down = static_cast<float>(-options.lr), momentum = static_cast<float>(options.momentum);
    for (std::size_t i = 0; i < master_weights.size(); ++i) {
      const Master& master = master_weights[i];
      std::vector<float>& buffer = (*buffers)[i];
      if (master.gradient.empty()) continue;
      const bool is_first = buffer.empty();
      buffer.resize(master.gradient.size());
      for (std::size_t k = 0; k < buffer.size(); ++k) {
        const float kept = buffer[k] * momentum;
        // Nothing is added to the first gradient, nor to any without momentum, where 0 times Inf would stay as NaN.
        buffer[k] = is_first || options.momentum == 0 ? master.gradient[k] : kept + master.gradient[k];
        const float change = down * buffer[k];
        master.values[k] += change;
      }
    }
  };
  return {.step = step,
          .state = [buffers] { return *buffers; },
          .load = [buffers](const InnerOptimizer::State& state) { *buffers = state; }};
}

std::vector<comm::Communicator*> deciding_groups(Deciding deciding, const ScalerGroups& groups) {
  std::vector<comm::Communicator*> list;
  switch (deciding) {
    case Deciding::local:
      break;
    case Deciding::tensor:
      list = {groups.tensor};
      break;
    case Deciding::tensor_then_pipeline:
      list = {groups.tensor, groups.pipeline};
      break;
    case Deciding::model:
      list = {groups.model};
      break;
    case Deciding::model_and_data:
      list = {groups.model, groups.data};
      break;
  }
  std::erase(list, nullptr);
  return list;
}

bool is_counted(const ModelParameter& parameter, int tensor_rank) {
  return !parameter.tied_copy && (!parameter.replicated || tensor_rank == 0);
}

double partial_norm(std::span<const std::span<const float>> gradients, double p) {
  double sum = 0;
  for (const std::span<const float> gradient : gradients)
    for (const float value : gradient) {
      const double magnitude = std::abs(static_cast<double>(value));
      if (!std::isinf(p))
        sum += p == 2 ? magnitude * magnitude : std::pow(magnitude, p);
      else if (!(magnitude <= sum))  // NaN as well
        sum = std::isnan(sum) ? sum : magnitude;
    }
  return sum;
}

double norm_of_partial(double combined, double p) {
  const double norm = std::isinf(p) ? combined : std::pow(combined, 1 / p);
  return static_cast<double>(static_cast<float>(norm));
}

void clip_by_norm(std::span<const std::span<float>> gradients, double most, double norm) {
  const auto by = static_cast<float>(most) / (static_cast<float>(norm) + 1e-6F);
  if (!(by < 1)) return;
  for (const std::span<float> gradient : gradients)
    for (float& value : gradient) value *= by;
}

double clip_over_group(comm::Communicator* group, const GroupGradients& gradients, double most, double p,
                       comm::Timeout timeout) {
  expect_clipping(most, p);
  double combined = partial_norm(gradients.counted, p);
  const Buffer message{&combined, 1, DType::f64};
  if (group != nullptr && group->size() > 1)
    group->all_reduce(message, message, std::isinf(p) ? comm::ReduceOp::max : comm::ReduceOp::sum, timeout);
  const double norm = norm_of_partial(combined, p);
  clip_by_norm(gradients.all, most, norm);
  return norm;
}

void clip_over_model(std::span<const ModelParameter> parameters, std::span<const Master> master_weights,
                     const Fp16Options& options, const ScalerGroups& groups, StepOutcome& outcome) {
  const bool clips = options.clip_norm > 0;
  if (!clips && !options.count_zeros) return;
  std::array<double, 2> message = counted_once(parameters, master_weights, options, groups);
  // Entered by every rank, also where the result is of no use: who left it out would leave the others in it.
  comm::Communicator* const group = groups.model;
  if (group != nullptr && group->size() > 1) combine(message, *group, options);
  if (outcome.found_inf) return;
  if (options.count_zeros) outcome.zeros = static_cast<std::int64_t>(message[1]);
  if (!clips) return;
  outcome.norm = norm_of_partial(message[0], options.norm_type);
  std::vector<std::span<float>> all;
  for (const Master& master : master_weights) all.push_back(master.gradient);
  clip_by_norm(all, options.clip_norm, *outcome.norm);
}

Fp16Optimizer::Fp16Optimizer(std::vector<ModelParameter> parameters, InnerOptimizer inner, Fp16Options options,
                             const ScalerGroups& groups)
    : parameters_(std::move(parameters)),
      inner_(std::move(inner)),
      options_(std::move(options)),
      groups_(groups),
      scale_(options_.scale) {
  for (const ModelParameter& parameter : parameters_) check_parameter(parameter);
  scaler::check(scale_);
  expect_clipping(options_.clip_norm, options_.norm_type);
  if (!options_.skips_overflows && !std::holds_alternative<ConstantScale>(scale_))
    throw InvalidArgument(
        fmt::format("a {} scale where no overflow is looked for; it must be constant", kind_of(scale_)));
  for (const ModelParameter& parameter : parameters_) {
    master_weights_.emplace_back(count_of(parameter.values));
    gradients_.emplace_back(count_of(parameter.values));
    to_master_weight(parameter.values, master_weights_.back());
  }
  has_gradient_.resize(parameters_.size());
}

// Copies and unscales; whether this rank found something.
bool Fp16Optimizer::look(std::span<const Buffer> gradients, double scale) {
  std::vector<Unscaling> work;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    has_gradient_[i] = gradients[i].data != nullptr;
    if (!has_gradient_[i]) continue;
    work.push_back({gradients[i], {gradients_[i].data(), gradients[i].count, DType::f32}});
  }
  if (options_.reduce) options_.reduce(gradients);
  return unscale(work, inverse_of(scale));
}

bool Fp16Optimizer::agreed(bool own) {
  if (!options_.skips_overflows) return false;
  float flag = own ? 1.0F : 0.0F;
  agree_on_found_inf(deciding_groups(options_.deciding, groups_), std::span(&flag, 1), options_.timeout);
  return flag > 0;
}

std::vector<Master> Fp16Optimizer::master_weights() {
  std::vector<Master> all;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    all.push_back({master_weights_[i], has_gradient_[i] ? std::span(gradients_[i]) : std::span<float>()});
  return all;
}

void Fp16Optimizer::copy_back() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) to_model(master_weights_[i], parameters_[i].values);
}

StepOutcome Fp16Optimizer::step(std::span<const Buffer> gradients) {
  if (gradients.size() != parameters_.size())
    throw InvalidArgument(fmt::format("{} gradients for {} parameters", gradients.size(), parameters_.size()));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].data != nullptr && gradients[i].count != parameters_[i].values.count)
      throw InvalidArgument(fmt::format("parameter '{}' has {} elements, its gradient {}", parameters_[i].name,
                                        parameters_[i].values.count, gradients[i].count));
  StepOutcome outcome{.scale = scale()};
  const bool own = look(gradients, outcome.scale);
  outcome.found_inf = agreed(own);
  update(scale_, outcome.found_inf);
  const std::vector<Master> master_weights = this->master_weights();
  clip_over_model(parameters_, master_weights, options_, groups_, outcome);
  if (outcome.found_inf) return outcome;
  inner_.step(master_weights);
  copy_back();
  outcome.stepped = true;
  return outcome;
}

void Fp16Optimizer::zero_grad(std::span<const Buffer> gradients) {
  for (const Buffer& gradient : gradients)
    if (gradient.data != nullptr) std::fill_n(static_cast<std::byte*>(gradient.data), gradient.bytes(), std::byte{});
  for (auto& gradient : gradients_) std::ranges::fill(gradient, 0.0F);
}

Fp16State Fp16Optimizer::state() const {
  return {.scale = scale_, .master_weights = master_weights_, .inner = inner_.state()};
}

void Fp16Optimizer::load(const Fp16State& state) {
  if (state.scale.index() != scale_.index())
    throw InvalidArgument(
        fmt::format("the state has a {} scale, the optimizer a {} one", kind_of(state.scale), kind_of(scale_)));
  scaler::check(state.scale);
  if (state.master_weights.size() != master_weights_.size())
    throw InvalidArgument(fmt::format("the state has {} parameters, the optimizer {}", state.master_weights.size(),
                                      master_weights_.size()));
  for (std::size_t i = 0; i < master_weights_.size(); ++i)
    if (state.master_weights[i].size() != master_weights_[i].size())
      throw InvalidArgument(fmt::format("parameter '{}' has {} elements, in the state {}", parameters_[i].name,
                                        master_weights_[i].size(), state.master_weights[i].size()));
  inner_.load(state.inner);
  scale_ = state.scale;
  for (std::size_t i = 0; i < master_weights_.size(); ++i) {
    std::ranges::copy(state.master_weights[i], master_weights_[i].begin());
    to_model(master_weights_[i], parameters_[i].values);
  }
}

}  // namespace plumbline::scaler
