// conformance/slowmo/slowmo_checks.hpp: the checks of SlowMo, LocalSGD and stochastic gradient push.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// All of them.
void add_slowmo_checks(suite::Suite& suite);

/// What averages and slow steps come to, and when they are made.
void add_slowmo_step_checks(suite::Suite& suite);
/// Push-sum between nodes, ranks inside them.
void add_slowmo_gossip_checks(suite::Suite& suite);
/// Halves, buffers, checkpoints, options.
void add_slowmo_state_checks(suite::Suite& suite);
/// What comes of options, what is told, and which checkpoints fit.
void add_slowmo_setting_checks(suite::Suite& suite);
/// Outer optimizers, and averages of other periods.
void add_slowmo_lattice_checks(suite::Suite& suite);
/// What ranks do by themselves between averages.
void add_slowmo_optimizer_checks(suite::Suite& suite);
/// Arithmetic on tensors of any floating types, on the host and on devices.
void add_slowmo_element_checks(suite::Suite& suite);
/// Parameters in memory of devices: SLOWMO-180 and up.
void add_slowmo_device_checks(suite::Suite& suite);
/// Answers as recorded from FairScale.
void add_slowmo_recorded_checks(suite::Suite& suite);
/// Steps of training as an adapter answers them, by the papers' formulas.
void add_slowmo_trace_checks(suite::Suite& suite);
/// Options of that trace, the environment of its ranks, and parameters without gradients.
void add_slowmo_option_trace_checks(suite::Suite& suite);
/// The trace at sizes of real use.
void add_slowmo_size_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
