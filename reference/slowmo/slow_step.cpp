#include "reference/slowmo/slow_step.hpp"

#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {
namespace {

template <class T>
void step_as_the_paper(const SlowRule& rule, std::int64_t count, T* x, T* old, T* momentum) {
  const auto beta = static_cast<T>(rule.momentum), gamma = static_cast<T>(rule.fast_learning_rate);
  const auto rate = static_cast<T>(rule.learning_rate * rule.fast_learning_rate);
  for (std::int64_t i = 0; i < count; ++i) {
    momentum[i] = beta * momentum[i] + (old[i] - x[i]) / gamma;
    x[i] = old[i] = old[i] - rate * momentum[i];
  }
}

template <class T>
void step_as_fairscale(const SlowRule& rule, std::int64_t count, T* x, T* old, T* momentum) {
  const auto beta = static_cast<T>(rule.momentum), inverse = static_cast<T>(1 / rule.fast_learning_rate);
  const auto rate = static_cast<T>(-rule.fast_learning_rate * rule.learning_rate);
  for (std::int64_t i = 0; i < count; ++i) {
    momentum[i] *= beta;
    momentum[i] -= inverse * x[i];
    momentum[i] += inverse * old[i];
    x[i] = old[i] = old[i] + rate * momentum[i];
  }
}

}  // namespace

void slow_step(const SlowRule& rule, comm::Buffer x, comm::Buffer old, comm::Buffer momentum) {
  with_type(x.dtype, [&]<class T>(T) {
    if constexpr (std::is_arithmetic_v<T>) {
      const auto step = rule.convention == gossip::Convention::fairscale ? step_as_fairscale<T> : step_as_the_paper<T>;
      step(rule, x.count, static_cast<T*>(x.data), static_cast<T*>(old.data), static_cast<T*>(momentum.data));
    }
  });
}

}  // namespace plumbline::slowmo
