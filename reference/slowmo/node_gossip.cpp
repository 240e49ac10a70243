#include "reference/slowmo/detail/node_gossip.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/gossip/mixing.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;

gossip::Graph graph_of(const Options& options, const Setting& setting) {
  if (!options.graph)
    return gossip::Graph({.nodes = setting.nodes,
                          .ranks_per_node = setting.ranks_per_node,
                          .peers = 1,
                          .convention = options.convention});
  if (options.graph->nodes() != setting.nodes)
    throw InvalidArgument(
        fmt::format("slowmo: the graph is of {} nodes, and there are {}", options.graph->nodes(), setting.nodes));
  return *options.graph;
}

}  // namespace

NodeGossip::NodeGossip(comm::Communicator* masters, const Options& options, const Setting& setting)
    : graph_(graph_of(options, setting)), mixing_(options.mixing), heartbeat_(options.heartbeat), node_(setting.node) {
  // Where gossip lags, what the optimizer adds meanwhile must not be multiplied by a share.
  const bool lags = setting.overlap && options.synch_freq > 0;
  is_lazy_ = gossip::is_lazy(graph_, mixing_) && !lags;
  if (!setting.is_master()) return;
  const gossip::PushSumOptions as{
      .algorithm = options.push_sum ? gossip::Algorithm::push_sum : gossip::Algorithm::push_pull,
      .heartbeat = heartbeat_,
      .lazy = is_lazy_,
      .device = options.device,
      .use_streams = options.use_streams};
  if (setting.overlap)
    thread_ = std::make_unique<gossip::GossipThread>(masters->duplicate(), graph_, mixing_, as);
  else
    push_sum_.emplace(*masters, graph_, mixing_, as);
}

void NodeGossip::set_weight(double weight) {
  weight_ = weight;
  if (thread_) thread_->set_weight(weight);
  if (push_sum_) push_sum_->set_weight(weight);
}

void NodeGossip::set_round(std::int64_t round) {
  if (thread_) thread_->set_round(round);
  if (push_sum_) push_sum_->set_round(round);
}

void NodeGossip::mix(std::span<const Buffer> x) {
  if (!push_sum_) return;
  const auto until = Clock::now() + std::min<std::chrono::nanoseconds>(heartbeat_, std::chrono::hours(24 * 365));
  try {
    push_sum_->mix(x);
  } catch (const RuntimeFailure& error) {
    if (!push_sum_->is_interrupted() || !gossip::may_pass(error)) throw;
    mix_again(x, error.what(), until);
  }
  weight_ = push_sum_->weight();
}

// The same values, not mixed again.
void NodeGossip::mix_again(std::span<const Buffer> x, std::string interruption, Clock::time_point until) {
  const std::string words = push_sum_->words_of_round();
  gossip::Backoff backoff(heartbeat_);
  while (push_sum_->is_interrupted()) {
    if (Clock::now() >= until) throw gossip::late_round(words, interruption, heartbeat_);
    std::this_thread::sleep_until(std::min(Clock::now() + backoff.next(), until));
    try {
      push_sum_->retry(x);
    } catch (const RuntimeFailure& error) {
      if (!gossip::may_pass(error)) throw;
      interruption = error.what();
    }
  }
}

void NodeGossip::reserve(std::span<const Buffer> x) {
  kept_ = is_lazy_ ? 1 : gossip::shares_of(graph_, mixing_, node_, thread_ ? thread_->round() : 0).kept;
  if (thread_) thread_->reserve(x);
}

bool NodeGossip::hand_over(std::span<const Buffer> x) {
  const bool is_taken = !thread_ || thread_->hand_over(x);
  weight_ *= kept_;
  return is_taken;
}

gossip::GossipThread::Collected NodeGossip::collect(std::span<const Buffer> x) {
  using Collected = gossip::GossipThread::Collected;
  Collected collected = Collected::interrupted;
  while (collected == Collected::interrupted) collected = thread_->collect(x, true);
  if (collected == Collected::mixed) weight_ = thread_->weight();
  return collected;
}

}  // namespace plumbline::slowmo
