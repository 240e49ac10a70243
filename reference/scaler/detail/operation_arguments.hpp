// reference/scaler/detail/operation_arguments.hpp: what the operations about scalers read in the same way, and hand to
// each other.
#pragma once

#include "reference/adapter/arguments.hpp"
#include "reference/scaler/loss_scale.hpp"

namespace plumbline::adapter {

/// Megatron-LM's rule has no maximum, ColossalAI's may have one.
enum class HasMaximum { no, yes };
/// The rule that `init` names, unchecked. What it leaves out is as usual.
[[nodiscard]] scaler::HysteresisRule hysteresis_rule(const Arguments& init, HasMaximum has_maximum);

/// `lr`, which PyTorch's optimizers refuse below 0.
[[nodiscard]] double learning_rate(const Arguments& arguments, double otherwise);

/// scaler.clip_grad_norm of gradients on the ranks of a model group: {"ranks": [{"norm", "clipped"}]}. Throws
/// InvalidArgument, as ColossalAI also for orders other than 2 and infinity.
[[nodiscard]] nlohmann::json clip_over_ranks(const Arguments& arguments, bool as_colossalai);

}  // namespace plumbline::adapter
