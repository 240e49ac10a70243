// reference/gossip/detail/round_operations.hpp: the operation that runs live rounds, beside those that describe them.
#pragma once

namespace plumbline::adapter {

class AdapterService;

/// gossip.rounds.
void add_round_operations(AdapterService& service);

}  // namespace plumbline::adapter
