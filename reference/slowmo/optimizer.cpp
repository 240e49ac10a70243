#include "reference/slowmo/detail/optimizer.hpp"

#include <cmath>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::ConstBuffer;

template <class T>
struct Update {
  T* values;
  const T* gradient;
  std::int64_t count;
  T *first, *second;
  double rate;
  std::int64_t step;  // from 1
};

template <class T>
void apply(const Sgd& rule, const Update<T>& update) {
  const auto momentum = static_cast<T>(rule.momentum), fresh = static_cast<T>(1 - rule.dampening);
  const auto decay = static_cast<T>(rule.weight_decay), rate = static_cast<T>(-update.rate);
  for (std::int64_t i = 0; i < update.count; ++i) {
    T gradient = update.gradient[i] + decay * update.values[i];
    if (rule.momentum != 0) {
      T& buffer = update.first[i];
      buffer = update.step == 1 ? gradient : buffer * momentum + fresh * gradient;
      gradient = rule.nesterov ? gradient + momentum * buffer : buffer;
    }
    update.values[i] += rate * gradient;
  }
}

template <class T>
void apply(const Adam& rule, const Update<T>& update) {
  const double correction1 = 1 - std::pow(rule.beta1, static_cast<double>(update.step));
  const double correction2 = 1 - std::pow(rule.beta2, static_cast<double>(update.step));
  const auto fresh1 = static_cast<T>(1 - rule.beta1), kept2 = static_cast<T>(rule.beta2);
  const auto fresh2 = static_cast<T>(1 - rule.beta2), root = static_cast<T>(std::sqrt(correction2));
  const auto epsilon = static_cast<T>(rule.epsilon), rate = static_cast<T>(-(update.rate / correction1));
  for (std::int64_t i = 0; i < update.count; ++i) {
    const T gradient = update.gradient[i] + static_cast<T>(rule.weight_decay) * update.values[i];
    T &first = update.first[i], &second = update.second[i];
    first += fresh1 * (gradient - first);
    second = second * kept2 + fresh2 * gradient * gradient;
    update.values[i] += rate * first / (std::sqrt(second) / root + epsilon);
  }
}

}  // namespace

FlatOptimizer::FlatOptimizer(OptimizerRule rule) : rule_(rule) {
  const auto* sgd = std::get_if<Sgd>(&rule_);
  if (sgd != nullptr && sgd->nesterov && (sgd->momentum <= 0 || sgd->dampening != 0))
    throw InvalidArgument(
        fmt::format("optimizer: nesterov with momentum {} and dampening {}; it needs momentum above 0 and "
                    "dampening 0",
                    sgd->momentum, sgd->dampening));
}

void FlatOptimizer::step(std::span<const ParameterGroup> groups, std::span<const ConstBuffer> gradients) {
  ++steps_;
  moments_.resize(gradients.size());
  std::size_t at = 0;
  for (const ParameterGroup& group : groups)
    for (const Buffer& values : group.parameters) {
      const ConstBuffer& gradient = gradients[at];
      Moments& moments = moments_[at++];
      moments.first.resize(values.bytes());
      moments.second.resize(values.bytes());
      with_type(values.dtype, [&]<class T>(T) {
        if constexpr (std::is_arithmetic_v<T>) {
          const Update<T> update{.values = static_cast<T*>(values.data),
                                 .gradient = static_cast<const T*>(gradient.data),
                                 .count = values.count,
                                 .first = reinterpret_cast<T*>(moments.first.data()),
                                 .second = reinterpret_cast<T*>(moments.second.data()),
                                 .rate = group.learning_rate,
                                 .step = steps_};
          std::visit([&](const auto& rule) { apply(rule, update); }, rule_);
        } else {
          throw Unsupported(fmt::format("optimizer: parameters of {}; it works on their f32 master weights",
                                        comm::name_of(values.dtype)));
        }
      });
    }
}

}  // namespace plumbline::slowmo
