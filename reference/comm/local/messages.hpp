// reference/comm/local/messages.hpp: a rank's messages to and from another, and its exchanges in place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "reference/comm/local/channel.hpp"
#include "reference/comm/local/endpoint.hpp"
#include "reference/comm/local/pair_exchange_queue.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {

/// A send or a receive that this rank has posted.
class PostedMessage {
 public:
  PostedMessage(Endpoint& self, const Call& call);
  PostedMessage(const PostedMessage&) = delete;
  PostedMessage& operator=(const PostedMessage&) = delete;

  void complete(Deadline& deadline);
  [[nodiscard]] bool try_complete();
  /// After the group has failed: returns once its memory is no longer accessed.
  void give_up() noexcept;
  /// Lets the caller's stream wait for what a device does of it, once it is complete.
  void follow() const;
  [[nodiscard]] bool is_complete() const { return !message_ || (!is_waiting() && message_->rendezvous.is_complete()); }
  /// Whether its memory is no longer accessed.
  [[nodiscard]] bool is_over() const { return !message_ || (!is_waiting() && message_->rendezvous.is_over()); }
  /// Of one that is complete: where a device is done with it; null without a device.
  [[nodiscard]] DevicePlace done() const { return message_ ? message_->done : nullptr; }

 private:
  void watch();
  /// Whether its other side has not come.
  [[nodiscard]] bool is_waiting() const {
    if (message_->rendezvous.state() != Message::State::waiting) return false;
    channel_->look();
    return message_->rendezvous.state() == Message::State::waiting;
  }
  [[nodiscard]] std::string describe_call() const;

  Endpoint* self_;
  Channel* channel_;
  std::optional<Message> message_;  // none of a small send, which is complete at once
};

/// This rank's side of an exchange in place.
class JoinedExchange {
 public:
  JoinedExchange(Endpoint& self, const PairExchange& exchange);

  void complete(Deadline& deadline) const;
  [[nodiscard]] bool try_complete() const;
  /// After the group has failed: takes it back, or makes it where it was met.
  void give_up() const noexcept;
  [[nodiscard]] bool is_complete() const { return slot_->is_complete(); }
  /// Whether the values are no longer accessed.
  [[nodiscard]] bool is_over() const { return slot_->is_over(); }

 private:
  void watch() const;
  [[nodiscard]] bool is_waiting() const { return slot_->state() == PairExchangeSlot::State::waiting; }
  [[nodiscard]] std::string describe_call() const;

  Endpoint* self_;
  int peer_;
  std::size_t side_;
  PairExchangeQueue* queue_;
  HeldSlot slot_;
};

}  // namespace plumbline::comm::local
