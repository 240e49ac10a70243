#include "reference/slowmo/slow_step.hpp"

#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {
namespace {

template <class T>
void step_as_the_paper(const SlowRule& rule, std::int64_t count, T* x, T* old, T* momentum) {
  const OuterRule& outer = rule.outer;
  const double scale = outer.by_fast_rate ? rule.fast_learning_rate : 1;
  const auto beta = static_cast<T>(outer.momentum), gradient = static_cast<T>(outer.gradient);
  const auto divisor = static_cast<T>(scale), rate = static_cast<T>(outer.learning_rate * scale);
  for (std::int64_t i = 0; i < count; ++i) {
    const T difference = gradient * (old[i] - x[i]) / divisor;
    momentum[i] = beta * momentum[i] + difference;
    x[i] = old[i] = old[i] - rate * (outer.nesterov ? difference + beta * momentum[i] : momentum[i]);
  }
}

template <class T>
void step_as_fairscale(const SlowRule& rule, std::int64_t count, T* x, T* old, T* momentum) {
  const auto beta = static_cast<T>(rule.outer.momentum), inverse = static_cast<T>(1 / rule.fast_learning_rate);
  const auto rate = static_cast<T>(-rule.fast_learning_rate * rule.outer.learning_rate);
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
