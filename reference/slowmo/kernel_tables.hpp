// reference/slowmo/kernel_tables.hpp: what kernels do to many tensors, an entry a tensor: the bodies, for the host and
// for a GPU.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "reference/device/elementwise.hpp"
#include "reference/device/scaled_copies.hpp"
#include "reference/slowmo/slow_step.hpp"

namespace plumbline::slowmo {

// ---- What a slow step does to one element, written once for the host and for kernels.
//
// Model   The rules and the order of their operations: slow_step.hpp. Scalars are formed in double, then rounded to T.

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

// ---- Slow_step() as work for a device that takes many tensors in one launch.

/// Step is one of those above, made of the same rule for both types.
template <template <class> class Step>
struct SlowStepWork {
  static constexpr std::string_view kName = Step<float>::kName;

  device::TensorTable<3> table;  // x, old, momentum
  Step<float> in_f32;
  Step<double> in_f64;

  PLUMBLINE_HOST_DEVICE void operator()(std::int32_t chunk, int thread, int threads) const {
    const device::ChunkPart part = device::part_of(table, chunk);
    const device::TensorEntry<3>& entry = table.entry[part.entry];
    const auto all = [&](const auto& step, auto element) {
      using T = decltype(element);
      const auto column = [&](int place) {
        return device::InOut<T>{static_cast<T*>(entry.address[place]) + part.first};
      };
      device::elementwise(step, part.count, thread, threads, column(0), column(1), column(2));
    };
    if (static_cast<comm::DType>(entry.types) == comm::DType::f32)
      all(in_f32, float());
    else
      all(in_f64, double());
  }
};

/// What there is to do, in order; nothing for tensors without elements. All must be in memory of `device`. Throws
/// InvalidArgument for other counts or types than each other's and for memory of another device, Unsupported for other
/// types than f32 and f64.
[[nodiscard]] device::TensorTables<3> slow_step_tables(std::span<const SlowTensor> tensors, comm::Device device);

template <template <class> class Step>
[[nodiscard]] std::vector<SlowStepWork<Step>> slow_step_work(const SlowRule& rule, std::span<const SlowTensor> tensors,
                                                             comm::Device device) {
  const device::TensorTables<3> tables = slow_step_tables(tensors, device);
  std::vector<SlowStepWork<Step>> work;
  for (const auto& table : tables.all()) work.push_back({table, Step<float>(rule), Step<double>(rule)});
  return work;
}

// ---- Sums and differences of tensors of any two floating types, as work for a device that takes many in
// one launch: what 16-bit parameters lose in averages, and their master weights keep.
//
// Model   to[i] = to[i] + from[i], or to[i] - from[i]: `from` is converted to what the type of `to` computes in, and
//         the result is rounded once.

struct SumStep {
  bool subtracts;

  template <class From, class To>
  PLUMBLINE_HOST_DEVICE void operator()(From from, To& to) const {
    const auto other = static_cast<device::Wide<To>>(device::widened(from));
    const auto value = device::widened(to);
    to = device::narrowed<To>(subtracts ? value - other : value + other);
  }
};

struct SumWork {
  static constexpr std::string_view kName = "sums";

  device::TensorTable<2>
      table;  // from, to; `types` of an entry: 4 * type of `from` + type of `to`, as DType numbers them
  SumStep step;

  PLUMBLINE_HOST_DEVICE void operator()(std::int32_t chunk, int thread, int threads) const {
    const device::ChunkPart part = device::part_of(table, chunk);
    const auto& entry = table.entry[part.entry];
    const auto all = [&](auto from, auto to) {
      using From = decltype(from);
      using To = decltype(to);
      SumStep sum = step;
      device::elementwise(sum, part.count, thread, threads,
                          device::In<From>{static_cast<const From*>(entry.address[0]) + part.first},
                          device::InOut<To>{static_cast<To*>(entry.address[1]) + part.first});
    };
    const auto from = [&](auto element) {
      switch (entry.types % 4) {
        case 0:
          return all(element, comm::Float16());
        case 1:
          return all(element, comm::BFloat16());
        case 2:
          return all(element, float());
        default:
          return all(element, double());
      }
    };
    switch (entry.types / 4) {
      case 0:
        return from(comm::Float16());
      case 1:
        return from(comm::BFloat16());
      case 2:
        return from(float());
      default:
        return from(double());
    }
  }
};

/// What there is to do, in order; nothing for tensors without elements. All must be in memory of `device`. Throws
/// InvalidArgument for other counts than each other's and for memory of another device, Unsupported for types that are
/// not floating.
[[nodiscard]] std::vector<SumWork> sum_work(std::span<const device::ScaledCopy> pairs, bool subtracts,
                                            comm::Device device);

}  // namespace plumbline::slowmo
