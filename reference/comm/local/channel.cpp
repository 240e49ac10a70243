#include "reference/comm/local/channel.hpp"

#include <cstring>
#include <mutex>
#include <new>

#include <fmt/format.h>

namespace plumbline::comm::local {
namespace {

// Of a send whose data are about to go.
Message& copy_of(const Call& send) {
  auto message = std::make_unique<Message>(send);
  message->copy = std::make_unique_for_overwrite<std::byte[]>(send.in.bytes());
  std::memcpy(message->copy.get(), send.in.data, send.in.bytes());
  message->call.in.data = message->copy.get();
  return *message.release();
}

std::string place_of(Device device) {
  return device.kind == Device::Kind::cpu ? "" : " in memory of " + name_of(device);
}

}  // namespace

void Message::copy_range(std::size_t begin, std::size_t end) const noexcept {
  if (begin < end) std::memcpy(to + begin, from + begin, end - begin);
}

// ---- matching ----

MessageQueue::~MessageQueue() {
  while (Message* const message = take_where([](const Message&) { return true; }))
    if (message->copy != nullptr) delete message;
}

bool Channel::mail(const Call& send) {
  if (send.in.device.kind != Device::Kind::cpu || send.in.bytes() > Mailbox::kMostBytes) return false;
  while (!mailbox_.put(send)) empty_mailbox();
  return true;
}

void Channel::post(Message& message) {
  const bool is_send = message.call.operation == Operation::send;
  Message* first = nullptr;
  {
    const std::lock_guard hold(lock_);
    if (is_send) empty_mailbox_locked();  // what was sent before it
    first = (is_send ? receives_ : sends_).take(message.call.tag);
    if (first == nullptr) {
      (is_send ? sends_ : receives_).push(message);
      if (!is_send) deliver_locked();  // what was sent after all that is in sends_
      return;
    }
  }
  const std::unique_ptr<Message> of_queue(first->copy != nullptr ? first : nullptr);
  move(*first, message);
}

void Channel::empty_mailbox() {
  const std::lock_guard hold(lock_);
  empty_mailbox_locked();
}

void Channel::empty_mailbox_locked() {
  for (; !mailbox_.is_empty(); mailbox_.pop()) {
    Message send{mailbox_.front()};
    if (Message* const receive = receives_.take(send.call.tag))
      move(*receive, send);
    else
      sends_.push(copy_of(send.call));
  }
}

void Channel::deliver() noexcept {
  const std::lock_guard hold(lock_);
  deliver_locked();
}

// Where memory for a copy is lacking, the message stays in the mailbox for a later look.
void Channel::deliver_locked() noexcept {
  try {
    empty_mailbox_locked();
  } catch (const std::bad_alloc&) {
  }
}

bool Channel::withdraw(Message& message) {
  const std::lock_guard hold(lock_);
  deliver_locked();
  return take_back_locked(message);
}

bool Channel::take_back(Message& message) noexcept {
  const std::lock_guard hold(lock_);
  return take_back_locked(message);
}

bool Channel::take_back_locked(Message& message) noexcept {
  if (!sends_.remove(message) && !receives_.remove(message)) return false;
  message.rendezvous.end(Message::State::withdrawn);
  return true;
}

// ---- moving ----

// The first side is not touched after its state has changed: it may be gone.
void Channel::move(Message& first, Message& second) const {
  const bool is_send = second.call.operation == Operation::send;
  Message &send = is_send ? second : first, &receive = is_send ? first : second;
  const ConstBuffer& from = send.call.in;
  const Buffer& to = receive.call.out;
  const bool match = from.count == to.count && from.dtype == to.dtype && from.device.kind == to.device.kind;
  if (match && to.device.kind == Device::Kind::cpu) return copy(first, second);
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
  second.rendezvous.end(state);
  first.rendezvous.end(state);
}

Rendezvous::From Channel::begin_of(const Call& call) const {
  const bool is_front = (call.operation == Operation::send) == (sender_from_ == Rendezvous::From::front);
  return is_front ? Rendezvous::From::front : Rendezvous::From::back;
}

// What a mailbox holds came by it, and is moved by the second side alone: it may hold the lock, which is no place to
// wait. Of others, who makes the last piece ends the other side's wait, and looks at nothing of the other's after that.
void Channel::copy(Message& first, Message& second) const noexcept {
  const bool is_send = second.call.operation == Operation::send;
  const ConstBuffer& from = is_send ? second.call.in : first.call.in;
  first.from = static_cast<const std::byte*>(from.data);
  first.to = static_cast<std::byte*>((is_send ? first : second).call.out.data);
  first.second = &second;
  if (from.bytes() <= Mailbox::kMostBytes) {
    first.copy_range(0, from.bytes());
    second.rendezvous.end(Message::State::met);
    return first.rendezvous.end(Message::State::met);
  }
  const bool made_last = first.rendezvous.meet(from.bytes(), begin_of(second.call), 0,
                                               [&](auto begin, auto end) { first.copy_range(begin, end); });
  if (made_last) return second.rendezvous.end(Message::State::met);
  wait_until(policy_, [&] { return second.rendezvous.is_complete(); }, [](Clock::time_point) {});
}

void Channel::help(Message& message) const noexcept {
  const bool made_last =
      message.rendezvous.help(begin_of(message.call), 0, [&](auto begin, auto end) { message.copy_range(begin, end); });
  if (made_last) message.second->rendezvous.end(Message::State::met);
}

}  // namespace plumbline::comm::local
