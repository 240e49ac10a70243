// conformance/gossip/gossip_checks.hpp: the checks of gossip.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Answers that FairScale and BlueFog gave: GOSSIP-001 to GOSSIP-007.
void add_recorded_gossip_checks(suite::Suite& suite);
/// Who sends to whom: GOSSIP-010 to GOSSIP-020.
void add_gossip_graph_checks(suite::Suite& suite);
/// Shares, rates and simulation: GOSSIP-021 to GOSSIP-027.
void add_gossip_rate_checks(suite::Suite& suite);
/// Real messages: GOSSIP-030 and up.
void add_push_sum_checks(suite::Suite& suite);
/// What goes wrong on the way, and the thread: GOSSIP-040 and up.
void add_gossip_failure_checks(suite::Suite& suite);
/// Two nodes that meet only each other: GOSSIP-200 and up.
void add_gossip_meeting_checks(suite::Suite& suite);
/// Tensors in memory of devices: GOSSIP-180 and up.
void add_gossip_device_checks(suite::Suite& suite);
/// Rounds as an adapter answers them: GOSSIP-030, 032, 034, 036, 037.
void add_gossip_trace_checks(suite::Suite& suite);
/// Live rounds of an adapter.
void add_live_round_checks(suite::Suite& suite);
/// Each operation at sizes of real use.
void add_gossip_size_checks(suite::Suite& suite);
/// All of them.
void add_gossip_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
