#include "reference/gossip/detail/round_state.hpp"

#include <utility>

#include "reference/comm/dtype.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using comm::Call;
using comm::Operation;

namespace {

// Where mixing is not lazy the weight is another between the parts of a round, although it can be 1 after it.
bool must_carry_weight(bool is_lazy, const Mixing& mixing) {
  return !is_lazy && mixing.kind != MixingKind::metropolis_hastings;
}

}  // namespace

Buffer MessageMemory::take(const device::MemorySpace& place, std::int64_t count, comm::DType dtype) {
  if (next_ == buffers_.size()) buffers_.emplace_back();
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  return {buffers_[next_++].take(place, bytes), count, dtype, place.device()};
}

RoundState::RoundState(comm::Communicator& nodes, Graph of_nodes, Mixing of_mass, const PushSumOptions& chosen)
    : group(&nodes),
      graph(std::move(of_nodes)),
      mixing(std::move(of_mass)),
      options(chosen),
      is_fairscale(graph.options().convention == Convention::fairscale),
      is_lazy(options.lazy && gossip::is_lazy(graph, mixing)),
      carries_weight(must_carry_weight(is_lazy, mixing)),
      plans(graph, mixing, nodes.rank()) {}

const TypeBucket& RoundState::weight_bucket() const { return buckets[is_fairscale ? buckets.size() - 1 : 0]; }

double RoundState::rounded(const TypeBucket& bucket, double weight_of_it) const {
  return is_fairscale ? comm::rounded_to(bucket.dtype, weight_of_it) : weight_of_it;
}

double RoundState::ratio_of(const Shares& shares, double sent) const {
  if (is_lazy) return 1;
  const double ratio = sent / shares.kept;
  return is_fairscale ? double{static_cast<float>(ratio)} : ratio;
}

bool RoundState::takes_turns() const { return options.algorithm == Algorithm::push_pull && graph.is_bipartite(); }

int RoundState::tag_of(Message message) const {
  constexpr std::int64_t rounds = 4096;
  return static_cast<int>(exchanges % rounds) * 4 + static_cast<int>(message);
}

Call send_of(comm::ConstBuffer values, int to, int tag) {
  return {.operation = Operation::send, .root = to, .tag = tag, .in = values, .out = {}};
}

Call receive_of(Buffer values, int from, int tag) {
  return {.operation = Operation::recv, .root = from, .tag = tag, .in = {}, .out = values};
}

std::vector<Buffer> some_of(std::span<const Buffer> x, std::span<const std::size_t> which) {
  std::vector<Buffer> some;
  for (const std::size_t tensor : which) some.push_back(x[tensor]);
  return some;
}

}  // namespace plumbline::gossip
