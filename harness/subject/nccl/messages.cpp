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

// What connects a lane: a byte of nobody's.
std::shared_ptr<Batch> first_batch(const Process& process, Operation operation, int root) {
  const comm::Device here{process.options.runtime, static_cast<std::int16_t>(process.device)};
  auto batch = std::make_shared<Batch>(process);
  batch->calls.push_back({.operation = operation,
                          .root = root,
                          .in = {nullptr, 1, comm::DType::u8, here},
                          .out = {nullptr, 1, comm::DType::u8, here}});
  batch->is_empty = true;
  return batch;
}

// NCCL launches by itself what it was given, on a lane that is connected; it takes a moment.
void await_launch(Lane& lane, const Message& message) {
  Patience patience(std::chrono::seconds(1));
  while (lane.is_going_in(*message.batch)) {
    if (patience.is_over()) throw RuntimeFailure("a message was given up while NCCL had its buffer");
    lane.pump();
    patience.pause();
  }
}

bool is_send(const Message& message) { return message.call().operation == Operation::send; }

}  // namespace

Messages::~Messages() {
  for (auto& [peer, outgoing] : outgoing_) process_.bury(std::move(outgoing.lane));
  for (auto& [peer, incoming] : incoming_) process_.bury(std::move(incoming.lane));
}

Direction& Messages::direction_of(const Message& message) const {
  const int me = process_.place.rank;
  return is_send(message) ? process_.board.direction(me, message.peer) : process_.board.direction(message.peer, me);
}

Messages::Side& Messages::side_of(const Message& message) {
  if (is_send(message)) return outgoing_[message.peer];
  return incoming_[message.peer];
}

const Failure& Messages::failure(const Message& message) const {
  return is_send(message) ? outgoing_.at(message.peer).failure : incoming_.at(message.peer).failure;
}

void Messages::fail(Side& side, Direction& direction, const std::exception& error) noexcept {
  side.failure = Failure(error);
  direction.has_failed.store(1, std::memory_order_release);
  if (side.lane != nullptr) side.lane->abort();
}

void Messages::post(std::shared_ptr<Message> message) {
  const int peer = message->peer;
  if (const Failure& failure = side_of(*message).failure)
    failure.at(fmt::format("messages with process {} have failed before", peer)).raise();
  (is_send(*message) ? outgoing_[peer].to_offer : incoming_[peer].waiting).push_back(std::move(message));
}

Step Messages::pump() {
  const int me = process_.place.rank;
  Step step;
  const auto add = [&step](const auto& side) {
    step.left = std::max(step.left, left_of(side));
    step.has_moved = step.has_moved || side.has_moved;
  };
  for (auto& [peer, outgoing] : outgoing_) {
    advance(peer, outgoing, process_.board.direction(me, peer));
    add(outgoing);
  }
  for (auto& [peer, incoming] : incoming_) {
    advance(peer, incoming, process_.board.direction(peer, me));
    add(incoming);
  }
  return step;
}

template <class OneSide>
Left Messages::left_of(const OneSide& side) {
  if (side.failure) return Left::nothing;
  const Left of_lane = side.lane == nullptr ? Left::nothing : side.lane->left();
  return side.is_waiting() ? std::max(of_lane, Left::others) : of_lane;
}

template <class OneSide>
void Messages::advance(int peer, OneSide& side, Direction& direction) noexcept {
  side.has_moved = false;
  if (side.failure) return;
  try {
    if (direction.has_failed.load(std::memory_order_acquire) != 0)
      throw RuntimeFailure(fmt::format("messages have failed in process {}", peer));
    pump(peer, side);
  } catch (const std::exception& error) {
    fail(side, direction, error);
  }
}

void Messages::offer(int peer, Outgoing& outgoing) {
  Direction& direction = process_.board.direction(process_.place.rank, peer);
  for (auto message = outgoing.to_offer.begin(); message != outgoing.to_offer.end();) {
    if ((*message)->is_aborted()) {
      ++message;
      continue;
    }
    if (!direction.offers.push(offer_of(**message))) return;
    outgoing.offered.emplace(outgoing.offers++, std::move(*message));
    message = outgoing.to_offer.erase(message);
  }
}

void Messages::pump(int peer, Outgoing& outgoing) {
  offer(peer, outgoing);
  if (peer == process_.place.rank) return;  // the receiving side copies
  Direction& direction = process_.board.direction(process_.place.rank, peer);
  while (const auto number = direction.taken.pop()) {
    const auto found = outgoing.offered.find(*number);
    Message& message = *found->second;
    outgoing.has_moved = true;
    message.is_taken = true;
    message.call().root = kReceiver;
    lane_to(peer, outgoing).push(message.batch);
    outgoing.offered.erase(found);
  }
  if (outgoing.lane != nullptr) outgoing.lane->pump();
}

void Messages::pump(int peer, Incoming& incoming) {
  Direction& direction = process_.board.direction(peer, process_.place.rank);
  while (const auto one = direction.offers.pop()) {
    incoming.has_moved = true;
    incoming.offered.emplace_back(incoming.offers++, *one);
  }
  for (auto message = incoming.waiting.begin(); message != incoming.waiting.end();) {
    Message& received = **message;
    const auto fits = std::ranges::find_if(incoming.offered, [&](const auto& offered) {
      return offered.second.group == received.group && offered.second.tag == received.call().tag;
    });
    if (fits == incoming.offered.end() || received.is_aborted()) {
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
  message.is_taken = true;
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
    outgoing.lane->push(first_batch(process_, Operation::send, kReceiver));
  }
  return *outgoing.lane;
}

Lane* Messages::lane_from(int peer, Incoming& incoming) {
  if (incoming.lane == nullptr) {
    incoming.lane = std::make_unique<Lane>(process_, kReceiver, 2);
    incoming.lane->push(first_batch(process_, Operation::recv, kSender));
  }
  if (incoming.lane->is_begun()) return incoming.lane.get();
  const auto id = process_.board.direction(peer, process_.place.rank).id.look();
  if (!id) return nullptr;
  incoming.lane->join(*id);
  return incoming.lane.get();
}

void Messages::withdraw(Message& message) noexcept {
  Side& side = side_of(message);
  if (side.failure) return;
  const auto remove_from = [&](std::deque<std::shared_ptr<Message>>& queue) {
    return std::erase_if(queue, [&](const auto& one) { return one.get() == &message; }) > 0;
  };
  try {
    if (side.lane != nullptr) await_launch(*side.lane, message);
    if (message.batch->is_issued) return;
    if (!is_send(message))
      message.batch->is_empty = !remove_from(incoming_[message.peer].waiting);
    else if (!remove_from(outgoing_[message.peer].to_offer))
      copy_aside(message);
  } catch (const std::exception& error) {
    fail(side, direction_of(message), error);
  }
}

void Messages::copy_aside(Message& sent) {
  comm::ConstBuffer& in = sent.call().in;
  if (in.bytes() == 0) return;
  device::Memory copy(process_.runtime, process_.device, in.bytes());
  process_.hold_back(copies_.get(), sent.batch->ready);
  process_.runtime->copy(process_.device, copy.data(), in.data, in.bytes(), copies_.get());
  sent.batch->ready.record(copies_.get());
  in.data = copy.data();
  process_.keep(std::move(copy));
}

}  // namespace plumbline::subject::nccl
