// reference/slowmo/detail/step_exchange.hpp: what a step communicates: gradients inside a node, parameters between
// nodes, and what halves lose by it.
//
// Model   With SGP parameters are numerators x or estimates x / w; both are taken in place. A round of gossip that
//         overlaps is handed over in one step and collected in a later one. Without SGP there are averages alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/detail/master_weights.hpp"
#include "reference/slowmo/detail/node_gossip.hpp"
#include "reference/slowmo/detail/node_groups.hpp"
#include "reference/slowmo/detail/step_log.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::slowmo {

class StepExchange {
 public:
  /// All of them outlive this. Throws as NodeGossip.
  StepExchange(const Options& options, const Setting& setting, const Tensors& tensors, const MasterWeights& masters,
               const NodeGroups& groups, Workspace& workspace, StepLog& log);

  /// Averages gradients inside the node.
  void average_gradients(std::span<const comm::Buffer> gradients);

  // ---- numerators ----

  [[nodiscard]] double weight() const { return gossip_ ? gossip_->weight() : 1; }
  [[nodiscard]] bool is_lazy() const { return gossip_ && gossip_->is_lazy(); }
  [[nodiscard]] bool is_numerator() const { return is_numerator_; }
  void set_weight(double weight) { gossip_->set_weight(weight); }
  void set_numerator(bool is_numerator) { is_numerator_ = is_numerator; }
  void take_estimate();
  void take_numerator();

  // ---- gossip ----

  [[nodiscard]] std::int64_t round() const { return gossip_->round(); }
  void set_round(std::int64_t round);
  /// One round.
  void mix();
  /// Begins a round that overlaps, unless one is under way.
  void hand_over(std::int64_t step);
  /// Waits for the round under way and adds it.
  void collect();
  /// The step of the last hand_over().
  [[nodiscard]] std::int64_t handed_over_in() const { return handed_over_in_; }
  /// Adds what is under way, before anything that needs all of it.
  void drain();

  // ---- averages ----

  /// Over the nodes' masters.
  void average();
  /// Gives the other ranks of the node what its master has.
  void share_in_node();

  // ---- what halves lose: master_weights.hpp, with the time that it takes ----

  void keep_errors(int divisor);
  void add_errors();
  void copy_back();

 private:
  [[nodiscard]] const MemorySpace& place() const { return workspace_.place(); }

  const Setting& setting_;
  const Tensors& tensors_;
  const MasterWeights& masters_;
  const NodeGroups& groups_;
  Workspace& workspace_;
  StepLog& log_;
  std::optional<NodeGossip> gossip_;  // of SGP
  std::int64_t handed_over_in_ = 0;
  bool is_numerator_ = false, is_under_way_ = false;
};

}  // namespace plumbline::slowmo
