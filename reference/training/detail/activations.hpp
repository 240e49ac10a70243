// reference/training/detail/activations.hpp: outputs of layers, and their gradients, kept while a step is computed.
//
// Model   A layer's output of a micro-batch is noted when the layer has run; its gradient comes when back-propagation
//         has added up all uses of the output. Of a layer that is cut over tensor ranks it is the rank's part.
// Memory  Outputs are kept until they are taken, also those that no backward pass needs.
// Threads Serves one rank.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace plumbline::training {

/// Is told of each layer's output, right after it was computed.
using LayerObserver = std::function<void(int layer, const at::Tensor& output)>;

struct KeptActivation {
  int layer = 0;
  int micro_batch = 0;
  at::Tensor output;
  at::Tensor gradient = {};  // undefined where no loss depends on the output
};

class ActivationTape {
 public:
  /// What is observed from now on is of this micro-batch.
  void begin(int micro_batch) { micro_batch_ = micro_batch; }
  /// Notes into this tape, which must outlive it.
  [[nodiscard]] LayerObserver observer();
  /// All that was noted since, in the order of the computations.
  [[nodiscard]] std::vector<KeptActivation> take();

 private:
  int micro_batch_ = 0;
  std::vector<std::shared_ptr<KeptActivation>> kept_;
};

}  // namespace plumbline::training
