// harness/trainer/oracles/cut_layer.hpp: one layer, whole or cut over a tensor group, with its gradients.
#pragma once

#include "reference/training/tensor/layers.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

/// As Training::cut_layer(), and without a group Training::whole_layer().
[[nodiscard]] LayerOutcome outcome_of(const CutLayer& layer, const TensorGroup* group, Arithmetic arithmetic);

}  // namespace plumbline::training
