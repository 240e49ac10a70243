// reference/slowmo/detail/optimizer.hpp: SGD and Adam on flat parameters, as torch.optim defines them.
//
// Numbers In the parameters' type, an operation at a time, scalars rounded to it:
//           SGD   g += decay x;  buf = g the first time, then momentum buf + (1 - dampening) g;
//                 d = buf, or g + momentum buf (Nesterov);  x += (-rate) d
//           Adam  g += decay x;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g g;
//                 x += (-rate / (1 - beta1^t)) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
// Source  torch.optim.SGD and torch.optim.Adam.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "reference/slowmo/slow_step.hpp"

namespace plumbline::slowmo {

struct Sgd {
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
struct Adam {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
};
using OptimizerRule = std::variant<Sgd, Adam>;

/// A plain value: what it remembers can be copied, kept, and taken on by another one.
class FlatOptimizer {
 public:
  /// Throws InvalidArgument: Nesterov without momentum, or with dampening.
  explicit FlatOptimizer(OptimizerRule rule);

  /// One step with each group's rate, of the same parameters as ever. `gradients` are of the groups' parameters, one
  /// after the other, and of their lengths and types. Throws Unsupported for halves.
  void step(std::span<const ParameterGroup> groups, std::span<const comm::ConstBuffer> gradients);
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  // Of one parameter, bytes of its type.
  struct Moments {
    std::vector<std::byte> first, second;
  };
  OptimizerRule rule_;
  std::int64_t steps_ = 0;
  std::vector<Moments> moments_;
};

}  // namespace plumbline::slowmo
