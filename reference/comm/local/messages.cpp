// Messages between two ranks, and their exchanges in place.
#include "reference/comm/local/messages.hpp"

#include <fmt/format.h>

namespace plumbline::comm::local {
namespace {

Channel& channel_of(const Endpoint& self, const Call& call) {
  return call.operation == Operation::send ? self.group->channel(self.rank, call.root)
                                           : self.group->channel(call.root, self.rank);
}

}  // namespace

// ---- messages ----

PostedMessage::PostedMessage(Endpoint& self, const Call& call) : self_(&self), channel_(&channel_of(self, call)) {
  if (self.group->failed()) self.throw_failure(kNoSequence, false);
  if (call.operation == Operation::send && channel_->mail(call)) return;
  message_.emplace(call, call.device().kind == Device::Kind::cpu ? nullptr : self.mark(call.device()));
  channel_->post(*message_);
}

bool PostedMessage::try_complete() {
  if (is_complete()) return true;
  switch (message_->rendezvous.state()) {
    case Message::State::met:
      channel_->help(*message_);
      return message_->rendezvous.is_complete();
    case Message::State::waiting:
      watch();
      return false;
    case Message::State::withdrawn:
      self_->throw_failure(kNoSequence, true);  // the group has failed before
    case Message::State::mismatched:
      break;
  }
  self_->fail({.kind = message_->broken ? Failure::Kind::peer : Failure::Kind::mismatch,
               .sequence = kNoSequence,
               .message = fmt::format("{}: {}", self_->name(), message_->mismatch)});
}

void PostedMessage::complete(Deadline& deadline) {
  if (is_complete()) return;
  wait_until(
      self_->group->policy, [&] { return !is_waiting(); },
      [&](Clock::time_point now) {
        watch();
        if (!deadline.has_passed(now) || !channel_->withdraw(*message_)) return;
        self_->fail_late(describe_call(), kNoSequence, deadline, {message_->call.root});
      });
  if (try_complete()) return;
  wait_until(self_->group->policy, [&] { return is_complete(); }, [](Clock::time_point) {});
}

// What a rank that waits for a message looks at now and then: one that cannot come any more is taken back.
void PostedMessage::watch() {
  const int peer = message_->call.root;
  const bool left = peer != self_->rank && self_->group->departed(peer);
  if (!left && !self_->group->failed()) return;
  if (!channel_->withdraw(*message_)) return;  // it is being moved: its state is about to change
  if (self_->group->failed()) self_->throw_failure(kNoSequence, true);
  self_->fail_deserted(describe_call(), kNoSequence, {peer});
}

void PostedMessage::give_up() noexcept {
  if (!message_ || channel_->take_back(*message_)) return;
  wait_until(self_->group->policy, [&] { return message_->rendezvous.is_over(); }, [](Clock::time_point) {});
}

void PostedMessage::follow() const {
  if (!is_complete()) return;
  if (const DevicePlace there = done()) self_->follow(message_->call.device(), *there);
}

std::string PostedMessage::describe_call() const {
  return fmt::format("{} on {}", describe(message_->call, self_->size()), self_->name());
}

// ---- exchanges in place ----

JoinedExchange::JoinedExchange(Endpoint& self, const PairExchange& exchange)
    : self_(&self),
      peer_(exchange.peer),
      side_(self.rank < peer_ ? PairExchangeSlot::kLower : PairExchangeSlot::kHigher),
      queue_(self.rank < peer_ ? &self.group->meeting_place(self.rank, peer_)
                               : &self.group->meeting_place(peer_, self.rank)) {
  if (self.group->failed()) self.throw_failure(kNoSequence, false);
  slot_ = queue_->come(side_, exchange, self.group->policy);
}

// After both sides have met nothing can fail any more.
bool JoinedExchange::try_complete() const {
  switch (slot_->state()) {
    case PairExchangeSlot::State::met:
      slot_->work(side_, self_->group->policy);
      return is_complete();
    case PairExchangeSlot::State::waiting:
      watch();
      return false;
    case PairExchangeSlot::State::withdrawn:
      self_->throw_failure(kNoSequence, true);  // the group has failed before
    case PairExchangeSlot::State::mismatched:
      break;
  }
  self_->fail({.kind = Failure::Kind::mismatch,
               .sequence = kNoSequence,
               .message = fmt::format("{}: {}", describe_call(), slot_->mismatch())});
}

void JoinedExchange::complete(Deadline& deadline) const {
  wait_until(
      self_->group->policy, [&] { return !is_waiting(); },
      [&](Clock::time_point now) {
        watch();
        if (!deadline.has_passed(now) || !queue_->withdraw(*slot_)) return;
        self_->fail_late(describe_call(), kNoSequence, deadline, {peer_});
      });
  if (try_complete()) return;
  wait_until(self_->group->policy, [&] { return is_complete(); }, [](Clock::time_point) {});
}

void JoinedExchange::give_up() const noexcept {
  if (queue_->withdraw(*slot_)) return;
  wait_until(self_->group->policy, [&] { return !is_waiting(); }, [](Clock::time_point) {});
  if (slot_->state() != PairExchangeSlot::State::met) return;
  slot_->work(side_, self_->group->policy);
  wait_until(self_->group->policy, [&] { return is_complete(); }, [](Clock::time_point) {});
}

void JoinedExchange::watch() const {
  const bool left = self_->group->departed(peer_);
  if (!left && !self_->group->failed()) return;
  if (!queue_->withdraw(*slot_)) return;  // it was met
  if (self_->group->failed()) self_->throw_failure(kNoSequence, true);
  self_->fail_deserted(describe_call(), kNoSequence, {peer_});
}

std::string JoinedExchange::describe_call() const {
  return fmt::format("pair exchange with {} on {}", peer_, self_->name());
}

}  // namespace plumbline::comm::local
