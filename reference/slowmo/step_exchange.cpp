#include "reference/slowmo/detail/step_exchange.hpp"

#include <utility>

#include "reference/slowmo/elements.hpp"

namespace plumbline::slowmo {

using comm::Buffer;
using comm::Communicator;
using comm::DType;
using Timer = StepLog::Timer;

StepExchange::StepExchange(const Options& options, const Setting& setting, const Tensors& tensors,
                           const MasterWeights& masters, const NodeGroups& groups, Workspace& workspace, StepLog& log)
    : setting_(setting), tensors_(tensors), masters_(masters), groups_(groups), workspace_(workspace), log_(log) {
  if (setting_.sgp) gossip_.emplace(groups_.masters(), options, setting_);
}

void StepExchange::average_gradients(std::span<const Buffer> gradients) {
  Communicator* const node = groups_.node();
  if (node == nullptr) return;
  const Timer timer(log_, Phase::gradients);
  all_reduce_mean(*node, gradients, setting_.ranks_per_node, setting_.convention, workspace_);
}

// ---- numerators ----

void StepExchange::take_estimate() {
  if (!std::exchange(is_numerator_, false) || is_lazy()) return;
  divide(place(), tensors_.parameters, weight());
}

void StepExchange::take_numerator() {
  if (std::exchange(is_numerator_, true) || is_lazy()) return;
  multiply(place(), tensors_.parameters, weight());
}

// ---- gossip ----

void StepExchange::set_round(std::int64_t round) {
  if (gossip_) gossip_->set_round(round);
}

void StepExchange::mix() {
  const Timer timer(log_, Phase::gossip);
  take_numerator();
  gossip_->mix(tensors_.parameters);
}

// What the master hands over leaves its node, so the others' parameters follow.
void StepExchange::hand_over(std::int64_t step) {
  const Timer timer(log_, Phase::gossip);
  take_numerator();
  if (is_under_way_) return;
  gossip_->reserve(tensors_.parameters);  // before the masters' change
  keep_errors(1);
  if (!gossip_->hand_over(tensors_.parameters))
    log_.warn(Warning::What::not_mixed, "what was handed over to gossip before is not collected yet");
  share_in_node();
  add_errors();
  copy_back();
  is_under_way_ = true;
  handed_over_in_ = step;
}

void StepExchange::collect() {
  const Timer timer(log_, Phase::gossip);
  if (!is_under_way_) return;
  keep_errors(1);
  std::int64_t mixed = 0;
  if (setting_.is_master()) {
    using Collected = gossip::GossipThread::Collected;
    const Collected collected = gossip_->collect(tensors_.parameters);
    if (collected == Collected::nothing) log_.warn(Warning::What::not_gossiping, "nothing was handed over to gossip");
    mixed = collected == Collected::mixed ? 1 : 0;
  }
  if (Communicator* const node = groups_.node()) node->broadcast({&mixed, 1, DType::i64}, 0);
  if (mixed == 1) {
    share_in_node();
    is_under_way_ = false;
  }
  add_errors();
  if (mixed == 1) copy_back();
}

void StepExchange::drain() {
  take_numerator();
  collect();
}

// ---- averages ----

void StepExchange::average() {
  const Timer timer(log_, Phase::average);
  if (setting_.is_master())
    all_reduce_mean(*groups_.masters(), tensors_.parameters, setting_.nodes, setting_.convention, workspace_);
}

void StepExchange::share_in_node() {
  const Timer timer(log_, Phase::node);
  Communicator* const node = groups_.node();
  if (node == nullptr) return;
  broadcast(*node, tensors_.parameters, 0, workspace_);
  // FairScale's other ranks keep the weight that they have, 1.
  if (!setting_.sgp || is_lazy() || setting_.convention == Convention::fairscale) return;
  double of_master = weight();
  node->broadcast({&of_master, 1, DType::f64}, 0);
  gossip_->follow(of_master);
}

// ---- what halves lose ----

void StepExchange::keep_errors(int divisor) {
  const Timer timer(log_, Phase::error_before);
  masters_.keep_errors(place(), divisor);
}

void StepExchange::add_errors() {
  const Timer timer(log_, Phase::error_after);
  masters_.add_errors(place());
}

void StepExchange::copy_back() {
  const Timer timer(log_, Phase::copy_back);
  masters_.copy_back(place());
}

}  // namespace plumbline::slowmo
