// conformance/components.hpp: what each component contributes: its requirements, the checks that verify them, and the
// mutants that violate them. Each is defined in <component>/<component>.cpp.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

void add_bucketing(suite::Suite& suite);
void add_collectives(suite::Suite& suite);
void add_gossip(suite::Suite& suite);
void add_groups(suite::Suite& suite);
void add_pass(suite::Suite& suite);
void add_pipeline(suite::Suite& suite);
void add_scaler(suite::Suite& suite);
void add_schedules(suite::Suite& suite);
void add_slowmo(suite::Suite& suite);
void add_topology(suite::Suite& suite);
void add_training(suite::Suite& suite);

}  // namespace plumbline::conformance
