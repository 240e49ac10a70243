#include "harness/subject/nccl/messages.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {

using comm::Call;
using comm::Operation;

namespace {

// In the communicator of a direction.
constexpr int kSender = 0, kReceiver = 1;

Offer offer_of(const Message& message) {
  return {.group = message.group,
          .count = message.call().in.count,
          .dtype = static_cast<std::int32_t>(message.call().in.dtype),
          .tag = message.call().tag};
}

std::string describe(const Offer& offer) {
  return fmt::format("{} x {}", name_of(static_cast<comm::DType>(offer.dtype)), offer.count);
}

}  // namespace

void Messages::post(std::shared_ptr<Message> message) {
  const int peer = message->peer;
  const auto append = [&](auto& side, std::deque<std::shared_ptr<Message>>& queue) {
    if (side.lane != nullptr && side.lane->is_dead())
      throw RuntimeFailure(fmt::format("messages with process {} have failed before", peer));
    queue.push_back(std::move(message));
  };
  if (message->call().operation == Operation::send)
    append(outgoing_[peer], outgoing_[peer].to_offer);
  else
    append(incoming_[peer], incoming_[peer].waiting);
}

void Messages::pump() {
  for (auto& [peer, outgoing] : outgoing_) pump(peer, outgoing);
  for (auto& [peer, incoming] : incoming_) pump(peer, incoming);
}

void Messages::offer(int peer, Outgoing& outgoing) {
  Direction& direction = process_.board.direction(process_.place.rank, peer);
  while (!outgoing.to_offer.empty()) {
    if (!outgoing.to_offer.front()->is_withdrawn) {
      if (!direction.offers.push(offer_of(*outgoing.to_offer.front()))) return;
      outgoing.offered.emplace(outgoing.offers++, std::move(outgoing.to_offer.front()));
    }
    outgoing.to_offer.pop_front();
  }
}

void Messages::pump(int peer, Outgoing& outgoing) {
  offer(peer, outgoing);
  if (peer == process_.place.rank) return;  // the receiving side copies
  Direction& direction = process_.board.direction(process_.place.rank, peer);
  while (const auto number = direction.taken.pop()) {
    const auto found = outgoing.offered.find(*number);
    Message& message = *found->second;
    message.batch->bytes_are_gone = message.is_withdrawn;
    message.call().root = kReceiver;
    lane_to(peer, outgoing).push(message.batch);
    outgoing.offered.erase(found);
  }
  if (outgoing.lane != nullptr) outgoing.lane->pump();
}

void Messages::pump(int peer, Incoming& incoming) {
  Direction& direction = process_.board.direction(peer, process_.place.rank);
  while (const auto one = direction.offers.pop()) incoming.offered.emplace_back(incoming.offers++, *one);
  for (auto message = incoming.waiting.begin(); message != incoming.waiting.end();) {
    Message& received = **message;
    const auto fits = std::ranges::find_if(incoming.offered, [&](const auto& offered) {
      return offered.second.group == received.group && offered.second.tag == received.call().tag;
    });
    if (fits == incoming.offered.end()) {
      ++message;
      continue;
    }
    const auto [number, one] = *fits;
    if (one.count != received.call().out.count || one.dtype != static_cast<std::int32_t>(received.call().out.dtype))
      received.mismatch = describe(one);
    else if (!take(peer, incoming, received, number))
      break;
    incoming.offered.erase(fits);
    message = incoming.waiting.erase(message);
  }
  if (Lane* const lane = incoming.lane == nullptr ? nullptr : lane_from(peer, incoming)) lane->pump();
}

bool Messages::take(int peer, Incoming& incoming, Message& message, std::uint64_t number) {
  const int me = process_.place.rank;
  if (peer == me) {
    auto& offered = outgoing_[me].offered;
    const auto sent = offered.find(number);
    copy_to_self(*sent->second, message);
    offered.erase(sent);
    return true;
  }
  if (!process_.board.direction(peer, me).taken.push(number)) return false;
  message.call().root = kSender;
  (void)lane_from(peer, incoming);
  incoming.lane->push(message.batch);
  return true;
}

void Messages::copy_to_self(const Message& sent, const Message& received) {
  const device::Stream stream = copies_.get();
  process_.hold_back(stream, sent.batch->ready);
  process_.hold_back(stream, received.batch->ready);
  process_.runtime->copy(process_.device, received.call().out.data, sent.call().in.data, sent.call().in.bytes(),
                         stream);
  for (Batch* const batch : {sent.batch.get(), received.batch.get()}) {
    batch->done.record(stream);
    batch->is_issued = true;
  }
}

Lane& Messages::lane_to(int peer, Outgoing& outgoing) {
  if (outgoing.lane == nullptr) {
    outgoing.lane = std::make_unique<Lane>(process_, kSender, 2);
    UniqueId id;
    process_.library.check(process_.library->GetUniqueId(&id), "ncclGetUniqueId");
    process_.board.direction(process_.place.rank, peer).id.post(id);
    outgoing.lane->join(id);
  }
  return *outgoing.lane;
}

Lane* Messages::lane_from(int peer, Incoming& incoming) {
  if (incoming.lane == nullptr) incoming.lane = std::make_unique<Lane>(process_, kReceiver, 2);
  if (incoming.lane->is_begun()) return incoming.lane.get();
  const auto id = process_.board.direction(peer, process_.place.rank).id.look();
  if (!id) return nullptr;
  incoming.lane->join(*id);
  return incoming.lane.get();
}

void Messages::withdraw(Message& message) noexcept {
  message.is_withdrawn = true;
  if (message.call().operation == Operation::recv)
    std::erase_if(incoming_[message.peer].waiting, [&](const auto& one) { return one.get() == &message; });
}

}  // namespace plumbline::subject::nccl
