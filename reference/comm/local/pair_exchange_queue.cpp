#include "reference/comm/local/pair_exchange_queue.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace plumbline::comm::local {
namespace {

// Each part begins a line of its own, so that pieces, which are whole lines, hold whole elements.
std::size_t lines_of(const PairPart& part) { return (part.x.bytes() + kCacheLine - 1) / kCacheLine * kCacheLine; }

std::byte* at(const Buffer& x, std::size_t offset) { return static_cast<std::byte*>(x.data) + offset; }

}  // namespace

PairExchangeSlot::State PairExchangeSlot::state() const {
  return static_cast<State>(word_.load(std::memory_order_acquire) / kState);
}

bool PairExchangeSlot::is_complete() const {
  const std::uint64_t word = word_.load(std::memory_order_acquire);
  return static_cast<State>(word / kState) == State::met && made_in(word) == pieces_;
}

bool PairExchangeSlot::is_over() const {
  return is_complete() || state() == State::mismatched || state() == State::withdrawn;
}

void PairExchangeSlot::post(std::size_t side, const PairExchange& exchange) noexcept {
  sides_[side] = exchange;
  first_ = side;
  users_.store(1, std::memory_order_relaxed);
  word_.store(word_of(State::waiting), std::memory_order_relaxed);
}

void PairExchangeSlot::meet(std::size_t side, const PairExchange& exchange, WaitPolicy policy) noexcept {
  sides_[side] = exchange;
  difference_ = difference();
  if (difference_.in != Difference::In::nothing)
    return word_.store(word_of(State::mismatched), std::memory_order_release);
  cut_into_pieces();
  if (pieces_ <= 1) {
    make(0, bytes_);
    return word_.store(word_of(State::met) + pieces_ * (kTaken + kMade), std::memory_order_release);
  }
  word_.store(word_of(State::met) + kTaken, std::memory_order_release);
  take_pieces(side, policy, true);
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

void PairExchangeSlot::cut_into_pieces() noexcept {
  // A piece of both sides fits into the nearer caches, and large values do not make so many that looking for their
  // parts costs.
  // What is small is made by whoever comes second, before the other one could have seen it.
  constexpr std::size_t small = 1024, least = 64 * 1024, most_pieces = 64;
  bytes_ = 0;
  for (const PairPart& part : sides_[kLower].parts) bytes_ += lines_of(part);
  const std::size_t half = (bytes_ / kCacheLine + 1) / 2 * kCacheLine;
  const std::size_t many = (bytes_ / most_pieces + kCacheLine - 1) / kCacheLine * kCacheLine;
  piece_bytes_ = bytes_ <= small ? bytes_ : std::min(half, std::max(least, many));
  pieces_ = bytes_ == 0 ? 0 : (bytes_ + piece_bytes_ - 1) / piece_bytes_;
}

void PairExchangeSlot::take_pieces(std::size_t side, WaitPolicy policy, bool has_first) noexcept {
  const std::uint64_t share = side == kLower ? pieces_ - pieces_ / 2 : pieces_ / 2;
  const auto taken = [this] { return taken_in(word_.load(std::memory_order_relaxed)); };
  std::uint64_t made = 0;
  for (; has_first || taken() < pieces_; ++made) {
    constexpr int part_of_a_wait = 10;
    // Until the other one has begun.
    for (int spins = policy.spins / part_of_a_wait; made >= share && spins > 0 && taken() == made; --spins) cpu_pause();
    if (!std::exchange(has_first, false) && taken_in(word_.fetch_add(kTaken, std::memory_order_relaxed)) >= pieces_)
      break;
    const std::size_t piece = side == kLower ? made : pieces_ - 1 - made;
    make(piece * piece_bytes_, std::min(bytes_, (piece + 1) * piece_bytes_));
  }
  if (made > 0) word_.fetch_add(made * kMade, std::memory_order_acq_rel);
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
  exchange_slot.word_.store(PairExchangeSlot::word_of(PairExchangeSlot::State::withdrawn), std::memory_order_release);
  return true;
}

}  // namespace plumbline::comm::local
