#include "conformance/slowmo/slowmo_checks.hpp"

namespace plumbline::conformance {

void add_slowmo_checks(suite::Suite& suite) {
  add_slowmo_step_checks(suite);
  add_slowmo_gossip_checks(suite);
  add_slowmo_state_checks(suite);
  add_slowmo_setting_checks(suite);
  add_slowmo_lattice_checks(suite);
  add_slowmo_optimizer_checks(suite);
  add_slowmo_element_checks(suite);
  add_slowmo_device_checks(suite);
  add_slowmo_recorded_checks(suite);
  add_slowmo_trace_checks(suite);
  add_slowmo_option_trace_checks(suite);
  add_slowmo_size_checks(suite);
}

}  // namespace plumbline::conformance
