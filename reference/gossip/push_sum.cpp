#include "reference/gossip/push_sum.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/call.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/tensor_kernels.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using comm::Call;
using comm::ConstBuffer;
using comm::DType;
using comm::Operation;

namespace {

Call send_of(ConstBuffer values, int to, int tag) {
  return {.operation = Operation::send, .root = to, .tag = tag, .in = values, .out = {}};
}
Call recv_of(Buffer values, int from, int tag) {
  return {.operation = Operation::recv, .root = from, .tag = tag, .in = {}, .out = values};
}

// Of what makes two nodes' plans differ.
std::uint64_t hash_of(const Graph& graph, const Mixing& mixing, std::int64_t round) {
  comm::Fnv1a hash;
  const GraphOptions& options = graph.options();
  for (const int value : {static_cast<int>(options.kind), options.nodes, options.peers, options.rows, options.center,
                          static_cast<int>(options.convention), static_cast<int>(mixing.kind)})
    hash.add_bytes(static_cast<std::uint64_t>(value));
  hash.add_bytes(std::uint64_t{options.seed}).add_bytes(static_cast<std::uint64_t>(round));
  if (options.kind == GraphKind::phone_book)
    for (int node = 0; node < graph.nodes(); ++node) {
      hash.add_bytes(std::uint64_t{0x626f6f6b});
      for (const int peer : graph.phone_book(node)) hash.add_bytes(static_cast<std::uint64_t>(peer));
    }
  for (const auto& rounds : mixing.shares)
    for (const Shares& shares : rounds) {
      hash.add_bytes(std::bit_cast<std::uint64_t>(shares.kept));
      for (const double sent : shares.sent) hash.add_bytes(std::bit_cast<std::uint64_t>(sent));
    }
  return hash.value();
}

void require_tensor(const Buffer& tensor) {
  if (!comm::is_floating(tensor.dtype))
    throw Unsupported(fmt::format("gossip of {}; only floating types have a mean", comm::name_of(tensor.dtype)));
}

std::vector<Buffer> some_of(std::span<const Buffer> x, std::span<const std::size_t> which) {
  std::vector<Buffer> some;
  for (const std::size_t tensor : which) some.push_back(x[tensor]);
  return some;
}

// Numbers that each node says of itself when all are compared.
constexpr std::size_t kHeader = 4;

// Pieces of a large tensor are mixed while they are in a cache.
constexpr std::int64_t kPieceBytes = 64 * 1024;

}  // namespace

// What one lane sends and receives in a round. Kept from round to round, for its memory.
struct PushSum::Transfer {
  const Plan* plan = nullptr;
  bool has_weight = false, fused = false;
  std::vector<Buffer> parts;  // what a message consists of
  std::vector<Buffer> came;   // the parts of the first sender, then those of the next one
  std::vector<double> sent_weights, received_weights;
  std::vector<std::uint8_t> confirmed;
  std::vector<Call> sends, receives;
  std::vector<TensorPair> pairs;  // of the list at hand
  [[nodiscard]] const Peers& peers() const { return plan->peers; }
  [[nodiscard]] const Shares& shares() const { return plan->shares; }
};

std::string words_of(const Peers& peers) {
  return fmt::format("sends to {} and receives from {}", peers.out, peers.in);
}

comm::TimeoutError late_round(const std::string& round, const std::string& interruption,
                              std::chrono::nanoseconds heartbeat) {
  const std::string why = interruption.empty()
                              ? "has heard nothing"
                              : fmt::format("was interrupted again and again, the last time by '{}',", interruption);
  return comm::TimeoutError(fmt::format("{}, and {} for the heartbeat time of {} s", round, why,
                                        std::chrono::duration<double>(heartbeat).count()));
}

Buffer MessageMemory::take(const device::MemorySpace& place, std::int64_t count, DType dtype) {
  if (next_ == rooms_.size()) rooms_.emplace_back();
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  return {rooms_[next_++].take(place, bytes), count, dtype, place.device()};
}

PushSum::PushSum(comm::Communicator& group, Graph graph, Mixing mixing, PushSumOptions options, PushSumSteps steps)
    : group_(&group),
      graph_(std::move(graph)),
      mixing_(std::move(mixing)),
      options_(options),
      steps_(std::move(steps)),
      is_lazy_(options.lazy && gossip::is_lazy(graph_, mixing_)),
      carries_weight_(steps_.carries_weight(gossip::carries_weight(graph_, mixing_) ||
                                            (!options.lazy && gossip::is_lazy(graph_, mixing_)))) {
  options_.heartbeat = steps_.patience(options_.heartbeat);
  transfer_ = std::make_unique<Transfer>();
  // Where rounds come again, so do their plans; shares that are given need not. The period of rows is a common
  // multiple, which may be any number.
  constexpr std::int64_t most_plans = 64;
  const bool comes_again = graph_.is_dynamic() && !graph_.distances().empty() && mixing_.kind != MixingKind::given;
  const std::int64_t period = comes_again ? graph_.period() : 0;
  plans_repeat_ = period >= 1 && period <= most_plans;
  plans_.resize(plans_repeat_ ? static_cast<std::size_t>(period) : 1);
  if (group.size() != graph_.nodes())
    throw InvalidArgument(
        fmt::format("a graph of {} nodes over group {} of {} ranks", graph_.nodes(), group.group().name, group.size()));
  const std::vector<int> book = graph_.phone_book(group.rank());
  if (std::ranges::find(book, group.rank()) != book.end())
    throw InvalidArgument(fmt::format("the phone book of node {} names the node itself: {}", group.rank(), book));
  if (options_.device.runtime != nullptr) use_stream(options_.device.stream);
}

void PushSum::use_stream(device::Stream stream) {
  options_.device.stream = stream;
  place_.use_stream(stream);
  group_->use_stream(stream);
}

void PushSum::set_round(std::int64_t round) {
  graph_.require(group_->rank(), round);
  round_ = first_round_ = round;
  for (Lane& lane : lanes_) lane.round = round;
}

std::string PushSum::words_of_round() const {
  return fmt::format("round {} of gossip over group {}: node {} {}", round_, group_->group().name, group_->rank(),
                     words_of(graph_.peers(group_->rank(), round_)));
}

PushSum::~PushSum() = default;

const PushSum::Plan& PushSum::plan_of(std::int64_t round) {
  Plan& plan = plans_[static_cast<std::size_t>(round) % plans_.size()];
  if (plan.round == round || (plans_repeat_ && plan.round != kNoRound)) return plan;
  plan.round = kNoRound;  // until all of it is there
  plan.peers = steps_.peers(graph_, group_->rank(), round);
  plan.shares = shares_of_round(round);
  plan.met = met_in(plan.peers, round);
  plan.round = round;
  return plan;
}

// The peer, where it deals with nobody else either.
int PushSum::met_in(const Peers& peers, std::int64_t round) const {
  if (peers.out.size() != 1 || peers.in != peers.out) return kNobody;
  const int peer = peers.out.front();
  const Peers theirs = steps_.peers(graph_, peer, round);
  return theirs.out == std::vector{group_->rank()} && theirs.in == theirs.out ? peer : kNobody;
}

Shares PushSum::shares_of_round(std::int64_t round) const {
  Shares shares = steps_.shares(graph_, mixing_, group_->rank(), round);
  if (is_fairscale()) {
    // Its shares are tensors of float.
    shares.kept = static_cast<float>(shares.kept);
    // Of given ones the product with what stays is exact in double, and so is the quotient that is used.
    if (mixing_.kind != MixingKind::given)
      for (double& sent : shares.sent) sent = static_cast<float>(sent);
  }
  return shares;
}

double PushSum::kept() const { return shares_of_round(round_).kept; }

bool PushSum::is_fairscale() const { return graph_.options().convention == Convention::fairscale; }

double PushSum::rounded(const Lane& lane, double weight) const {
  return is_fairscale() ? comm::rounded_to(lane.dtype, weight) : weight;
}

const PushSum::Lane& PushSum::weight_lane() const { return lanes_[steps_.weight_lane(is_fairscale(), lanes_.size())]; }

void PushSum::sort_into_lanes(std::span<const Buffer> x) {
  std::ranges::for_each(x, require_tensor);
  if (!lanes_.empty()) return require_same_types(x);
  const device::MemorySpace place = device::place_of("gossip", x, options_.device);
  steps_.require_served("gossip", *group_, place);
  std::vector<Lane> lanes;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto lane = std::ranges::find(lanes, x[i].dtype, &Lane::dtype);
    if (lane == lanes.end()) {
      Lane made;
      made.dtype = x[i].dtype;
      made.round = round_;
      made.kept_before = shares_of_round(round_).kept;
      lane = lanes.insert(lanes.end(), std::move(made));
    }
    lane->tensors.push_back(i);
  }
  lanes_ = std::move(lanes);
  place_ = place;
}

void PushSum::require_same_types(std::span<const Buffer> x) const {
  std::size_t tensors = 0;
  for (const Lane& lane : lanes_) tensors += lane.tensors.size();
  if (x.size() != tensors)
    throw InvalidArgument(fmt::format("a round of gossip of {} tensors; those before it had {}", x.size(), tensors));
  for (const Lane& lane : lanes_)
    for (const std::size_t tensor : lane.tensors)
      if (x[tensor].dtype != lane.dtype)
        throw InvalidArgument(fmt::format("a round of gossip whose tensor {} is of {}; those before it had {} there",
                                          tensor, comm::name_of(x[tensor].dtype), comm::name_of(lane.dtype)));
  device::require_at("a round of gossip like those before it", x, place_);
}

// Once: each node has heard of all others before it sends the first message.
void PushSum::verify() {
  if (is_verified_ || !options_.verifies || !steps_.verifies() || graph_.nodes() == 1) return;
  is_verified_ = !steps_.compares_again();  // false but for a mutant: a comparison that is cut has not been made
  compare();
  is_verified_ = true;
}

// Two messages to all. Cut before the second one, it goes on there: others may have been done with the first.
void PushSum::compare() {
  const auto nodes = static_cast<std::size_t>(graph_.nodes());
  const Peers own = steps_.peers(graph_, group_->rank(), first_round_);
  if (headers_.empty()) {
    const bool can_meet = place_.is_host() && group_->pair_exchanges() != nullptr;
    const std::array<std::int64_t, kHeader> mine{std::bit_cast<std::int64_t>(hash_of(graph_, mixing_, first_round_)),
                                                 static_cast<std::int64_t>(own.out.size()),
                                                 static_cast<std::int64_t>(own.in.size()), can_meet ? 1 : 0};
    std::vector<std::int64_t> headers(kHeader * nodes);
    group_->all_gather({mine.data(), kHeader, DType::i64},
                       {headers.data(), static_cast<std::int64_t>(headers.size()), DType::i64}, options_.heartbeat);
    headers_ = std::move(headers);
  }
  std::size_t longest = 0;
  for (std::size_t node = 0; node < nodes; ++node)
    longest = std::max(longest, static_cast<std::size_t>(headers_[kHeader * node + 1] + headers_[kHeader * node + 2]));
  std::vector<std::int32_t> list(longest), lists(longest * nodes);
  std::ranges::copy(own.in, std::ranges::copy(own.out, list.begin()).out);
  if (longest > 0)
    group_->all_gather({list.data(), static_cast<std::int64_t>(longest), DType::i32},
                       {lists.data(), static_cast<std::int64_t>(lists.size()), DType::i32}, options_.heartbeat);
  judge(std::exchange(headers_, {}), lists);
}

// What all nodes have said: headers, and lists of peers of one length.
void PushSum::judge(const std::vector<std::int64_t>& headers, const std::vector<std::int32_t>& lists) {
  const auto nodes = static_cast<std::size_t>(graph_.nodes());
  const auto header = [&](std::size_t node, std::size_t place) { return headers[kHeader * node + place]; };
  std::vector<Peers> peers(nodes);
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto begin = lists.begin() + static_cast<std::ptrdiff_t>(lists.size() / nodes * node);
    const auto middle = begin + header(node, 1);
    peers[node] = {{begin, middle}, {middle, middle + header(node, 2)}};
  }
  if (const std::string problem = first_mismatch(peers); !problem.empty())
    throw comm::MismatchError(
        fmt::format("round {} of gossip over group {}: {}", first_round_, group_->group().name, problem));
  for (std::size_t node = 1; node < nodes; ++node)
    if (header(node, 0) != header(0, 0))
      throw comm::MismatchError(
          fmt::format("gossip over group {}: nodes 0 and {} have other graphs, mixings or rounds; "
                      "node 0 {}, node {} {}",
                      group_->group().name, node, words_of(peers[0]), node, words_of(peers[node])));
  bool all_can = true;
  for (std::size_t node = 0; node < nodes; ++node) all_can = all_can && header(node, 3) != 0;
  all_meet_ = steps_.meets(all_can);
}

void PushSum::prepare(std::span<const Buffer> x, bool mixes) {
  sort_into_lanes(x);
  if (!mixes || is_lazy_ || lanes_.empty()) return;
  for (const Lane& lane : lanes_) {
    const double kept = is_fairscale() ? weight_lane().kept_before : plan_of(lane.round).shares.kept;
    scale(place_, some_of(x, lane.tensors), kept);
  }
  prepare_weight();
}

void PushSum::prepare_weight() {
  if (is_lazy_ || mixing_.kind == MixingKind::metropolis_hastings) return;
  const double kept =
      is_fairscale() ? weight_lane().kept_before : steps_.kept_weight(plan_of(weight_lane().round).shares);
  weight_ = rounded(lanes_.front(), weight_ * kept);
}

Incoming PushSum::exchange(std::span<const Buffer> x) {
  sort_into_lanes(x);
  exchange_lanes(x);
  return incoming_;
}

void PushSum::exchange_lanes(std::span<const Buffer> x) {
  const bool was_interrupted = std::exchange(is_interrupted_, true);
  const bool has_come = next_lane_ > 0 || (!lanes_.empty() && lanes_.front().has_come);
  if (steps_.sums_anew(has_come, was_interrupted) || incoming_.values.size() != x.size()) {
    incoming_.values.assign(x.size(), {});
    incoming_.weight = 0;
  }
  verify();
  while (next_lane_ < lanes_.size()) {
    Lane& lane = lanes_[next_lane_];
    naming_peers(lane, [&] { transfer(lane, x); });
    finish(lane, was_interrupted);
    ++next_lane_;
  }
  next_lane_ = 0;
  end_round(was_interrupted);
  is_interrupted_ = false;
}

template <class Part>
void PushSum::naming_peers(const Lane& lane, const Part& part) {
  const auto words = [&](const Error& error) {
    return fmt::format("round {} of gossip: node {} {}: {}", lane.round, group_->rank(),
                       words_of(plan_of(lane.round).peers), error.what());
  };
  try {
    part();
  } catch (const comm::TimeoutError& error) {
    throw comm::TimeoutError(words(error));
  } catch (const comm::PeerFailed& error) {
    throw comm::PeerFailed(words(error));
  }
}

// As fairscale each lane has turned the graph already.
void PushSum::end_round(bool was_interrupted) {
  if (is_fairscale() && !lanes_.empty()) return;
  round_ = steps_.next_round(round_, graph_.is_dynamic(), was_interrupted);
  for (Lane& lane : lanes_) lane.round = round_;
}

void PushSum::finish(Lane& lane, bool was_interrupted) {
  lane.kept = plan_of(lane.round).shares.kept;
  lane.kept_before = lane.kept;
  lane.has_come = false;
  lane.tells = true;
  lane.has_sent.clear();
  ++exchanges_;
  if (is_fairscale()) {
    // One graph for all types: each mix turns it, and the lane keeps what it saw last.
    round_ = steps_.next_round(round_, graph_.is_dynamic(), was_interrupted);
    lane.round = round_;
  }
}

int PushSum::tag_of(Message message) const {
  constexpr std::int64_t rounds = 4096;
  return static_cast<int>(exchanges_ % rounds) * 4 + steps_.mark(static_cast<int>(message));
}

void PushSum::make(std::span<const Call> calls) {
  if (!calls.empty()) group_->start(calls).wait(options_.heartbeat);
}

// Sends the lane's tensors to the peers that lack them, receives those of all others, and has all of it confirmed.
void PushSum::transfer(Lane& lane, std::span<const Buffer> x) {
  begin_transfer(lane);
  take_parts(lane, x);
  std::vector<Call>&sends = transfer_->sends, &receives = transfer_->receives;
  sends.clear();
  receives.clear();
  add_sends(lane, lane.sent);
  add_sent_weights(lane);
  if (!lane.has_come) add_receives(lane);
  const auto send = [&] {
    make(sends);
    lane.has_sent.assign(lane.has_sent.size(), true);
  };
  const auto receive = [&] {
    make(receives);
    take_in(lane, x);
  };
  if (!steps_.takes_turns(options_.algorithm == Algorithm::push_pull, graph_)) {
    sends.insert(sends.end(), receives.begin(), receives.end());
    if (!steps_.waits()) take_in(lane, x);
    send();
    take_in(lane, x);
  } else if (graph_.is_passive(group_->rank())) {
    receive();
    send();
  } else {
    send();
    receive();
  }
  if (options_.confirms) confirm(lane);
}

void PushSum::begin_transfer(Lane& lane) {
  Transfer& transfer = *transfer_;
  transfer.plan = &plan_of(lane.round);
  // FairScale's gossipers each send a weight, of their own type and to their own peers; the last one's counts.
  transfer.has_weight = carries_weight_ && (is_fairscale() || &lane == &weight_lane());
  transfer.fused = options_.fuse && lane.tensors.size() > 1;
  const std::size_t out = transfer.peers().out.size();
  transfer.sent_weights.resize(out);
  transfer.received_weights.resize(transfer.peers().in.size());
  if (lane.has_sent.empty()) {
    lane.has_sent.assign(out, false);
    lane.awaits.assign(out, true);
  }
  lane.sent.rewind();
}

void PushSum::take_parts(Lane& lane, std::span<const Buffer> x) {
  std::vector<Buffer>& parts = transfer_->parts;
  parts = some_of(x, lane.tensors);
  if (!transfer_->fused) return;
  std::int64_t total = 0, begin = 0;
  for (const Buffer& part : parts) total += part.count;
  const Buffer flat = lane.sent.take(place_, total, lane.dtype);
  transfer_->pairs.clear();
  for (const Buffer& part : parts) {
    transfer_->pairs.push_back({part, comm::part_of(flat, begin, part.count)});
    begin += part.count;
  }
  place_.copy(transfer_->pairs);
  parts.assign(1, flat);
}

double PushSum::ratio_of(const Shares& shares, double sent) const {
  if (is_lazy_ || sent == shares.kept) return 1;
  const double ratio = sent / shares.kept;
  return is_fairscale() ? double{static_cast<float>(ratio)} : ratio;
}

double PushSum::sent_ratio_of(const Shares& shares, std::size_t peer, bool fused) const {
  return steps_.scales(fused) ? ratio_of(shares, steps_.sent(shares, peer)) : 1.0;
}

void PushSum::add_sends(const Lane& lane, MessageMemory& memory) {
  Transfer& transfer = *transfer_;
  for (std::size_t i = 0; i < transfer.peers().out.size(); ++i) {
    if (lane.has_sent[i]) continue;
    const double ratio = sent_ratio_of(transfer.shares(), i, transfer.fused);
    transfer.pairs.clear();
    for (const Buffer& part : transfer.parts) {
      ConstBuffer values = part;
      if (ratio != 1) {
        transfer.pairs.push_back({part, memory.take(place_, part.count, part.dtype)});
        values = transfer.pairs.back().to;
      }
      transfer.sends.push_back(send_of(values, transfer.peers().out[i], tag_of(Message::values)));
    }
    scaled_copy(place_, transfer.pairs, ratio);
  }
}

void PushSum::add_sent_weights(const Lane& lane) {
  Transfer& transfer = *transfer_;
  for (std::size_t i = 0; i < transfer.peers().out.size() && transfer.has_weight; ++i) {
    if (lane.has_sent[i]) continue;
    const double weight =
        rounded(lane, weight_) * ratio_of(transfer.shares(), steps_.sent_weight(transfer.shares(), i));
    transfer.sent_weights[i] = rounded(lane, weight);
    transfer.sends.push_back(
        send_of({&transfer.sent_weights[i], 1, DType::f64}, transfer.peers().out[i], tag_of(Message::weight)));
  }
}

void PushSum::add_receives(Lane& lane) {
  Transfer& transfer = *transfer_;
  lane.received.rewind();
  transfer.came.clear();
  for (const int peer : transfer.peers().in)
    for (const Buffer& part : transfer.parts) {
      transfer.came.push_back(lane.received.take(place_, part.count, part.dtype));
      transfer.receives.push_back(recv_of(transfer.came.back(), peer, tag_of(Message::values)));
    }
  add_received_weights();
}

void PushSum::add_received_weights() {
  Transfer& transfer = *transfer_;
  for (std::size_t i = 0; i < transfer.peers().in.size() && transfer.has_weight; ++i)
    transfer.receives.push_back(
        recv_of({&transfer.received_weights[i], 1, DType::f64}, transfer.peers().in[i], tag_of(Message::weight)));
}

// Adds up what the peers of the round have sent.
void PushSum::take_in(Lane& lane, std::span<const Buffer> x) {
  if (std::exchange(lane.has_come, true)) return;
  Transfer& transfer = *transfer_;
  if (!transfer.peers().in.empty()) {
    const std::size_t parts = transfer.parts.size(), senders = transfer.peers().in.size();
    // Terms of the sum that absorb() adds.
    const std::size_t terms = place_.is_host() ? 1 : std::min<std::size_t>(senders, kMostArrivals);
    for (std::size_t sender = 1; sender <= senders - terms; ++sender) {
      transfer.pairs.clear();
      for (std::size_t i = 0; i < parts; ++i)
        transfer.pairs.push_back({transfer.came[sender * parts + i], transfer.came[i]});
      add(place_, transfer.pairs);
    }
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < lane.tensors.size(); ++i) {
      const std::int64_t count = x[lane.tensors[i]].count;
      for (std::size_t term = 0; term < terms; ++term) {
        const Buffer* const message = &transfer.came[term == 0 ? 0 : (senders - terms + term) * parts];
        incoming_.values[lane.tensors[i]][term] = transfer.fused ? comm::part_of(*message, begin, count) : message[i];
      }
      begin += count;
    }
  }
  if (!transfer.has_weight || &lane != &weight_lane()) return;
  for (const double weight : transfer.received_weights) incoming_.weight = rounded(lane, incoming_.weight + weight);
}

// Tells those from whom values came that they are here, and waits for the same from those that were sent to.
void PushSum::confirm(const Lane& lane) {
  static constexpr std::uint8_t here = 1;
  Transfer& transfer = *transfer_;
  const Peers& peers = transfer.peers();
  transfer.confirmed.resize(peers.out.size());
  const int tag = tag_of(Message::confirmation);
  std::vector<Call>& calls = transfer.sends;
  calls.clear();
  if (lane.tells)
    for (const int peer : peers.in) calls.push_back(send_of({&here, 1, DType::u8}, peer, tag));
  for (std::size_t i = 0; i < peers.out.size(); ++i)
    if (lane.awaits[i]) calls.push_back(recv_of({&transfer.confirmed[i], 1, DType::u8}, peers.out[i], tag));
  make(calls);
}

void PushSum::absorb(std::span<const Buffer> x, const Incoming& incoming) {
  sort_into_lanes(x);
  for (const Lane& lane : lanes_) absorb_lane(lane, x, incoming);
  if (!lanes_.empty()) absorb_weight(incoming.weight);
}

void PushSum::absorb_lane(const Lane& lane, std::span<const Buffer> x, const Incoming& incoming) const {
  std::vector<Arrivals> tensors;
  for (const std::size_t tensor : lane.tensors) tensors.push_back({x[tensor], incoming.values[tensor]});
  gossip::mix(place_, tensors, {is_fairscale() ? weight_lane().kept : lane.kept, is_lazy_});
}

void PushSum::absorb_weight(double incoming) {
  if (is_lazy_ || !carries_weight_) return;
  const Lane& first = lanes_.front();
  weight_ = rounded(first, weight_ + rounded(first, incoming));
}

void PushSum::mix(std::span<const Buffer> x) {
  if (is_interrupted_)
    throw StateError(fmt::format("round {} of gossip was interrupted on node {}; it must be repeated first", round_,
                                 group_->rank()));
  sort_into_lanes(x);
  make_round(x, false);
}

void PushSum::make_round(std::span<const Buffer> x, bool was_interrupted) {
  is_interrupted_ = is_untouched_ = true;
  verify();
  if (meets_one()) return meet(x, was_interrupted);
  is_untouched_ = false;
  is_interrupted_ = was_interrupted;
  if (mixes_in_pieces(x)) return mix_in_pieces(x);
  prepare(x);
  exchange_lanes(x);
  absorb(x, incoming_);
}

// Whether the next round is made in place. Fairscale rounds what stays and weights to the tensors' type where they are
// not 1, and has a round for each type.
bool PushSum::meets_one() {
  if (!all_meet_ || !place_.is_host() || group_->pair_exchanges() == nullptr || lanes_.empty() ||
      (is_fairscale() && (!is_lazy_ || lanes_.size() > 1)))
    return false;
  return plan_of(lanes_.front().round).met != kNobody;
}

void PushSum::meet(std::span<const Buffer> x, bool was_interrupted) {
  const Lane& first = lanes_.front();
  const Plan& plan = plan_of(first.round);
  const Shares& shares = plan.shares;
  meeting_.clear();
  for (const Lane& lane : lanes_) {
    const bool fused = options_.fuse && lane.tensors.size() > 1;
    const comm::PairFactors factors = is_lazy_ ? comm::PairFactors{1, 1, shares.kept}
                                               : comm::PairFactors{shares.kept, sent_ratio_of(shares, 0, fused), 1};
    for (const std::size_t tensor : lane.tensors) meeting_.push_back({x[tensor], factors});
  }
  double weight = weight_;
  const bool has_weight = carries_weight_ && !is_lazy_;
  if (has_weight)
    meeting_.push_back(
        {{&weight, 1, DType::f64}, {steps_.kept_weight(shares), ratio_of(shares, steps_.sent_weight(shares, 0)), 1}});
  naming_peers(first, [&] {
    const comm::PairExchange exchange{
        .peer = plan.met, .tag = tag_of(Message::values), .parts = meeting_, .update = steps_.meet};
    group_->pair_exchanges()->start(exchange).wait(options_.heartbeat);
  });
  if (has_weight)
    weight_ = weight;
  else
    prepare_weight();
  for (Lane& lane : lanes_) finish(lane, was_interrupted);
  end_round(was_interrupted);
  is_interrupted_ = is_untouched_ = false;
}

// Whether values may be mixed as they come, and sent from where they are.
bool PushSum::mixes_in_pieces(std::span<const Buffer> x) const {
  if (options_.fuse || lanes_.size() != 1 || !place_.is_host()) return false;
  if (steps_.takes_turns(options_.algorithm == Algorithm::push_pull, graph_)) return false;
  return std::ranges::any_of(
      x, [](const Buffer& tensor) { return tensor.bytes() > static_cast<std::size_t>(kPieceBytes); });
}

// Receives are posted some pieces ahead, so that whoever sends moves the values, while they are in its cache, and is
// done with them. A piece is mixed when the next one has been sent: by then its peers' are mostly here. Where they are
// not, more are sent, up to as many as are posted; and where the wait is longer than a piece takes in memory, more are
// posted for the rest of the round, so that a long way is filled.
// With confirmations a piece is mixed when those that it was sent to have said that they have it: until then it can be
// sent again. What was cut goes on where it was: each count goes up when what it counts is done.
class PushSum::Pieces {
 public:
  Pieces(PushSum& push_sum, std::span<const Buffer> x)
      : push_sum_(push_sum),
        lane_(push_sum.lanes_.front()),
        transfer_(*push_sum.transfer_),
        length_(kPieceBytes / static_cast<std::int64_t>(size_of(lane_.dtype))),
        mixes_after_(push_sum.is_lazy_),
        confirms_(push_sum.options_.confirms) {
    push_sum.begin_transfer(lane_);
    kept_ = push_sum.is_fairscale() && !push_sum.is_lazy_ ? lane_.kept_before : transfer_.shares().kept;
    for (const Buffer& tensor : x)
      for (std::int64_t begin = 0; begin < tensor.count; begin += length_)
        pieces_.push_back({.x = comm::part_of(tensor, begin, std::min(length_, tensor.count - begin))});
    for (std::size_t place = lane_.places.size(); place > 0; --place) free_.push_back(place - 1);
    had_.resize(transfer_.peers().out.size());
    if (confirms_) confirmed_.resize(had_.size() * pieces_.size());
  }

  void mix() {
    while (mixed_ < pieces_.size()) {
      for (; posted_ < std::min(mixed_ + ahead_, pieces_.size()); ++posted_) receive(posted_);
      if (confirms_) confirm();
      const bool is_next_sent = sent_ > std::min(mixed_ + 1, pieces_.size() - 1);
      if (!is_next_sent || (sent_ < posted_ && !is_ready(mixed_))) {
        send(sent_);
        ++sent_;
      } else {
        if (finish(mixed_) > kLongWait) ahead_ = std::min(2 * ahead_, kMostAhead);
        ++mixed_;
      }
    }
    for (Piece& piece : pieces_)
      for (comm::Work* work : {&piece.sent, &piece.told}) work->wait(push_sum_.options_.heartbeat);
  }
  [[nodiscard]] double weight() const { return weight_; }

  /// How many pieces of all peers are here.
  [[nodiscard]] std::size_t come() const { return come_; }
  /// Begins anew over another group what is not done, where so many pieces are with each peer that they are sent to;
  /// their number here was told.
  void go_over(const std::vector<std::size_t>& had) {
    for (Piece& piece : pieces_)
      for (comm::Work* work : {&piece.came, &piece.sent, &piece.told}) *work = comm::Work();
    had_ = had;
    posted_ = told_ = come_;
    const std::size_t least = had_.empty() ? 0 : *std::ranges::min_element(had_);
    sent_ = std::max(mixed_, least);
  }

 private:
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
  struct Piece {
    Buffer x;
    comm::Work came{}, sent{}, told{};  // `sent`: and confirmed
    std::size_t place = kNowhere;
  };
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kAhead = 4, kMostAhead = 32;  // pieces
  static constexpr std::chrono::microseconds kLongWait{100};

  // The place that was free last is still in a cache.
  ScratchSlot& place_of(Piece& piece) {
    if (piece.place == kNowhere) {
      if (free_.empty()) {
        free_.push_back(lane_.places.size());
        lane_.places.emplace_back();
      }
      piece.place = free_.back();
      free_.pop_back();
    }
    return lane_.places[piece.place];
  }
  void receive(std::size_t index) {
    Piece& piece = pieces_[index];
    ScratchSlot& place = place_of(piece);
    place.received.rewind();
    place.came.clear();
    transfer_.receives.clear();
    for (const int peer : transfer_.peers().in) {
      place.came.push_back(place.received.take(push_sum_.place_, piece.x.count, lane_.dtype));
      transfer_.receives.push_back(recv_of(place.came.back(), peer, push_sum_.tag_of(Message::values)));
    }
    if (index == 0) push_sum_.add_received_weights();
    if (!transfer_.receives.empty()) piece.came = push_sum_.group_->start(transfer_.receives);
  }
  void send(std::size_t index) {
    Piece& piece = pieces_[index];
    if (!mixes_after_ && index >= scaled_) {
      scale(piece.x, kept_);
      scaled_ = index + 1;
    }
    MessageMemory& memory = place_of(piece).sent;
    memory.rewind();
    transfer_.parts.assign(1, piece.x);
    transfer_.sends.clear();
    for (std::size_t i = 0; i < had_.size(); ++i) lane_.has_sent[i] = index < had_[i];
    push_sum_.add_sends(lane_, memory);
    if (index == 0) push_sum_.add_sent_weights(lane_);
    if (confirms_) add_confirmations(index);
    if (!transfer_.sends.empty()) piece.sent = push_sum_.group_->start(transfer_.sends);
  }
  void add_confirmations(std::size_t index) {
    for (std::size_t i = 0; i < had_.size(); ++i)
      if (index >= had_[i])
        transfer_.sends.push_back(recv_of({&confirmed_[index * had_.size() + i], 1, DType::u8},
                                          transfer_.peers().out[i], push_sum_.tag_of(Message::confirmation)));
  }
  // Tells the peers that pieces of theirs are here.
  void confirm() {
    while (come_ < posted_ && pieces_[come_].came.test()) ++come_;
    for (; told_ < come_; ++told_) {
      static constexpr std::uint8_t here = 1;
      transfer_.receives.clear();
      for (const int peer : transfer_.peers().in)
        transfer_.receives.push_back(send_of({&here, 1, DType::u8}, peer, push_sum_.tag_of(Message::confirmation)));
      if (!transfer_.receives.empty()) pieces_[told_].told = push_sum_.group_->start(transfer_.receives);
    }
  }
  [[nodiscard]] bool awaits_sends() const { return !confirms_ || push_sum_.steps_.awaits_confirmation(); }
  [[nodiscard]] bool is_ready(std::size_t index) {
    return pieces_[index].came.test() && (!awaits_sends() || pieces_[index].sent.test());
  }
  // Waits for the piece, and mixes it; how long it waited.
  Clock::duration finish(std::size_t index) {
    Piece& piece = pieces_[index];
    Clock::duration waited{};
    if (!is_ready(index)) {
      const Clock::time_point begin = Clock::now();
      piece.came.wait(push_sum_.options_.heartbeat);
      if (confirms_) confirm();
      if (awaits_sends()) piece.sent.wait(push_sum_.options_.heartbeat);
      waited = Clock::now() - begin;
    }
    if (confirms_) confirm();
    if (index == 0 && transfer_.has_weight)
      for (const double weight : transfer_.received_weights) weight_ = push_sum_.rounded(lane_, weight_ + weight);
    mix(piece.x, lane_.places[piece.place].came);
    free_.push_back(piece.place);
    return waited;
  }
  void mix(const Buffer& x, std::span<const Buffer> came) const {
    for (std::size_t i = 1; i < came.size(); ++i) add(came[0], came[i]);
    if (came.empty()) {
      if (mixes_after_) scale(x, kept_);
    } else if (mixes_after_) {
      add_and_scale(x, came[0], kept_);
    } else {
      add(x, came[0]);
    }
  }

  PushSum& push_sum_;
  Lane& lane_;
  Transfer& transfer_;
  std::int64_t length_;  // of a piece, in elements
  double kept_ = 1;
  bool mixes_after_;  // lazy
  bool confirms_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> free_;  // places
  std::size_t ahead_ = kAhead;
  std::size_t posted_ = 0, sent_ = 0, scaled_ = 0, come_ = 0, told_ = 0, mixed_ = 0;
  std::vector<std::size_t> had_;         // by each peer that is sent to, before the first send over this group
  std::vector<std::uint8_t> confirmed_;  // of each piece by each of them
  double weight_ = 0;
};

void PushSum::mix_in_pieces(std::span<const Buffer> x) {
  verify();
  auto pieces = std::make_unique<Pieces>(*this, x);
  prepare_weight();  // when nothing can fail any more ahead of the round: the weight is multiplied once
  pieces_ = std::move(pieces);
  go_on_in_pieces(false);
}

void PushSum::go_on_in_pieces(bool was_interrupted) {
  Lane& lane = lanes_.front();
  is_interrupted_ = true;
  is_torn_ = !options_.confirms;
  try {
    naming_peers(lane, [&] { pieces_->mix(); });
  } catch (...) {
    if (is_torn_) pieces_.reset();
    throw;
  }
  absorb_weight(pieces_->weight());
  pieces_.reset();
  finish(lane, was_interrupted);
  end_round(was_interrupted);
  is_interrupted_ = is_torn_ = false;
}

void PushSum::retry(std::span<const Buffer> x) {
  if (!is_interrupted_) throw StateError("no round of gossip was interrupted");
  if (!steps_.may_repeat(is_torn_))
    throw StateError(fmt::format(
        "round {} of gossip was cut on node {} while values were mixed piece by piece, and some are mixed: it "
        "cannot be repeated; with confirmations it can",
        round_, group_->rank()));
  sort_into_lanes(x);
  if (steps_.retry_mixes()) prepare(x);
  if (is_untouched_) return make_round(x, true);
  if (pieces_ != nullptr) return go_on_in_pieces(true);
  exchange_lanes(x);
  absorb(x, incoming_);
}

void PushSum::reconnect(comm::Communicator& group) {
  if (!options_.confirms)
    throw StateError(
        "a round of gossip without confirmations cannot be repeated over another group: who has which values is not "
        "known");
  if (group.size() != graph_.nodes() || group.rank() != group_->rank())
    throw InvalidArgument(
        fmt::format("group {} has other ranks than group {}", group.group().name, group_->group().name));
  group_ = &group;
  if (options_.device.runtime != nullptr) use_stream(options_.device.stream);
  const bool has_come = is_interrupted_ && next_lane_ < lanes_.size() && lanes_[next_lane_].has_come;
  const std::size_t come = pieces_ != nullptr ? pieces_->come() : has_come ? 1 : 0;
  constexpr std::size_t said = 4;
  const bool is_compared = is_verified_ || !options_.verifies || !steps_.verifies() || !steps_.compares_again();
  const std::array<std::int64_t, said> mine{exchanges_, static_cast<std::int64_t>(come),
                                            all_meet_ && group.pair_exchanges() != nullptr ? 1 : 0,
                                            is_compared ? 1 : 0};
  std::vector<std::int64_t> all(said * static_cast<std::size_t>(group.size()));
  // Others may notice that the group before has failed only when their own heartbeat time has passed.
  const std::chrono::nanoseconds patience = std::max(
      options_.heartbeat, std::min<std::chrono::nanoseconds>(options_.heartbeat, std::chrono::hours(24 * 365)) * 2);
  group.all_gather({mine.data(), said, DType::i64}, {all.data(), static_cast<std::int64_t>(all.size()), DType::i64},
                   patience);
  bool all_compared = true;
  for (std::size_t node = 0; node < static_cast<std::size_t>(group.size()); ++node) {
    all_meet_ = all_meet_ && all[said * node + 2] != 0;
    all_compared = all_compared && all[said * node + 3] != 0;
  }
  if (!all_compared) {  // here, where all are: a node that was done might never compare again
    is_verified_ = false;
    headers_.clear();
    verify();
  }
  if (!is_interrupted_ || is_untouched_ || next_lane_ >= lanes_.size()) return;
  Lane& lane = lanes_[next_lane_];
  std::vector<std::size_t> had;  // of what is sent in the round, by each peer
  for (const int peer : plan_of(lane.round).peers.out) {
    const auto at = said * static_cast<std::size_t>(peer);
    const auto theirs = static_cast<std::size_t>(all[at + 1]);
    had.push_back(all[at] > exchanges_    ? std::numeric_limits<std::size_t>::max()
                  : all[at] == exchanges_ ? steps_.resumes_at(theirs)
                                          : 0);
  }
  if (pieces_ != nullptr) return pieces_->go_over(had);
  lane.has_sent.clear();
  lane.awaits.clear();
  for (const std::size_t values : had) {
    lane.has_sent.push_back(values > 0);
    lane.awaits.push_back(values == 0);
  }
  lane.tells = !lane.has_come;  // whoever asked has just been told
}

void PushSum::retry(comm::Communicator& group, std::span<const Buffer> x) {
  reconnect(group);
  if (is_interrupted_) retry(x);
}

std::int64_t PushSum::bytes_per_round(std::int64_t elements, DType dtype) const {
  const Peers peers = graph_.peers(group_->rank(), round_);
  const auto out = static_cast<std::int64_t>(peers.out.size());
  const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t pieces = options_.fuse ? 1 : std::max<std::int64_t>(1, (bytes + kPieceBytes - 1) / kPieceBytes);
  const std::int64_t confirmations = options_.confirms ? pieces * static_cast<std::int64_t>(peers.in.size()) : 0;
  return out * (bytes + (carries_weight_ ? 8 : 0)) + confirmations;
}

void divide(std::span<const Buffer> x, double weight) {
  device::require_at("gossip: divide", x, {});
  for (const Buffer& tensor : x) divide(tensor, weight);
}
void multiply(std::span<const Buffer> x, double weight) {
  device::require_at("gossip: multiply", x, {});
  for (const Buffer& tensor : x) scale(tensor, weight);
}

}  // namespace plumbline::gossip
