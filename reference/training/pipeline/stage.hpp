// reference/training/pipeline/stage.hpp: a part of a model, as a pipeline runs it.
//
// Model   A stage makes tensors of tensors: the outputs of one are the inputs of the next. Its parameters and running
//         statistics are named tensors that it shares with its callers, so that optimizers, records and checkpoints
//         need know nothing of its layers.
// Split   With DeferredGradients, the backward pass of a layer computes the gradient of its input alone and leaves that
//         of its weights as a closure, which runs at the schedule's weight-gradient action: the matrix products of the
//         two together are those of one backward pass (Qi et al., arXiv:2401.10241).
// Threads A stage serves one rank.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace plumbline::training {

/// What goes from stage to stage: one tensor or several, of any type and shape.
using Tensors = std::vector<at::Tensor>;

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Weight gradients that are still to be computed, in the order in which the backward pass left them.
class DeferredGradients {
 public:
  /// `compute` makes the gradients of the leaves, one for each; an undefined leaf, or one that requires none, is left
  /// out.
  void add(Tensors leaves, std::function<Tensors()> compute) {
    work_.push_back({std::move(leaves), std::move(compute)});
  }
  /// Computes them all and adds them to the leaves' grad. A leaf that was used several times is added to once, with the
  /// sum, as by a backward pass.
  void compute() const;
  [[nodiscard]] bool empty() const { return work_.empty(); }

 private:
  struct Work {
    Tensors leaves;
    std::function<Tensors()> compute;
  };
  std::vector<Work> work_;
};

/// How a forward pass is done.
struct Pass {
  bool training = true;                   // else evaluation: running statistics are used and not changed
  DeferredGradients* deferred = nullptr;  // where weight gradients go; null: they are computed with the input's
};

class Stage {
 public:
  Stage() = default;
  virtual ~Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// The outputs for these inputs. Throws InvalidArgument for a number or shapes of inputs that the stage does not
  /// take.
  [[nodiscard]] virtual Tensors forward(const Tensors& inputs, const Pass& pass) = 0;
  /// Leaves that require gradients, in an order that is always the same; the names are unique in the whole model.
  [[nodiscard]] virtual std::vector<NamedTensor> parameters() const = 0;
  /// Running statistics, as named tensors.
  [[nodiscard]] virtual std::vector<NamedTensor> buffers() const { return {}; }
};

}  // namespace plumbline::training
