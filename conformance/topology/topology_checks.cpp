#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

void add_topology_checks(suite::Suite& suite) {
  add_map_checks(suite);
  add_topology_refusal_checks(suite);
  add_grid_checks(suite);
  add_order_checks(suite);
  add_run_checks(suite);
  add_mesh_checks(suite);
  add_placement_checks(suite);
  add_recorded_checks(suite);
  add_deepspeed_checks(suite);
  add_view_checks(suite);
  add_topology_size_checks(suite);
}

}  // namespace plumbline::conformance
