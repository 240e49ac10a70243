// reference/slowmo/slow_step_element.hpp: what a slow step does to one element, written once for the host and for kernels.
//
// Model   The rules and the order of their operations: slow_step.hpp. Scalars are formed in double, then rounded to T.
#pragma once

#include <string_view>

#include "reference/device/host_device.hpp"
#include "reference/slowmo/slow_step.hpp"

namespace plumbline::slowmo {

template <class T>
struct SlowStepAsPaper {
  static constexpr std::string_view kName = "slow step";
  explicit SlowStepAsPaper(const SlowRule& rule)
      : beta(static_cast<T>(rule.outer.momentum)),
        gradient(static_cast<T>(rule.outer.gradient)),
        divisor(static_cast<T>(rule.outer.by_fast_rate ? rule.fast_learning_rate : 1)),
        rate(static_cast<T>(rule.outer.learning_rate * (rule.outer.by_fast_rate ? rule.fast_learning_rate : 1))),
        nesterov(rule.outer.nesterov) {}

  PLUMBLINE_HOST_DEVICE void operator()(T& x, T& old, T& momentum) const {
    const T difference = gradient * (old - x) / divisor;
    momentum = beta * momentum + difference;
    x = old = old - rate * (nesterov ? difference + beta * momentum : momentum);
  }

  T beta, gradient, divisor, rate;
  bool nesterov;
};

template <class T>
struct SlowStepAsFairscale {
  static constexpr std::string_view kName = "slow step as fairscale";
  explicit SlowStepAsFairscale(const SlowRule& rule)
      : beta(static_cast<T>(rule.outer.momentum)),
        inverse(static_cast<T>(1 / rule.fast_learning_rate)),
        rate(static_cast<T>(-rule.fast_learning_rate * rule.outer.learning_rate)) {}

  PLUMBLINE_HOST_DEVICE void operator()(T& x, T& old, T& momentum) const {
    momentum *= beta;
    momentum -= inverse * x;
    momentum += inverse * old;
    x = old = old + rate * momentum;
  }

  T beta, inverse, rate;
};

}  // namespace plumbline::slowmo
