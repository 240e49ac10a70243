// Optimizers, and the ops of a loss scale. Hyper-parameters that a program does not state are the usual ones.
#include <cmath>

#include "conformance/pass/oracles/arithmetic.hpp"

namespace plumbline::program {
namespace {

// Param, Grad and LearningRate, which all have; the result.
struct Update {
  const Array *parameter = nullptr, *gradient = nullptr;
  Array* out = nullptr;
  double rate = 0;

  explicit Update(Operands& operands)
      : parameter(operands.in("Param")), gradient(operands.in("Grad")), out(operands.out("ParamOut")) {
    const Array* const learning_rate = operands.in("LearningRate");
    if (learning_rate == nullptr || learning_rate->elements.empty() || operands.in("Grad", 1) != nullptr) out = nullptr;
    if (out != nullptr) rate = learning_rate->elements[0];
  }
  [[nodiscard]] bool fits() const {
    return out != nullptr && parameter != nullptr && gradient != nullptr && matches(gradient) && matches(out);
  }
  [[nodiscard]] bool matches(const Array* other) const {
    return other != nullptr && other->elements.size() == parameter->elements.size();
  }
};

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

bool sgd(Operands& operands) {
  const Update update(operands);
  if (!update.fits()) return false;
  for (std::size_t i = 0; i < update.out->elements.size(); ++i)
    update.out->elements[i] = update.parameter->elements[i] - update.rate * update.gradient->elements[i];
  return true;
}

// velocity = mu velocity + gradient; parameter -= rate velocity.
bool momentum_with_rate(Operands& operands, double gradient_rate, double rate) {
  const Update update(operands);
  const Array* const velocity = operands.in("Velocity");
  Array* const velocity_out = operands.out("VelocityOut");
  if (!update.fits() || !update.matches(velocity) || !update.matches(velocity_out)) return false;
  const double mu = operands.number("mu", 0.9), rescale = operands.number("rescale_grad", 1);
  for (std::size_t i = 0; i < update.out->elements.size(); ++i) {
    const double next = mu * velocity->elements[i] + gradient_rate * (update.gradient->elements[i] * rescale);
    velocity_out->elements[i] = next;
    update.out->elements[i] = update.parameter->elements[i] - rate * next;
  }
  return true;
}

bool momentum(Operands& operands) {
  const Update update(operands);
  return update.fits() && momentum_with_rate(operands, 1, update.rate);
}

// You, Gitman, Ginsburg 2017: a rate of its own for each parameter.
bool lars(Operands& operands) {
  const Update update(operands);
  if (!update.fits()) return false;
  constexpr double kCoefficient = 0.001, kDecay = 0.0005;
  const double parameter = norm(update.parameter->elements),
               gradient = norm(update.gradient->elements) * operands.number("rescale_grad", 1);
  const double rate = parameter > 0 && gradient > 0
                          ? update.rate * kCoefficient * parameter / (gradient + kDecay * parameter)
                          : update.rate;
  return momentum_with_rate(operands, rate, 1);
}

// Kingma and Ba 2015. `decay` is AdamW's; `trusts` scales the step by the norms, as LAMB does.
bool adam_with(Operands& operands, double decay, bool trusts) {
  const Update update(operands);
  const Array *const first = operands.in("Moment1"), *const second = operands.in("Moment2"),
                     *const power1 = operands.in("Beta1Pow"), *const power2 = operands.in("Beta2Pow");
  Array *const first_out = operands.out("Moment1Out"), *const second_out = operands.out("Moment2Out"),
               *const power1_out = operands.out("Beta1PowOut"), *const power2_out = operands.out("Beta2PowOut");
  if (!update.fits() || !update.matches(first) || !update.matches(second) || !update.matches(first_out) ||
      !update.matches(second_out))
    return false;
  for (const Array* power :
       {power1, power2, static_cast<const Array*>(power1_out), static_cast<const Array*>(power2_out)})
    if (power == nullptr || power->elements.size() != 1) return false;
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
  const double correction = std::sqrt(1 - power2->elements[0]) / (1 - power1->elements[0]);
  std::vector<double> step(update.out->elements.size());
  for (std::size_t i = 0; i < step.size(); ++i) {
    const double g = update.gradient->elements[i];
    const double m = first_out->elements[i] = kBeta1 * first->elements[i] + (1 - kBeta1) * g;
    const double v = second_out->elements[i] = kBeta2 * second->elements[i] + (1 - kBeta2) * g * g;
    step[i] = correction * m / (std::sqrt(v) + kEpsilon) + decay * update.parameter->elements[i];
  }
  const double length = norm(step), of_parameter = norm(update.parameter->elements);
  const double trust = trusts && length > 0 && of_parameter > 0 ? of_parameter / length : 1;
  for (std::size_t i = 0; i < step.size(); ++i)
    update.out->elements[i] = update.parameter->elements[i] - update.rate * trust * step[i];
  power1_out->elements[0] = power1->elements[0] * kBeta1;
  power2_out->elements[0] = power2->elements[0] * kBeta2;
  return true;
}

bool adam(Operands& one) { return adam_with(one, 0, false); }
bool adamw(Operands& one) { return adam_with(one, 0.01, false); }
bool lamb(Operands& one) { return adam_with(one, 0.01, true); }

// ---- loss scale ----

std::vector<Array>* matching(Operands& operands) {
  const auto in = operands.inputs.find("X");
  const auto out = operands.outputs.find("Out");
  if (in == operands.inputs.end() || out == operands.outputs.end() || in->second.size() != out->second.size())
    return nullptr;
  for (std::size_t i = 0; i < in->second.size(); ++i)
    if (in->second[i].elements.size() != out->second[i].elements.size()) return nullptr;
  return &out->second;
}

bool unscale(Operands& operands) {
  std::vector<Array>* const out = matching(operands);
  const Array* const scale = operands.in("Scale");
  Array* const found = operands.out("FoundInfinite");
  if (out == nullptr || scale == nullptr || scale->elements.empty() || found == nullptr || found->elements.empty())
    return false;
  bool is_finite = true;
  for (std::size_t k = 0; k < out->size(); ++k)
    for (std::size_t i = 0; i < (*out)[k].elements.size(); ++i) {
      const double value = operands.in("X", k)->elements[i] / scale->elements[0];
      is_finite = is_finite && std::isfinite(value);
      (*out)[k].elements[i] = value;
    }
  found->elements[0] = is_finite ? 0 : 1;
  return true;
}

// Halves the scale after an overflow; what grows it needs more steps than anybody runs here.
bool update_scale(Operands& operands) {
  std::vector<Array>* const out = matching(operands);
  for (const char* slot : {"FoundInfinite", "PrevLossScaling", "InGoodSteps", "InBadSteps"})
    if (operands.in(slot) == nullptr || operands.in(slot)->elements.empty()) return false;
  for (const char* slot : {"LossScaling", "OutGoodSteps", "OutBadSteps"})
    if (operands.out(slot) == nullptr || operands.out(slot)->elements.empty()) return false;
  if (out == nullptr) return false;
  const bool overflowed = operands.in("FoundInfinite")->elements[0] != 0;
  for (std::size_t k = 0; k < out->size(); ++k)
    if (!overflowed) (*out)[k].elements = operands.in("X", k)->elements;
  operands.out("LossScaling")->elements[0] = operands.in("PrevLossScaling")->elements[0] / (overflowed ? 2 : 1);
  operands.out("OutGoodSteps")->elements[0] = overflowed ? 0 : operands.in("InGoodSteps")->elements[0] + 1;
  operands.out("OutBadSteps")->elements[0] = overflowed ? operands.in("InBadSteps")->elements[0] + 1 : 0;
  return true;
}

}  // namespace

const ArithmeticTable& optimizer_arithmetic() {
  static const ArithmeticTable table{
      {"adam", adam},
      {"adamw", adamw},
      {"check_finite_and_unscale", unscale},
      {"dgc_momentum", momentum},
      {"lamb", lamb},
      {"lars_momentum", lars},
      {"merged_momentum", momentum},
      {"momentum", momentum},
      {"sgd", sgd},
      {"sparse_momentum", momentum},
      {"update_loss_scaling", update_scale},
  };
  return table;
}

}  // namespace plumbline::program
