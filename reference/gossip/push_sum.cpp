#include "reference/gossip/push_sum.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/detail/agreement.hpp"
#include "reference/gossip/detail/piecewise_round.hpp"
#include "reference/gossip/detail/round_messages.hpp"
#include "reference/gossip/detail/round_state.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using comm::DType;

// ---- A round.

void PushSum::mix(std::span<const Buffer> x) {
  if (is_interrupted())
    throw StateError(fmt::format("round {} of gossip was interrupted on node {}; it must be repeated first", round_,
                                 state_->group->rank()));
  sort_by_type(x);
  make_round(x);
}

// Kempe et al., Push-Sum: node i sends the share a_ji of (x, w) to each peer j and keeps a_ii; the sum of what comes is
// its new (x, w). Two nodes that meet only each other, and large tensors, have it in other orders with the same bits.
// Until x or w is changed the round is `begun`, so that what fails before is made from the beginning.
void PushSum::make_round(std::span<const Buffer> x) {
  phase_ = Phase::begun;
  agree();
  if (meets_one()) return meet(x);
  if (mixes_in_pieces(x)) return mix_in_pieces(x);
  prepare(x);
  exchange_all(x);
  absorb(x, incoming_);
}

// x_i *= a_ii, w_i *= a_ii. Where mixing is lazy absorb() multiplies the sum, and weights stay 1.
void PushSum::prepare(std::span<const Buffer> x) {
  sort_by_type(x);
  if (state_->is_lazy || state_->buckets.empty()) return;
  for (const TypeBucket& bucket : state_->buckets) {
    const double kept =
        state_->is_fairscale ? state_->weight_bucket().kept : state_->plans.of(bucket.round).shares.kept;
    scale(state_->place, some_of(x, bucket.tensors), kept);
  }
  prepare_weight();
}

void PushSum::prepare_weight() {
  if (!state_->carries_weight) return;
  const TypeBucket& deciding = state_->weight_bucket();
  const double kept = state_->is_fairscale ? deciding.kept : state_->plans.of(deciding.round).shares.kept;
  state_->weight = state_->rounded(state_->buckets.front(), state_->weight * kept);
}

Incoming PushSum::exchange(std::span<const Buffer> x) {
  sort_by_type(x);
  exchange_all(x);
  return incoming_;
}

// Sends x_i * a_ji / a_ii to each peer j, and w_i * a_ji / a_ii; receives theirs. What was cut continues with the type
//       at which
// it was.
void PushSum::exchange_all(std::span<const Buffer> x) {
  phase_ = Phase::exchanging;
  std::vector<TypeBucket>& buckets = state_->buckets;
  const bool has_come = next_bucket_ > 0 || (!buckets.empty() && buckets.front().has_come);
  if (!has_come) {
    incoming_.values.assign(x.size(), {});
    incoming_.weight = 0;
  }
  agree();
  for (; next_bucket_ < buckets.size(); ++next_bucket_) {
    TypeBucket& bucket = buckets[next_bucket_];
    naming_peers(bucket.round, [&] { exchange_whole(*messages_, bucket, x, incoming_); });
    end_round_of(bucket);
  }
  next_bucket_ = 0;
  end_round();
  phase_ = Phase::idle;
}

// x_i += the sum of what came, and w_i the same.
void PushSum::absorb(std::span<const Buffer> x, const Incoming& incoming) {
  sort_by_type(x);
  for (const TypeBucket& bucket : state_->buckets) {
    std::vector<Arrivals> tensors;
    for (const std::size_t tensor : bucket.tensors) tensors.push_back({x[tensor], incoming.values[tensor]});
    const double kept = state_->is_fairscale ? state_->weight_bucket().kept : bucket.kept;
    gossip::mix(state_->place, tensors, {kept, state_->is_lazy});
  }
  if (!state_->buckets.empty()) absorb_weight(incoming.weight);
}

void PushSum::absorb_weight(double incoming) {
  if (!state_->carries_weight) return;
  const TypeBucket& first = state_->buckets.front();
  state_->weight = state_->rounded(first, state_->weight + state_->rounded(first, incoming));
}

void PushSum::end_round_of(TypeBucket& bucket) {
  bucket.kept = state_->plans.of(bucket.round).shares.kept;
  bucket.has_come = false;
  bucket.confirms = true;
  bucket.has_sent.clear();
  ++state_->exchanges;
  if (state_->is_fairscale) {
    // One graph for all types: each mix turns it, and the bucket keeps what it saw last.
    turn();
    bucket.round = round_;
  }
}

// As fairscale each bucket has turned the graph already.
void PushSum::end_round() {
  if (state_->is_fairscale && !state_->buckets.empty()) return;
  turn();
  for (TypeBucket& bucket : state_->buckets) bucket.round = round_;
}

void PushSum::turn() {
  if (state_->graph.is_dynamic()) ++round_;
}

// ---- Before the first round, and in each: what nodes and callers must agree on.

void PushSum::sort_by_type(std::span<const Buffer> x) {
  for (const Buffer& tensor : x)
    if (!comm::is_floating(tensor.dtype))
      throw Unsupported(fmt::format("gossip of {}; only floating types have a mean", comm::name_of(tensor.dtype)));
  if (!state_->buckets.empty()) return require_same_types(x);
  const device::MemorySpace place = device::place_of("gossip", x, state_->options.device);
  device::require_served("gossip", *state_->group, place);
  std::vector<TypeBucket> buckets;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto bucket = std::ranges::find(buckets, x[i].dtype, &TypeBucket::dtype);
    if (bucket == buckets.end()) {
      TypeBucket made;
      made.dtype = x[i].dtype;
      made.round = round_;
      made.kept = kept();
      bucket = buckets.insert(buckets.end(), std::move(made));
    }
    bucket->tensors.push_back(i);
  }
  state_->buckets = std::move(buckets);
  state_->place = place;
}

void PushSum::require_same_types(std::span<const Buffer> x) const {
  std::size_t tensors = 0;
  for (const TypeBucket& bucket : state_->buckets) tensors += bucket.tensors.size();
  if (x.size() != tensors)
    throw InvalidArgument(fmt::format("a round of gossip of {} tensors; those before it had {}", x.size(), tensors));
  for (const TypeBucket& bucket : state_->buckets)
    for (const std::size_t tensor : bucket.tensors)
      if (x[tensor].dtype != bucket.dtype)
        throw InvalidArgument(fmt::format("a round of gossip whose tensor {} is of {}; those before it had {} there",
                                          tensor, comm::name_of(x[tensor].dtype), comm::name_of(bucket.dtype)));
  device::require_at("a round of gossip like those before it", x, state_->place);
}

// Each node has heard of all others before it sends the first message.
void PushSum::agree() {
  if (!state_->options.verifies || state_->graph.nodes() == 1) return;
  const bool can_meet = can_exchange_in_place();
  agreement_->make(*state_->group, state_->graph, state_->mixing, first_round_, can_meet, state_->options.heartbeat);
}

bool PushSum::can_exchange_in_place() const {
  return state_->place.is_host() && state_->group->pair_exchanges() != nullptr;
}

template <class Part>
void PushSum::naming_peers(std::int64_t round, const Part& part) {
  const auto words = [&](const Error& error) {
    return fmt::format("round {} of gossip: node {} {}: {}", round, state_->group->rank(),
                       words_of(state_->plans.of(round).peers), error.what());
  };
  try {
    part();
  } catch (const comm::TimeoutError& error) {
    throw comm::TimeoutError(words(error));
  } catch (const comm::PeerFailed& error) {
    throw comm::PeerFailed(words(error));
  }
}

// ---- The round of two nodes that meet only each other, in place.

// Fairscale rounds what stays and weights to the tensors' type where they are not 1, and has a round for each type.
bool PushSum::meets_one() const {
  const std::vector<TypeBucket>& buckets = state_->buckets;
  if (!agreement_->all_meet() || !state_->place.is_host() || buckets.empty() ||
      (state_->is_fairscale && (!state_->is_lazy || buckets.size() > 1)))
    return false;
  return state_->plans.of(buckets.front().round).met != RoundPlan::kNobody;
}

void PushSum::meet(std::span<const Buffer> x) {
  const std::int64_t round = state_->buckets.front().round;
  const RoundPlan& plan = state_->plans.of(round);
  const double kept = plan.shares.kept, sent = state_->ratio_of(plan.shares, plan.shares.sent[0]);
  const comm::PairFactors factors = state_->is_lazy ? comm::PairFactors{1, 1, kept} : comm::PairFactors{kept, sent, 1};
  meeting_.clear();
  for (const TypeBucket& bucket : state_->buckets)
    for (const std::size_t tensor : bucket.tensors) meeting_.push_back({x[tensor], factors});
  double weight = state_->weight;
  if (state_->carries_weight) meeting_.push_back({{&weight, 1, DType::f64}, {kept, sent, 1}});
  naming_peers(round, [&] {
    const comm::PairExchange exchange{
        .peer = plan.met, .tag = state_->tag_of(Message::values), .parts = meeting_, .update = gossip::meet};
    state_->group->pair_exchanges()->start(exchange).wait(state_->options.heartbeat);
  });
  state_->weight = weight;
  for (TypeBucket& bucket : state_->buckets) end_round_of(bucket);
  end_round();
  phase_ = Phase::idle;
}

// ---- The round of large tensors, piece by piece.

// Whether values may be mixed as they come, and sent from where they are.
bool PushSum::mixes_in_pieces(std::span<const Buffer> x) const {
  if (state_->options.fuse || state_->buckets.size() != 1 || !state_->place.is_host() || state_->takes_turns())
    return false;
  return std::ranges::any_of(
      x, [](const Buffer& tensor) { return tensor.bytes() > static_cast<std::size_t>(kPieceBytes); });
}

void PushSum::mix_in_pieces(std::span<const Buffer> x) {
  auto pieces = std::make_unique<PiecewiseRound>(*messages_, x);
  prepare_weight();  // when nothing can fail any more before the round: the weight is multiplied once
  pieces_ = std::move(pieces);
  go_on_in_pieces();
}

void PushSum::go_on_in_pieces() {
  TypeBucket& bucket = state_->buckets.front();
  phase_ = state_->options.confirms ? Phase::exchanging : Phase::torn;
  try {
    naming_peers(bucket.round, [&] { pieces_->mix(); });
  } catch (...) {
    if (phase_ == Phase::torn) pieces_.reset();  // which tells the others
    throw;
  }
  absorb_weight(pieces_->weight());
  pieces_.reset();
  end_round_of(bucket);
  end_round();
  phase_ = Phase::idle;
}

// ---- A round that was cut.

void PushSum::retry(std::span<const Buffer> x) {
  if (!is_interrupted()) throw StateError("no round of gossip was interrupted");
  if (phase_ == Phase::torn)
    throw StateError(fmt::format(
        "round {} of gossip was cut on node {} while values were mixed piece by piece, and some are mixed: it "
        "cannot be repeated; with confirmations it can",
        round_, state_->group->rank()));
  sort_by_type(x);
  if (phase_ == Phase::begun) return make_round(x);
  if (pieces_ != nullptr) return go_on_in_pieces();
  exchange_all(x);
  absorb(x, incoming_);
}

void PushSum::retry(comm::Communicator& group, std::span<const Buffer> x) {
  reconnect(group);
  if (is_interrupted()) retry(x);
}

void PushSum::reconnect(comm::Communicator& group) {
  const PushSumOptions& options = state_->options;
  if (!options.confirms)
    throw StateError(
        "a round of gossip without confirmations cannot be repeated over another group: it is not known which nodes "
        "have which values");
  if (group.size() != state_->graph.nodes() || group.rank() != state_->group->rank())
    throw InvalidArgument(
        fmt::format("group {} has other ranks than group {}", group.group().name, state_->group->group().name));
  state_->group = &group;
  if (options.device.runtime != nullptr) use_stream(options.device.stream);
  const bool is_compared = agreement_->is_made() || !options.verifies;
  const std::vector<NodeAt> nodes = gathered(
      {.exchanges = state_->exchanges,
       .pieces = pieces_here(),
       .can_meet = (is_compared ? agreement_->all_meet() : phase_ != Phase::exchanging) && can_exchange_in_place(),
       .is_compared = is_compared});
  const auto all_say = [&](std::int64_t NodeAt::* what) {
    return std::ranges::all_of(nodes, [](std::int64_t said) { return said != 0; }, what);
  };
  if (!all_say(&NodeAt::is_compared)) {
    agreement_->begin_anew();  // here, where all are: a node that was done might never compare again
    agree();
  }
  // A node that was done may have begun the round by messages, which the others must then make by messages, too.
  agreement_->set_all_meet(agreement_->all_meet() && all_say(&NodeAt::can_meet));
  if (phase_ == Phase::exchanging && next_bucket_ < state_->buckets.size()) send_what_is_missing(nodes);
}

std::vector<PushSum::NodeAt> PushSum::gathered(const NodeAt& own) {
  constexpr std::int64_t numbers = sizeof(NodeAt) / sizeof(std::int64_t);
  std::vector<NodeAt> nodes(static_cast<std::size_t>(state_->group->size()));
  // Others may notice that the group before has failed only when their own heartbeat time has passed.
  const std::chrono::nanoseconds patience =
      std::min<std::chrono::nanoseconds>(state_->options.heartbeat, std::chrono::hours(24 * 365)) * 2;
  state_->group->all_gather({&own, numbers, DType::i64}, {nodes.data(), numbers * std::ssize(nodes), DType::i64},
                            patience);
  return nodes;
}

// How much of the round under way is here: pieces, or all of it.
std::int64_t PushSum::pieces_here() const {
  if (pieces_ != nullptr) return static_cast<std::int64_t>(pieces_->come());
  const std::vector<TypeBucket>& buckets = state_->buckets;
  return is_interrupted() && next_bucket_ < buckets.size() && buckets[next_bucket_].has_come ? 1 : 0;
}

// Where a peer is done with this round it has all of it, and where it has not begun it nothing.
void PushSum::send_what_is_missing(const std::vector<NodeAt>& nodes) {
  TypeBucket& bucket = state_->buckets[next_bucket_];
  std::vector<std::size_t> had;  // of what is sent in the round, by each peer
  for (const int peer : state_->plans.of(bucket.round).peers.out) {
    const NodeAt& theirs = nodes[static_cast<std::size_t>(peer)];
    had.push_back(theirs.exchanges > state_->exchanges    ? std::numeric_limits<std::size_t>::max()
                  : theirs.exchanges == state_->exchanges ? static_cast<std::size_t>(theirs.pieces)
                                                          : 0);
  }
  if (pieces_ != nullptr) return pieces_->go_over(had);
  bucket.has_sent.clear();
  bucket.awaits.clear();
  for (const std::size_t values : had) {
    bucket.has_sent.push_back(values > 0);
    bucket.awaits.push_back(values == 0);
  }
  bucket.confirms = !bucket.has_come;  // whoever asked has just been told
}

// ---- What it is made of, and tells.

PushSum::PushSum(comm::Communicator& group, Graph graph, Mixing mixing, PushSumOptions options)
    : state_(std::make_unique<RoundState>(group, std::move(graph), std::move(mixing), options)),
      agreement_(std::make_unique<Agreement>()),
      messages_(std::make_unique<RoundMessages>(*state_)) {
  if (group.size() != state_->graph.nodes())
    throw InvalidArgument(fmt::format("a graph of {} nodes over group {} of {} ranks", state_->graph.nodes(),
                                      group.group().name, group.size()));
  const std::vector<int> book = state_->graph.phone_book(group.rank());
  if (std::ranges::find(book, group.rank()) != book.end())
    throw InvalidArgument(fmt::format("the peer list of node {} names the node itself: {}", group.rank(), book));
  if (options.device.runtime != nullptr) use_stream(options.device.stream);
}

PushSum::~PushSum() = default;

void PushSum::use_stream(device::Stream stream) {
  state_->options.device.stream = stream;
  state_->place.use_stream(stream);
  state_->group->use_stream(stream);
}

void PushSum::set_round(std::int64_t round) {
  state_->graph.require(state_->group->rank(), round);
  round_ = first_round_ = round;
  for (TypeBucket& bucket : state_->buckets) bucket.round = round;
}

std::string PushSum::words_of_round() const {
  const int node = state_->group->rank();
  return fmt::format("round {} of gossip over group {}: node {} {}", round_, state_->group->group().name, node,
                     words_of(state_->graph.peers(node, round_)));
}

comm::TimeoutError late_round(const std::string& round, const std::string& interruption,
                              std::chrono::nanoseconds heartbeat) {
  const std::string why = interruption.empty()
                              ? "has heard nothing"
                              : fmt::format("was interrupted again and again, the last time by '{}',", interruption);
  return comm::TimeoutError(fmt::format("{}, and {} for the heartbeat time of {} s", round, why,
                                        std::chrono::duration<double>(heartbeat).count()));
}

const Graph& PushSum::graph() const { return state_->graph; }
double PushSum::weight() const { return state_->weight; }
void PushSum::set_weight(double weight) { state_->weight = weight; }
double PushSum::kept() const { return state_->plans.shares_of(round_).kept; }
bool PushSum::carries_weight() const { return state_->carries_weight; }

std::int64_t PushSum::bytes_per_round(std::int64_t elements, DType dtype) const {
  const Peers peers = state_->graph.peers(state_->group->rank(), round_);
  const auto out = static_cast<std::int64_t>(peers.out.size());
  const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(dtype));
  const PushSumOptions& options = state_->options;
  const std::int64_t pieces = options.fuse ? 1 : std::max<std::int64_t>(1, (bytes + kPieceBytes - 1) / kPieceBytes);
  const std::int64_t confirmations = options.confirms ? pieces * static_cast<std::int64_t>(peers.in.size()) : 0;
  return out * (bytes + (carries_weight() ? 8 : 0)) + confirmations;
}

void divide(std::span<const Buffer> x, double weight) {
  device::require_at("gossip: divide", x, {});
  divide(device::MemorySpace(), x, weight);
}
void multiply(std::span<const Buffer> x, double weight) {
  device::require_at("gossip: multiply", x, {});
  scale(device::MemorySpace(), x, weight);
}

}  // namespace plumbline::gossip
