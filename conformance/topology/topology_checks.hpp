// conformance/topology/topology_checks.hpp: the checks of component "topology", rows by subject.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Adds all of them: those of each subject below.
void add_topology_checks(suite::Suite& suite);

void add_map_checks(suite::Suite& suite);
void add_deepspeed_checks(suite::Suite& suite);
void add_topology_refusal_checks(suite::Suite& suite);
void add_grid_checks(suite::Suite& suite);
void add_order_checks(suite::Suite& suite);
void add_run_checks(suite::Suite& suite);
void add_mesh_checks(suite::Suite& suite);
void add_placement_checks(suite::Suite& suite);
void add_recorded_checks(suite::Suite& suite);
void add_view_checks(suite::Suite& suite);
void add_topology_size_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
