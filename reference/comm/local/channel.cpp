#include "reference/comm/local/channel.hpp"

#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace plumbline::comm::local {
namespace {

// Its sender need not wait, and may use its buffer again.
void buffer(Message& send) {
  send.copy = std::make_unique_for_overwrite<std::byte[]>(send.call.in.bytes());
  if (send.call.in.count != 0) std::memcpy(send.copy.get(), send.call.in.data, send.call.in.bytes());
  send.call.in.data = send.copy.get();
}

std::string place_of(Device device) {
  return device.kind == Device::Kind::cpu ? "" : " in memory of " + name_of(device);
}

}  // namespace

void Message::copy_range(std::size_t begin, std::size_t end) const noexcept {
  if (begin < end) std::memcpy(to + begin, from + begin, end - begin);
}

Rendezvous::From Channel::begin_of(const Call& call) const {
  const bool is_front = (call.operation == Operation::send) == (sender_from_ == Rendezvous::From::front);
  return is_front ? Rendezvous::From::front : Rendezvous::From::back;
}

void Channel::help(Message& message) const noexcept {
  message.rendezvous.help(begin_of(message.call), 0, [&](auto begin, auto end) { message.copy_range(begin, end); });
}

void Channel::copy(Message& first, const Call& second) const noexcept {
  const bool is_send = second.operation == Operation::send;
  const ConstBuffer& from = is_send ? second.in : first.call.in;
  first.from = static_cast<const std::byte*>(from.data);
  first.to = static_cast<std::byte*>((is_send ? first.call : second).out.data);
  first.rendezvous.meet(from.bytes(), begin_of(second), 0, [&](auto begin, auto end) { first.copy_range(begin, end); });
  wait_until(policy_, [&] { return first.rendezvous.is_complete(); }, [](Clock::time_point) {});
}

std::shared_ptr<Message> Channel::move(Message& first, const Call& call, DevicePlace ready) {
  const bool is_send = call.operation == Operation::send;
  const ConstBuffer& from = is_send ? call.in : first.call.in;
  const Buffer& to = is_send ? first.call.out : call.out;
  const bool match = from.count == to.count && from.dtype == to.dtype && from.device.kind == to.device.kind;
  if (match && to.device.kind == Device::Kind::cpu) {
    copy(first, call);
    return nullptr;
  }
  auto second = std::make_shared<Message>(call, std::move(ready));
  Message &send = is_send ? *second : first, &receive = is_send ? first : *second;
  Message::State state = Message::State::mismatched;
  if (!match) {
    receive.mismatch = send.mismatch = fmt::format("{}{} meets {}{}", describe(send.call, 0), place_of(from.device),
                                                   describe(receive.call, 0), place_of(to.device));
  } else {
    try {
      send.done = receive.done = lane_->copy(
          {.device = from.device, .in = static_cast<const std::byte*>(from.data), .ready = send.ready},
          {.device = to.device, .out = static_cast<std::byte*>(to.data), .ready = receive.ready}, to.bytes());
      state = Message::State::met;
    } catch (const std::exception& error) {
      receive.mismatch = send.mismatch = fmt::format("{}: {}", describe(receive.call, 0), error.what());
      receive.broken = send.broken = true;
    }
  }
  send.rendezvous.end(state);
  receive.rendezvous.end(state);
  return second;
}

std::shared_ptr<Message> Channel::take(Queue& queue, int tag) {
  for (auto entry = queue.begin(); entry != queue.end(); ++entry) {
    if ((*entry)->call.tag != tag) continue;
    std::shared_ptr<Message> found = std::move(*entry);
    queue.erase(entry);
    return found;
  }
  return nullptr;
}

std::shared_ptr<Message> Channel::post(const Call& call, DevicePlace ready) {
  const bool is_send = call.operation == Operation::send;
  std::shared_ptr<Message> first;
  {
    const std::lock_guard hold(lock_);
    first = take(is_send ? receives_ : sends_, call.tag);
    if (first == nullptr) {
      auto message = std::make_shared<Message>(call, std::move(ready));
      const bool is_copied = is_send && call.in.bytes() <= kEagerBytes && message->ready == nullptr;
      if (is_copied) buffer(*message);
      (is_send ? sends_ : receives_).push_back(message);
      return is_copied ? nullptr : message;
    }
  }
  return move(*first, call, std::move(ready));
}

bool Channel::withdraw(const std::shared_ptr<Message>& message) {
  const std::lock_guard hold(lock_);
  if (std::erase(sends_, message) + std::erase(receives_, message) == 0) return false;
  message->rendezvous.end(Message::State::withdrawn);
  return true;
}

}  // namespace plumbline::comm::local
