// reference/training/scaler/optimizer.hpp: a loss scale, its decisions and an optimizer, bound to LibTorch's leaves.
//
// Model   One interface for the two ways of gradient_settings.hpp. A step is given the gradients of scaled losses,
//         reduced over replicas; what was found is agreed on over the model group; a step with something found changes
//         the scale alone. values() is what the optimizer steps, in float32; gradients() what it used, divided by the
//         scale and clipped, or in a skipped step as it came.
// Memory  Leaves, gradients and master weights have one order in memory, the leaf's. Leaves on a GPU have a copy on the
//         host, where their master weights are stepped; of a skipped step nothing is copied back.
// Bits    Master weights are stepped by OptimizerState, whose operations are torch.optim's. A saved state continues
//         bit-identically.
// Errors  InvalidArgument, naming the leaf; what the scaler and the communicator throw.
// Source  ColossalAI 96780e6 (amp/naive_amp, amp/torch_amp); torch.amp.GradScaler.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/record/run_spec.hpp"
#include "reference/scaler/fp16_optimizer.hpp"
#include "reference/training/detail/optimizer.hpp"

namespace plumbline::training {

struct ScaledLeaf {
  std::string name;
  at::Tensor leaf;          // requires a gradient; without gaps in memory
  bool replicated = false;  // every rank of the tensor group has all of it
  bool tied_copy = false;   // an earlier stage has it too, and counts it
};

/// OptimizerState as what steps master weights; `like` are the leaves whose master weights they are. State: the number
/// of steps, then both moments of each, empty for an optimizer without moments. Loading throws InvalidArgument for one
/// of other leaves.
[[nodiscard]] scaler::InnerOptimizer inner_optimizer(const job::Optimizer& rule, const std::vector<at::Tensor>& like);

/// The scale of a specification; a constant 1 where it has none.
[[nodiscard]] scaler::LossScale loss_scale_of(const std::optional<job::Scaler>& scaler);

struct Scaling {
  scaler::Fp16Options options{};
  scaler::ScalerGroups groups{};
};

class ScaledOptimizer {
 public:
  ScaledOptimizer() = default;
  virtual ~ScaledOptimizer() = default;
  ScaledOptimizer(const ScaledOptimizer&) = delete;
  ScaledOptimizer& operator=(const ScaledOptimizer&) = delete;

  /// What a loss is multiplied by.
  [[nodiscard]] virtual double scale() const = 0;
  /// One gradient a leaf, undefined for a leaf without one. Collective over the groups.
  virtual scaler::StepOutcome step(std::span<const at::Tensor> gradients) = 0;
  /// Views, in the leaves' shapes.
  [[nodiscard]] virtual std::vector<at::Tensor> values() const = 0;
  [[nodiscard]] virtual std::vector<at::Tensor> gradients() const = 0;
  /// Every element zero, of the leaves' gradients and of their unscaled copies.
  virtual void zero_grad() = 0;
  [[nodiscard]] virtual scaler::Fp16State state() const = 0;
  virtual void load(const scaler::Fp16State& state) = 0;
};

/// Leaves in f16, bf16 or f32, rounded from master weights that start as `values`, or as the leaves where it is empty.
[[nodiscard]] std::unique_ptr<ScaledOptimizer> rounded_optimizer(std::vector<ScaledLeaf> leaves,
                                                                 std::span<const at::Tensor> values,
                                                                 const job::Optimizer& rule, const Scaling& scaling);
/// Leaves in f32, under PyTorch's scaler or, with a constant, a scale that stays. Throws Unsupported for other rules.
[[nodiscard]] std::unique_ptr<ScaledOptimizer> autocast_optimizer(const std::vector<ScaledLeaf>& leaves,
                                                                  const job::Optimizer& rule, const Scaling& scaling);

}  // namespace plumbline::training
