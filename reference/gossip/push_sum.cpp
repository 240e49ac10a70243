#include "reference/gossip/push_sum.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/half.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using comm::Call;
using comm::ConstBuffer;
using comm::DType;
using comm::Operation;

namespace {

// Tags: what it is, and of which round, so that messages of rounds in flight at once do not meet.
enum class Kind : std::uint8_t { values, weight, confirmation };
int tag_of(Kind kind, std::int64_t exchange) {
  constexpr std::int64_t rounds = 4096;
  return static_cast<int>(exchange % rounds) * 4 + static_cast<int>(kind);
}

Call send_of(ConstBuffer values, int to, int tag) {
  return {.operation = Operation::send, .root = to, .tag = tag, .in = values, .out = {}};
}
Call recv_of(Buffer values, int from, int tag) {
  return {.operation = Operation::recv, .root = from, .tag = tag, .in = {}, .out = values};
}

// FNV-1a, over what makes two nodes' plans differ.
class Hash {
 public:
  void add(std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      constexpr std::uint64_t prime = 1099511628211u;
      hash_ = (hash_ ^ ((value >> (8 * byte)) & 0xffu)) * prime;
    }
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037u;
};

std::uint64_t hash_of(const Graph& graph, const Mixing& mixing, std::int64_t round) {
  Hash hash;
  const GraphOptions& options = graph.options();
  for (const int value : {static_cast<int>(options.kind), options.nodes, options.peers, options.rows, options.center,
                          static_cast<int>(options.convention), static_cast<int>(mixing.kind)})
    hash.add(static_cast<std::uint64_t>(value));
  hash.add(options.seed);
  hash.add(static_cast<std::uint64_t>(round));
  if (options.kind == GraphKind::phone_book)
    for (int node = 0; node < graph.nodes(); ++node) {
      hash.add(std::uint64_t{0x626f6f6b});
      for (const int peer : graph.phone_book(node)) hash.add(static_cast<std::uint64_t>(peer));
    }
  for (const auto& rounds : mixing.shares)
    for (const Shares& shares : rounds) {
      hash.add(shares.kept);
      for (const double sent : shares.sent) hash.add(sent);
    }
  return hash.value();
}

std::string words_of(const Peers& peers) {
  return fmt::format("sends to {} and receives from {}", peers.out, peers.in);
}

double rounded_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f16:
      return comm::to_float(comm::to_float16(static_cast<float>(value)));
    case DType::bf16:
      return comm::to_float(comm::to_bfloat16(static_cast<float>(value)));
    case DType::f32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

void require_tensor(const Buffer& tensor) {
  if (!comm::is_floating(tensor.dtype))
    throw Unsupported(fmt::format("gossip of {}; only floating types have a mean", comm::name_of(tensor.dtype)));
  if (tensor.device.kind != comm::Device::Kind::cpu)
    throw Unsupported(fmt::format("gossip of a tensor on {}; copy it to the host first", comm::name_of(tensor.device)));
}

Buffer piece_of(Buffer tensor, std::int64_t begin, std::int64_t count) {
  auto* data = static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(begin) * size_of(tensor.dtype);
  return {data, count, tensor.dtype, tensor.device};
}

// Pieces of a large tensor are mixed while they are in a cache.
constexpr std::int64_t kPieceBytes = 128 * 1024;

}  // namespace

// The memory of one lane's messages of a round.
struct PushSum::Messages {
  std::vector<std::vector<std::byte>> sent, received;  // what is not sent from x, or added to the sum from here
  std::vector<double> sent_weights, received_weights;
  std::vector<Call> calls;

  Buffer space(std::vector<std::vector<std::byte>>& among, std::int64_t count, DType dtype) {
    among.emplace_back(static_cast<std::size_t>(count) * size_of(dtype));
    return {among.back().data(), count, dtype};
  }
};

PushSum::PushSum(comm::Communicator& group, Graph graph, Mixing mixing, PushSumOptions options, PushSumSteps steps)
    : group_(&group),
      graph_(std::move(graph)),
      mixing_(std::move(mixing)),
      options_(options),
      steps_(std::move(steps)),
      is_lazy_(gossip::is_lazy(graph_, mixing_)),
      carries_weight_(steps_.carries_weight(gossip::carries_weight(graph_, mixing_))) {
  options_.heartbeat = steps_.patience(options_.heartbeat);
  if (group.size() != graph_.nodes())
    throw InvalidArgument(
        fmt::format("a graph of {} nodes over group {} of {} ranks", graph_.nodes(), group.group().name, group.size()));
  const std::vector<int> book = graph_.phone_book(group.rank());
  if (std::ranges::find(book, group.rank()) != book.end())
    throw InvalidArgument(fmt::format("the phone book of node {} names the node itself: {}", group.rank(), book));
}

void PushSum::set_round(std::int64_t round) {
  round_ = round;
  for (Lane& lane : lanes_) lane.round = round;
}

Peers PushSum::peers_of(const Lane& lane) const { return steps_.peers(graph_, group_->rank(), lane.round); }

Shares PushSum::shares_of_round(const Lane& lane) const {
  Shares shares = steps_.shares(graph_, mixing_, group_->rank(), lane.round);
  if (graph_.options().convention == Convention::fairscale) {
    // Its shares are tensors of float.
    shares.kept = static_cast<float>(shares.kept);
    // Of given ones the product with what stays is exact in double, and so is the quotient that is used.
    if (mixing_.kind != MixingKind::given)
      for (double& sent : shares.sent) sent = static_cast<float>(sent);
  }
  return shares;
}

double PushSum::kept() const {
  Lane lane;
  lane.round = round_;
  return shares_of_round(lane).kept;
}

double PushSum::rounded(double weight) const {
  const bool as_fairscale = graph_.options().convention == Convention::fairscale;
  return as_fairscale && !lanes_.empty() ? rounded_to(lanes_.front().dtype, weight) : weight;
}

void PushSum::sort_into_lanes(std::span<const Buffer> x) {
  if (!lanes_.empty() || x.empty()) return;
  for (std::size_t i = 0; i < x.size(); ++i) {
    require_tensor(x[i]);
    auto lane = std::ranges::find(lanes_, x[i].dtype, &Lane::dtype);
    if (lane == lanes_.end()) {
      Lane made;
      made.dtype = x[i].dtype;
      made.round = round_;
      made.kept_before = shares_of_round(made).kept;
      lane = lanes_.insert(lanes_.end(), std::move(made));
    }
    lane->tensors.push_back(i);
  }
}

void PushSum::verify() {
  if (is_verified_ || !options_.verifies || !steps_.verifies() || graph_.nodes() == 1) return;
  is_verified_ = true;
  const Peers own = lanes_.empty() ? steps_.peers(graph_, group_->rank(), round_) : peers_of(lanes_.front());
  const auto nodes = static_cast<std::size_t>(graph_.nodes());
  constexpr std::size_t header = 3;
  const std::array<std::int64_t, header> mine{std::bit_cast<std::int64_t>(hash_of(graph_, mixing_, round_)),
                                              static_cast<std::int64_t>(own.out.size()),
                                              static_cast<std::int64_t>(own.in.size())};
  std::vector<std::int64_t> all(header * nodes);
  group_->all_gather({mine.data(), header, DType::i64}, {all.data(), static_cast<std::int64_t>(all.size()), DType::i64},
                     options_.heartbeat);
  std::size_t longest = 0;
  for (std::size_t node = 0; node < nodes; ++node)
    longest = std::max(longest, static_cast<std::size_t>(all[header * node + 1] + all[header * node + 2]));
  std::vector<std::int32_t> list(longest), lists(longest * nodes);
  std::ranges::copy(own.in, std::ranges::copy(own.out, list.begin()).out);
  if (longest > 0)
    group_->all_gather({list.data(), static_cast<std::int64_t>(longest), DType::i32},
                       {lists.data(), static_cast<std::int64_t>(lists.size()), DType::i32}, options_.heartbeat);
  std::vector<Peers> peers(nodes);
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto begin = lists.begin() + static_cast<std::ptrdiff_t>(longest * node);
    const auto middle = begin + all[header * node + 1];
    peers[node] = {{begin, middle}, {middle, middle + all[header * node + 2]}};
  }
  if (const std::string problem = first_mismatch(peers); !problem.empty())
    throw comm::MismatchError(
        fmt::format("round {} of gossip over group {}: {}", round_, group_->group().name, problem));
  for (std::size_t node = 1; node < nodes; ++node)
    if (all[header * node] != all[0])
      throw comm::MismatchError(
          fmt::format("gossip over group {}: nodes 0 and {} have other graphs, mixings or rounds; "
                      "node 0 {}, node {} {}",
                      group_->group().name, node, words_of(peers[0]), node, words_of(peers[node])));
}

void PushSum::prepare(std::span<const Buffer> x, bool mixes) {
  sort_into_lanes(x);
  if (!mixes || is_lazy_) return;
  const bool as_fairscale = graph_.options().convention == Convention::fairscale;
  for (const Lane& lane : lanes_) {
    const Shares shares = shares_of_round(lane);
    const double kept = as_fairscale ? lane.kept_before : shares.kept;
    for (const std::size_t tensor : lane.tensors) scale(x[tensor], kept);
    if (&lane == &lanes_.front() && mixing_.kind != MixingKind::metropolis_hastings)
      weight_ = rounded(weight_ * (as_fairscale ? lane.kept_before : steps_.kept_weight(shares)));
  }
}

Incoming PushSum::exchange(std::span<const Buffer> x) {
  sort_into_lanes(x);
  const bool was_interrupted = std::exchange(is_interrupted_, true);
  verify();
  if (next_lane_ == 0 && incoming_.values.empty())
    incoming_ = {.values = std::vector<std::vector<std::byte>>(x.size()), .weight = 0};
  while (next_lane_ < lanes_.size()) {
    Lane& lane = lanes_[next_lane_];
    try {
      transfer(lane, x);
    } catch (const comm::TimeoutError& error) {
      throw comm::TimeoutError(fmt::format("round {} of gossip: node {} {}: {}", lane.round, group_->rank(),
                                           words_of(peers_of(lane)), error.what()));
    } catch (const comm::PeerFailed& error) {
      throw comm::PeerFailed(fmt::format("round {} of gossip: node {} {}: {}", lane.round, group_->rank(),
                                         words_of(peers_of(lane)), error.what()));
    }
    finish(lane, was_interrupted);
    ++next_lane_;
  }
  next_lane_ = 0;
  if (lanes_.empty() || graph_.options().convention == Convention::plumbline) {
    round_ = steps_.next_round(round_, graph_.is_dynamic(), was_interrupted);
    for (Lane& lane : lanes_) lane.round = round_;
  }
  is_interrupted_ = false;
  return std::exchange(incoming_, {});
}

void PushSum::finish(Lane& lane, bool was_interrupted) {
  lane.kept = shares_of_round(lane).kept;
  lane.kept_before = lane.kept;
  lane.has_come = false;
  lane.tells = true;
  lane.has_sent.clear();
  ++exchanges_;
  if (graph_.options().convention == Convention::fairscale) {
    // One graph for all types: each mix turns it, and the lane keeps what it saw last.
    round_ = steps_.next_round(round_, graph_.is_dynamic(), was_interrupted);
    lane.round = round_;
  }
}

// Sends the lane's tensors to the peers that lack them, receives those of all others, and has all of it confirmed.
void PushSum::transfer(Lane& lane, std::span<const Buffer> x) {
  const Peers peers = peers_of(lane);
  const Shares shares = shares_of_round(lane);
  const bool has_weight = carries_weight_ && &lane == &lanes_.front();
  if (lane.has_sent.empty()) {
    lane.has_sent.assign(peers.out.size(), false);
    lane.awaits.assign(peers.out.size(), true);
  }
  const bool fused = options_.fuse && lane.tensors.size() > 1;
  Messages messages;
  messages.sent_weights.resize(peers.out.size());
  messages.received_weights.resize(peers.in.size());

  std::vector<Buffer> parts;  // what a message consists of
  std::int64_t total = 0;
  for (const std::size_t tensor : lane.tensors) total += x[tensor].count;
  for (const std::size_t tensor : lane.tensors) parts.push_back(x[tensor]);
  if (fused) {
    const Buffer flat = messages.space(messages.sent, total, lane.dtype);
    std::int64_t begin = 0;
    for (const Buffer& part : parts) {
      if (part.count > 0) std::memcpy(piece_of(flat, begin, part.count).data, part.data, part.bytes());
      begin += part.count;
    }
    parts = {flat};
  }

  const auto ratio_of = [&](double sent) {
    if (is_lazy_ || sent == shares.kept) return 1.0;
    const double ratio = sent / shares.kept;
    return graph_.options().convention == Convention::fairscale ? double{static_cast<float>(ratio)} : ratio;
  };
  for (std::size_t i = 0; i < peers.out.size(); ++i) {
    if (lane.has_sent[i]) continue;
    const double ratio = steps_.scales(fused) ? ratio_of(steps_.sent(shares, i)) : 1.0;
    for (const Buffer& part : parts) {
      ConstBuffer values = part;
      if (ratio != 1) {
        const Buffer scaled = messages.space(messages.sent, part.count, part.dtype);
        scaled_copy(part, scaled, ratio);
        values = scaled;
      }
      messages.calls.push_back(send_of(values, peers.out[i], tag_of(Kind::values, exchanges_)));
    }
    if (has_weight) {
      messages.sent_weights[i] = rounded(weight_ * ratio_of(steps_.sent_weight(shares, i)));
      messages.calls.push_back(
          send_of({&messages.sent_weights[i], 1, DType::f64}, peers.out[i], tag_of(Kind::weight, exchanges_)));
    }
  }
  std::vector<std::vector<Buffer>> came(peers.in.size());
  if (!lane.has_come)
    for (std::size_t i = 0; i < peers.in.size(); ++i) {
      for (const Buffer& part : parts) {
        came[i].push_back(messages.space(messages.received, part.count, part.dtype));
        messages.calls.push_back(recv_of(came[i].back(), peers.in[i], tag_of(Kind::values, exchanges_)));
      }
      if (has_weight)
        messages.calls.push_back(
            recv_of({&messages.received_weights[i], 1, DType::f64}, peers.in[i], tag_of(Kind::weight, exchanges_)));
    }
  if (!messages.calls.empty()) group_->start(messages.calls).wait(options_.heartbeat);

  if (!lane.has_come) {
    for (std::size_t part = 0; part < parts.size() && !came.empty(); ++part)
      for (std::size_t i = 1; i < came.size(); ++i) add(came[0][part], came[i][part]);
    for (std::size_t i = 0, begin = 0; i < lane.tensors.size() && !came.empty(); ++i) {
      const Buffer& sum = came[0][fused ? 0 : i];
      const auto* data = static_cast<const std::byte*>(sum.data) + begin;
      incoming_.values[lane.tensors[i]].assign(data, data + x[lane.tensors[i]].bytes());
      if (fused) begin += x[lane.tensors[i]].bytes();
    }
    if (has_weight)
      for (const double weight : messages.received_weights) incoming_.weight = rounded(incoming_.weight + weight);
    lane.has_come = true;
  }
  lane.has_sent.assign(peers.out.size(), true);
  if (options_.confirms) confirm(lane, peers);
}

// Tells those from whom values came that they are here, and waits for the same from those that were sent to.
void PushSum::confirm(const Lane& lane, const Peers& peers) {
  std::vector<std::uint8_t> received(peers.out.size());
  const std::uint8_t here = 1;
  const int tag = tag_of(Kind::confirmation, exchanges_);
  std::vector<Call> calls;
  if (lane.tells)
    for (const int peer : peers.in) calls.push_back(send_of({&here, 1, DType::u8}, peer, tag));
  for (std::size_t i = 0; i < peers.out.size(); ++i)
    if (lane.awaits[i]) calls.push_back(recv_of({&received[i], 1, DType::u8}, peers.out[i], tag));
  if (!calls.empty()) group_->start(calls).wait(options_.heartbeat);
}

void PushSum::absorb(std::span<const Buffer> x, const Incoming& incoming) {
  for (const Lane& lane : lanes_) {
    for (const std::size_t tensor : lane.tensors) {
      const auto& values = incoming.values[tensor];
      const Buffer& to = x[tensor];
      if (values.size() != to.bytes() || to.count == 0) {
        if (is_lazy_) scale(to, lane.kept);  // nobody sent
        continue;
      }
      const ConstBuffer from{values.data(), to.count, to.dtype};
      if (is_lazy_)
        add_and_scale(to, from, lane.kept);
      else
        add(to, from);
    }
    if (&lane == &lanes_.front() && !is_lazy_ && carries_weight_) weight_ = rounded(weight_ + incoming.weight);
  }
}

void PushSum::mix(std::span<const Buffer> x) {
  if (is_interrupted_)
    throw StateError(fmt::format("round {} of gossip was interrupted on node {}; it must be repeated first", round_,
                                 group_->rank()));
  prepare(x);
  if (mixes_in_pieces(x)) {
    for (const Buffer& tensor : x) mix_in_pieces(tensor);
    for (Lane& lane : lanes_) finish(lane, false);
    if (graph_.options().convention == Convention::plumbline) {
      round_ = steps_.next_round(round_, graph_.is_dynamic(), false);
      for (Lane& lane : lanes_) lane.round = round_;
    }
    return;
  }
  const Incoming incoming = exchange(x);
  absorb(x, incoming);
}

// Whether values may be mixed as they come, and sent from where they are.
bool PushSum::mixes_in_pieces(std::span<const Buffer> x) const {
  if (options_.confirms || carries_weight_ || !is_lazy_ || lanes_.size() != 1 || options_.fuse) return false;
  return std::ranges::any_of(
      x, [](const Buffer& tensor) { return tensor.bytes() > static_cast<std::size_t>(kPieceBytes); });
}

// Two pieces are under way at a time: while one is exchanged, the one before is mixed.
void PushSum::mix_in_pieces(Buffer x) {
  verify();
  const Lane& lane = lanes_.front();
  const Peers peers = peers_of(lane);
  const double kept = shares_of_round(lane).kept;
  const std::int64_t length = kPieceBytes / static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t pieces = (x.count + length - 1) / length;
  const int tag = tag_of(Kind::values, exchanges_);
  std::array<std::vector<std::vector<std::byte>>, 2> space;
  for (auto& one : space) one.assign(peers.in.size(), std::vector<std::byte>(static_cast<std::size_t>(kPieceBytes)));
  std::array<comm::Work, 2> works;
  const auto part_of = [&](std::int64_t piece) {
    return piece_of(x, piece * length, std::min(length, x.count - piece * length));
  };
  const auto begin = [&](std::int64_t piece) {
    const Buffer part = part_of(piece);
    std::vector<Call> calls;
    for (const int peer : peers.out) calls.push_back(send_of(part, peer, tag));
    for (std::size_t i = 0; i < peers.in.size(); ++i)
      calls.push_back(
          recv_of({space[static_cast<std::size_t>(piece % 2)][i].data(), part.count, x.dtype}, peers.in[i], tag));
    if (!calls.empty()) works[static_cast<std::size_t>(piece % 2)] = group_->start(calls);
  };
  is_interrupted_ = true;
  for (std::int64_t piece = 0; piece <= pieces; ++piece) {
    if (piece < pieces) begin(piece);
    if (piece == 0) continue;
    const auto slot = static_cast<std::size_t>((piece - 1) % 2);
    if (!peers.in.empty() || !peers.out.empty()) works[slot].wait(options_.heartbeat);
    const Buffer part = part_of(piece - 1);
    if (peers.in.empty()) {
      scale(part, kept);
      continue;
    }
    for (std::size_t i = 1; i < peers.in.size(); ++i)
      add({space[slot][0].data(), part.count, x.dtype}, {space[slot][i].data(), part.count, x.dtype});
    add_and_scale(part, {space[slot][0].data(), part.count, x.dtype}, kept);
  }
  is_interrupted_ = false;
}

void PushSum::retry(std::span<const Buffer> x) {
  if (!is_interrupted_) throw StateError("no round of gossip was interrupted");
  if (steps_.retry_mixes()) prepare(x);
  const Incoming incoming = exchange(x);
  absorb(x, incoming);
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
  const bool has_come = is_interrupted_ && next_lane_ < lanes_.size() && lanes_[next_lane_].has_come;
  const std::array<std::int64_t, 2> mine{exchanges_, has_come ? 1 : 0};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(group.size()));
  group.all_gather({mine.data(), 2, DType::i64}, {all.data(), static_cast<std::int64_t>(all.size()), DType::i64},
                   options_.heartbeat);
  if (!is_interrupted_ || next_lane_ >= lanes_.size()) return;
  Lane& lane = lanes_[next_lane_];
  lane.has_sent.clear();
  lane.awaits.clear();
  for (const int peer : peers_of(lane).out) {
    const auto at = 2 * static_cast<std::size_t>(peer);
    const bool has_values = all[at] > exchanges_ || (all[at] == exchanges_ && all[at + 1] != 0);
    lane.has_sent.push_back(has_values);
    lane.awaits.push_back(!has_values);
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
  const std::int64_t confirmations = options_.confirms ? static_cast<std::int64_t>(peers.in.size()) : 0;
  return out * (elements * static_cast<std::int64_t>(size_of(dtype)) + (carries_weight_ ? 8 : 0)) + confirmations;
}

void divide(std::span<const Buffer> x, double weight) {
  for (const Buffer& tensor : x) divide(tensor, weight);
}
void multiply(std::span<const Buffer> x, double weight) {
  for (const Buffer& tensor : x) scale(tensor, weight);
}

}  // namespace plumbline::gossip
