#include "reference/comm/local/channel.hpp"

#include <cstring>
#include <mutex>

#include <fmt/format.h>

namespace plumbline::comm::local {
namespace {

std::shared_ptr<Message> buffered(const Call& call) {
  auto message = std::make_shared<Message>();
  message->call = call;
  message->copy = std::make_unique<std::byte[]>(call.in.bytes());
  if (call.in.count != 0) std::memcpy(message->copy.get(), call.in.data, call.in.bytes());
  message->call.in.data = message->copy.get();
  return message;
}

std::string place_of(Device device) {
  return device.kind == Device::Kind::cpu ? "" : " in memory of " + name_of(device);
}

}  // namespace

void Channel::move(Message& send, Message& receive) {
  const ConstBuffer& from = send.call.in;
  const Buffer& to = receive.call.out;
  Message::State state = Message::State::mismatched;
  if (from.count != to.count || from.dtype != to.dtype || from.device.kind != to.device.kind) {
    receive.mismatch = send.mismatch = fmt::format("{}{} meets {}{}", describe(send.call, 0), place_of(from.device),
                                                   describe(receive.call, 0), place_of(to.device));
  } else if (to.device.kind == Device::Kind::cpu) {
    if (to.count != 0) std::memcpy(to.data, from.data, to.bytes());
    state = Message::State::complete;
  } else {
    try {
      send.done = receive.done = lane_->copy(
          {.device = from.device, .in = static_cast<const std::byte*>(from.data), .ready = send.ready},
          {.device = to.device, .out = static_cast<std::byte*>(to.data), .ready = receive.ready}, to.bytes());
      state = Message::State::complete;
    } catch (const std::exception& error) {
      receive.mismatch = send.mismatch = fmt::format("{}: {}", describe(receive.call, 0), error.what());
      receive.broken = send.broken = true;
    }
  }
  send.state.store(state, std::memory_order_release);
  receive.state.store(state, std::memory_order_release);
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

void Channel::send(const std::shared_ptr<Message>& message) {
  std::shared_ptr<Message> receive;
  {
    const std::lock_guard hold(lock_);
    receive = take(receives_, message->call.tag);
    if (receive == nullptr) {
      const bool eager = message->call.in.bytes() <= kEagerBytes && message->ready == nullptr;
      sends_.push_back(eager ? buffered(message->call) : message);
      if (eager) message->state.store(Message::State::complete, std::memory_order_release);
      return;
    }
  }
  move(*message, *receive);
}

void Channel::receive(const std::shared_ptr<Message>& message) {
  std::shared_ptr<Message> send;
  {
    const std::lock_guard hold(lock_);
    send = take(sends_, message->call.tag);
    if (send == nullptr) {
      receives_.push_back(message);
      return;
    }
  }
  move(*send, *message);
}

bool Channel::withdraw(const std::shared_ptr<Message>& message) {
  const std::lock_guard hold(lock_);
  if (sends_.remove(message) + receives_.remove(message) == 0) return false;
  message->state.store(Message::State::withdrawn, std::memory_order_release);
  return true;
}

}  // namespace plumbline::comm::local
