// conformance/scaler/scaler_checks.hpp: the checks of loss scaling, of what a group agrees on, and of clipping.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// All of them.
void add_scaler_checks(suite::Suite& suite);

/// PyTorch's scaler, call by call: SCALER-001 to SCALER-012.
void add_torch_scaler_checks(suite::Suite& suite);
/// The scales of Megatron-LM, ColossalAI and DeepSpeed: SCALER-020 to SCALER-035.
void add_scale_rule_checks(suite::Suite& suite);
/// Who skips, and norms, as adapters answer: SCALER-040 to SCALER-053, 081.
void add_skipping_checks(suite::Suite& suite);
/// Norms apart from clipping, over parts of a model: SCALER-131, 132.
void add_norm_checks(suite::Suite& suite);
/// Overflows found in gradients: SCALER-133, 134.
void add_overflow_checks(suite::Suite& suite);
/// Gradients that are divided by the scale.
void add_unscale_checks(suite::Suite& suite);
/// Optimizers with 16-bit parameters on live groups: SCALER-060 to SCALER-073, 082.
void add_optimizer_checks(suite::Suite& suite);
/// Unscaling, arguments and states of an optimizer: SCALER-114 to SCALER-118.
void add_optimizer_argument_checks(suite::Suite& suite);
/// Optimizers with 16-bit parameters, and clipping over ranks, as adapters answer: SCALER-060 to SCALER-073, 112, 116,
/// 120 to 122, 126, 129, 130.
void add_optimizer_answer_checks(suite::Suite& suite);
/// PyTorch's scaler as a class, on live groups: SCALER-126 to SCALER-128.
void add_grad_scaler_checks(suite::Suite& suite);
/// What the peers answered: SCALER-014, 025, 026, 034, 045, 053, 076, 080.
void add_recorded_scaler_checks(suite::Suite& suite);
/// Each operation at sizes of real use.
void add_scaler_size_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
