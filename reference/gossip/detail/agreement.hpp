// reference/gossip/detail/agreement.hpp: the comparison of all nodes' graphs, mixings and rounds before the first
// exchange.
//
// Model   Two messages to all: a hash of what decides the plans, and the lists of peers. A comparison that was cut
//         before the second one goes on there, since others may have been done with the first.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"

namespace plumbline::gossip {

class Agreement {
 public:
  /// Compares what the nodes do from `round` on, unless that is done. `can_meet`: whether this node makes rounds in
  /// place. Throws MismatchError where they differ, and what the communicator throws.
  void make(comm::Communicator& group, const Graph& graph, const Mixing& mixing, std::int64_t round, bool can_meet,
            std::chrono::nanoseconds heartbeat);
  [[nodiscard]] bool is_made() const { return is_made_; }
  /// From the first message on, over another group.
  void begin_anew() {
    is_made_ = false;
    headers_.clear();
  }

  /// Whether all nodes make rounds in place, as far as is known.
  [[nodiscard]] bool all_meet() const { return all_meet_; }
  void set_all_meet(bool all) { all_meet_ = all; }

 private:
  void exchange_headers(comm::Communicator& group, const Graph& graph, const Mixing& mixing, std::int64_t round,
                        bool can_meet, std::chrono::nanoseconds heartbeat);
  void judge(const comm::Communicator& group, std::int64_t round, const std::vector<std::int64_t>& headers,
             const std::vector<std::int32_t>& lists);

  bool is_made_ = false, all_meet_ = false;
  std::vector<std::int64_t> headers_;  // of all nodes, where the first message is made and the second is not
};

}  // namespace plumbline::gossip
