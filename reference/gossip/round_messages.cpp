#include "reference/gossip/detail/round_messages.hpp"

#include <algorithm>
#include <utility>

namespace plumbline::gossip {

using comm::Buffer;
using comm::ConstBuffer;
using comm::DType;

void RoundMessages::begin(TypeBucket& bucket) {
  plan = &state.plans.of(bucket.round);
  // FairScale's gossipers each send a weight, of their own type and to their own peers; the last one's counts.
  has_weight = state.carries_weight && (state.is_fairscale || &bucket == &state.weight_bucket());
  fused = state.options.fuse && bucket.tensors.size() > 1;
  const std::size_t out = peers().out.size();
  sent_weights.resize(out);
  received_weights.resize(peers().in.size());
  if (bucket.has_sent.empty()) {
    bucket.has_sent.assign(out, false);
    bucket.awaits.assign(out, true);
  }
  bucket.sent.rewind();
}

void RoundMessages::add_sends(const TypeBucket& bucket, MessageMemory& memory) {
  for (std::size_t i = 0; i < peers().out.size(); ++i) {
    if (bucket.has_sent[i]) continue;
    const double ratio = state.ratio_of(shares(), shares().sent[i]);
    pairs.clear();
    for (const Buffer& part : parts) {
      ConstBuffer values = part;
      if (ratio != 1) {
        pairs.push_back({part, memory.take(state.place, part.count, part.dtype)});
        values = pairs.back().to;
      }
      sends.push_back(send_of(values, peers().out[i], state.tag_of(Message::values)));
    }
    scaled_copy(state.place, pairs, ratio);
  }
}

void RoundMessages::add_sent_weights(const TypeBucket& bucket) {
  for (std::size_t i = 0; i < peers().out.size() && has_weight; ++i) {
    if (bucket.has_sent[i]) continue;
    const double ratio = state.ratio_of(shares(), shares().sent[i]);
    sent_weights[i] = state.rounded(bucket, state.rounded(bucket, state.weight) * ratio);
    sends.push_back(send_of({&sent_weights[i], 1, DType::f64}, peers().out[i], state.tag_of(Message::weight)));
  }
}

void RoundMessages::add_receives(TypeBucket& bucket) {
  bucket.received.rewind();
  came.clear();
  for (const int peer : peers().in)
    for (const Buffer& part : parts) {
      came.push_back(bucket.received.take(state.place, part.count, part.dtype));
      receives.push_back(receive_of(came.back(), peer, state.tag_of(Message::values)));
    }
  add_received_weights();
}

void RoundMessages::add_received_weights() {
  for (std::size_t i = 0; i < peers().in.size() && has_weight; ++i)
    receives.push_back(receive_of({&received_weights[i], 1, DType::f64}, peers().in[i], state.tag_of(Message::weight)));
}

void RoundMessages::make(std::span<const comm::Call> calls) const {
  if (!calls.empty()) state.group->start(calls).wait(state.options.heartbeat);
}

namespace {

void take_parts(RoundMessages& messages, TypeBucket& bucket, std::span<const Buffer> x) {
  std::vector<Buffer>& parts = messages.parts;
  parts = some_of(x, bucket.tensors);
  if (!messages.fused) return;
  const device::MemorySpace& place = messages.state.place;
  std::int64_t total = 0, begin = 0;
  for (const Buffer& part : parts) total += part.count;
  const Buffer flat = bucket.sent.take(place, total, bucket.dtype);
  messages.pairs.clear();
  for (const Buffer& part : parts) {
    messages.pairs.push_back({part, comm::part_of(flat, begin, part.count)});
    begin += part.count;
  }
  place.copy(messages.pairs);
  parts.assign(1, flat);
}

// The sum of what came for each tensor of the bucket; on a device, a few terms of it are left to absorb().
void add_up_values(RoundMessages& messages, const TypeBucket& bucket, std::span<const Buffer> x, Incoming& incoming) {
  const device::MemorySpace& place = messages.state.place;
  const std::size_t parts = messages.parts.size(), senders = messages.peers().in.size();
  const std::size_t terms = place.is_host() ? 1 : std::min<std::size_t>(senders, kMostArrivals);
  for (std::size_t sender = 1; sender <= senders - terms; ++sender) {
    messages.pairs.clear();
    for (std::size_t i = 0; i < parts; ++i)
      messages.pairs.push_back({messages.came[sender * parts + i], messages.came[i]});
    add(place, messages.pairs);
  }
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < bucket.tensors.size(); ++i) {
    const std::int64_t count = x[bucket.tensors[i]].count;
    for (std::size_t term = 0; term < terms; ++term) {
      const Buffer* const message = &messages.came[term == 0 ? 0 : (senders - terms + term) * parts];
      incoming.values[bucket.tensors[i]][term] = messages.fused ? comm::part_of(*message, begin, count) : message[i];
    }
    begin += count;
  }
}

// Adds up what the peers of the round have sent.
void take_in(RoundMessages& messages, TypeBucket& bucket, std::span<const Buffer> x, Incoming& incoming) {
  const RoundState& state = messages.state;
  if (std::exchange(bucket.has_come, true)) return;
  if (!messages.peers().in.empty()) add_up_values(messages, bucket, x, incoming);
  if (!messages.has_weight || &bucket != &state.weight_bucket()) return;
  for (const double weight : messages.received_weights)
    incoming.weight = state.rounded(bucket, incoming.weight + weight);
}

// Tells those from whom values came that they are here, and waits for the same from those that were sent to.
void confirm(RoundMessages& messages, const TypeBucket& bucket) {
  static constexpr std::uint8_t here = 1;
  const Peers& peers = messages.peers();
  messages.confirmed.resize(peers.out.size());
  const int tag = messages.state.tag_of(Message::confirmation);
  std::vector<comm::Call>& calls = messages.sends;
  calls.clear();
  if (bucket.confirms)
    for (const int peer : peers.in) calls.push_back(send_of({&here, 1, DType::u8}, peer, tag));
  for (std::size_t i = 0; i < peers.out.size(); ++i)
    if (bucket.awaits[i]) calls.push_back(receive_of({&messages.confirmed[i], 1, DType::u8}, peers.out[i], tag));
  messages.make(calls);
}

}  // namespace

void exchange_whole(RoundMessages& messages, TypeBucket& bucket, std::span<const Buffer> x, Incoming& incoming) {
  const RoundState& state = messages.state;
  messages.begin(bucket);
  take_parts(messages, bucket, x);
  std::vector<comm::Call>&sends = messages.sends, &receives = messages.receives;
  sends.clear();
  receives.clear();
  messages.add_sends(bucket, bucket.sent);
  messages.add_sent_weights(bucket);
  if (!bucket.has_come) messages.add_receives(bucket);
  const auto send = [&] {
    messages.make(sends);
    bucket.has_sent.assign(bucket.has_sent.size(), true);
  };
  const auto receive = [&] {
    messages.make(receives);
    take_in(messages, bucket, x, incoming);
  };
  if (!state.takes_turns()) {
    sends.insert(sends.end(), receives.begin(), receives.end());
    send();
    take_in(messages, bucket, x, incoming);
  } else if (state.graph.is_passive(state.group->rank())) {
    receive();
    send();
  } else {
    send();
    receive();
  }
  if (state.options.confirms) confirm(messages, bucket);
}

}  // namespace plumbline::gossip
