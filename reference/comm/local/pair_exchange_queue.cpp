#include "reference/comm/local/pair_exchange_queue.hpp"

#include <algorithm>
#include <mutex>

#include <fmt/format.h>

namespace plumbline::comm::local {
namespace {

// Each part begins a line of its own, so that pieces, which are whole lines, hold whole elements.
std::size_t lines_of(const PairPart& part) { return (part.x.bytes() + kCacheLine - 1) / kCacheLine * kCacheLine; }

Rendezvous::From begins_at(std::size_t side) {
  return side == PairExchangeSlot::kLower ? Rendezvous::From::front : Rendezvous::From::back;
}

int patience(WaitPolicy policy) { return policy.spins / 10; }

std::byte* at(const Buffer& x, std::size_t offset) { return static_cast<std::byte*>(x.data) + offset; }

}  // namespace

void PairExchangeSlot::post(std::size_t side, const PairExchange& exchange) noexcept {
  sides_[side] = exchange;
  first_ = side;
  users_.store(1, std::memory_order_relaxed);
  rendezvous_.post();
}

void PairExchangeSlot::meet(std::size_t side, const PairExchange& exchange, WaitPolicy policy) noexcept {
  sides_[side] = exchange;
  difference_ = difference();
  if (difference_.in != Difference::In::nothing) return rendezvous_.end(State::mismatched);
  rendezvous_.meet(bytes(), begins_at(side), patience(policy), [this](auto begin, auto end) { make(begin, end); });
}

void PairExchangeSlot::work(std::size_t side, WaitPolicy policy) noexcept {
  rendezvous_.help(begins_at(side), patience(policy), [this](auto begin, auto end) { make(begin, end); });
}

std::size_t PairExchangeSlot::bytes() const noexcept {
  std::size_t all = 0;
  for (const PairPart& part : sides_[kLower].parts) all += lines_of(part);
  return all;
}

PairExchangeSlot::Difference PairExchangeSlot::difference() const noexcept {
  const auto& lower = sides_[kLower].parts;
  const auto& higher = sides_[kHigher].parts;
  if (lower.size() != higher.size()) return {.in = Difference::In::number, .parts = {lower.size(), higher.size()}};
  if (sides_[kLower].update != sides_[kHigher].update) return {.in = Difference::In::update};
  for (std::size_t i = 0; i < lower.size(); ++i)
    if (lower[i].x.dtype != higher[i].x.dtype || lower[i].x.count != higher[i].x.count)
      return {.in = Difference::In::part,
              .part = i,
              .dtypes = {lower[i].x.dtype, higher[i].x.dtype},
              .counts = {lower[i].x.count, higher[i].x.count}};
  return {};
}

std::string PairExchangeSlot::mismatch() const {
  const auto& [in, part, parts, dtypes, counts] = difference_;
  switch (in) {
    case Difference::In::nothing:
      return {};
    case Difference::In::number:
      return fmt::format("a pair exchange of {} parts meets one of {}", parts[kLower], parts[kHigher]);
    case Difference::In::update:
      return "a pair exchange meets one with another update";
    case Difference::In::part:
      break;
  }
  return fmt::format("part {} of a pair exchange, {} x {}, meets {} x {}", part, name_of(dtypes[kLower]),
                     counts[kLower], name_of(dtypes[kHigher]), counts[kHigher]);
}

// What lies between two lines of all parts.
void PairExchangeSlot::make(std::size_t begin, std::size_t end) const noexcept {
  std::size_t offset = 0;  // of a part
  for (std::size_t i = 0; i < sides_[kLower].parts.size() && offset < end; ++i) {
    const PairPart &lower = sides_[kLower].parts[i], &higher = sides_[kHigher].parts[i];
    const std::size_t bytes = lower.x.bytes();
    if (begin < offset + bytes) {
      const std::size_t from = std::max(begin, offset) - offset, to = std::min(end - offset, bytes);
      sides_[kLower].update(lower.x.dtype, at(lower.x, from), lower.factors, at(higher.x, from), higher.factors,
                            static_cast<std::int64_t>((to - from) / size_of(lower.x.dtype)));
    }
    offset += lines_of(lower);
  }
}

HeldSlot PairExchangeQueue::come(std::size_t side, const PairExchange& exchange, WaitPolicy policy) {
  PairExchangeSlot* exchange_slot = nullptr;
  {
    const std::lock_guard hold(lock_);
    const auto found = std::ranges::find_if(posted_, [&](const PairExchangeSlot* posted) {
      return posted->first_ != side && posted->sides_[posted->first_].tag == exchange.tag;
    });
    if (found == posted_.end()) {
      exchange_slot = &idle();
      posted_.push_back(exchange_slot);
      exchange_slot->post(side, exchange);
      return HeldSlot(exchange_slot);
    }
    exchange_slot = *found;
    exchange_slot->users_.fetch_add(1, std::memory_order_relaxed);
    posted_.erase(found);
  }
  HeldSlot visit(exchange_slot);
  visit->meet(side, exchange, policy);
  return visit;
}

PairExchangeSlot& PairExchangeQueue::idle() {
  for (const auto& exchange_slot : owned_)
    if (exchange_slot->users_.load(std::memory_order_acquire) == 0) return *exchange_slot;
  owned_.push_back(std::make_unique<PairExchangeSlot>());
  return *owned_.back();
}

bool PairExchangeQueue::withdraw(PairExchangeSlot& exchange_slot) {
  const std::lock_guard hold(lock_);
  if (std::erase(posted_, &exchange_slot) == 0) return false;
  exchange_slot.rendezvous_.end(Rendezvous::State::withdrawn);
  return true;
}

}  // namespace plumbline::comm::local
