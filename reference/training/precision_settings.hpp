// reference/training/precision_settings.hpp: how a run in 16 bits is made, as a user says it. Free of LibTorch.
//
// Model   run.dtype says in which numbers layers compute, [scaler] by what losses are multiplied. Two ways lead there:
//           rounded    parameters are numbers of run.dtype, rounded from masters in float32 that the optimizer steps
//                      (ColossalAI's naive AMP, Megatron-LM's mixed precision)
//           autocast   parameters stay in float32; LibTorch rounds what each layer takes, and some layers stay in float32
//                      (torch.amp)
//         Both leave the same record: masters, gradients divided by the scale, whether the step was skipped.
// Source  Micikevicius et al., Mixed Precision Training, ICLR 2018; torch.amp.
#pragma once

#include "reference/record/run_spec.hpp"

namespace plumbline::training {

struct PrecisionSettings {
  bool autocast = false;
  double clip_norm = 0;  // of gradients over the whole model; 0: they are not clipped
  double norm_type = 2;  // above 0, or infinity
  friend bool operator==(const PrecisionSettings&, const PrecisionSettings&) = default;
};

/// Whether masters, a scale or a norm stand between gradients and optimizer.
[[nodiscard]] bool is_mixed(const job::RunSpec& spec, const PrecisionSettings& settings);

/// Whether ranks run by the engine of pipelines: their model is cut, or the run is mixed.
[[nodiscard]] bool is_staged(const job::RunSpec& spec, const PrecisionSettings& settings);

/// Throws InvalidArgument, naming the setting, for a norm that is none, and autocast in float32; Unsupported for autocast with
/// a schedule that splits the backward pass.
void require_possible(const job::RunSpec& spec, const PrecisionSettings& settings);

}  // namespace plumbline::training
