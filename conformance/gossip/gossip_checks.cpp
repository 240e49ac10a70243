#include "conformance/gossip/gossip_checks.hpp"

namespace plumbline::conformance {

void add_gossip_checks(suite::Suite& suite) {
  add_recorded_gossip_checks(suite);
  add_gossip_graph_checks(suite);
  add_gossip_rate_checks(suite);
  add_push_sum_checks(suite);
  add_gossip_failure_checks(suite);
  add_gossip_meeting_checks(suite);
  add_gossip_device_checks(suite);
  add_gossip_trace_checks(suite);
  add_live_round_checks(suite);
  add_gossip_size_checks(suite);
}

}  // namespace plumbline::conformance
