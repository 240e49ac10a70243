#include "reference/comm/local/encounter.hpp"

#include <algorithm>
#include <mutex>

#include <fmt/format.h>

namespace plumbline::comm::local {
namespace {

// Each part begins a line of its own, so that pieces, which are whole lines, hold whole elements.
std::size_t lines_of(const PairPart& part) { return (part.x.bytes() + kCacheLine - 1) / kCacheLine * kCacheLine; }

std::byte* at(const Buffer& x, std::size_t offset) { return static_cast<std::byte*>(x.data) + offset; }

}  // namespace

Encounter::Encounter(std::size_t side, const PairExchange& exchange) : first_(side) { sides_[side] = exchange; }

void Encounter::meet(std::size_t side, const PairExchange& exchange) {
  sides_[side] = exchange;
  mismatch_ = difference();
  if (mismatch_.empty()) cut_into_pieces();
  state_.store(mismatch_.empty() ? State::met : State::mismatched, std::memory_order_release);
}

std::string Encounter::difference() const {
  const auto& lower = sides_[kLower].parts;
  const auto& higher = sides_[kHigher].parts;
  if (lower.size() != higher.size())
    return fmt::format("a pair exchange of {} parts meets one of {}", lower.size(), higher.size());
  if (sides_[kLower].update != sides_[kHigher].update) return "a pair exchange meets one with another update";
  for (std::size_t i = 0; i < lower.size(); ++i)
    if (lower[i].x.dtype != higher[i].x.dtype || lower[i].x.count != higher[i].x.count)
      return fmt::format("part {} of a pair exchange, {} x {}, meets {} x {}", i, name_of(lower[i].x.dtype),
                         lower[i].x.count, name_of(higher[i].x.dtype), higher[i].x.count);
  return {};
}

void Encounter::cut_into_pieces() {
  // A piece of both sides fits into the nearer caches, and large values do not make so many that looking for their parts costs.
  constexpr std::size_t least = 64 * 1024, most_pieces = 64;
  for (const PairPart& part : sides_[kLower].parts) bytes_ += lines_of(part);
  const std::size_t half = (bytes_ / kCacheLine + 1) / 2 * kCacheLine;
  const std::size_t many = (bytes_ / most_pieces + kCacheLine - 1) / kCacheLine * kCacheLine;
  piece_bytes_ = std::min(half, std::max(least, many));
  pieces_ = bytes_ == 0 ? 0 : static_cast<std::uint32_t>((bytes_ + piece_bytes_ - 1) / piece_bytes_);
}

void Encounter::work(std::size_t side, WaitPolicy policy) noexcept {
  const std::uint32_t share = side == kLower ? pieces_ - pieces_ / 2 : pieces_ / 2;
  std::uint32_t made = 0;
  for (; taken_.load(std::memory_order_relaxed) < pieces_; ++made) {
    constexpr int part_of_a_wait = 10;
    for (int spins = policy.spins / part_of_a_wait; made >= share && spins > 0; --spins) {
      if (taken_.load(std::memory_order_relaxed) != made) break;  // the other one has begun
      cpu_pause();
    }
    if (taken_.fetch_add(1, std::memory_order_relaxed) >= pieces_) break;
    const std::size_t piece = side == kLower ? made : pieces_ - 1 - made;
    make(piece * piece_bytes_, std::min(bytes_, (piece + 1) * piece_bytes_));
  }
  if (made > 0) made_.fetch_add(made, std::memory_order_acq_rel);
}

// What lies between two lines of all parts.
void Encounter::make(std::size_t begin, std::size_t end) const noexcept {
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

std::shared_ptr<Encounter> MeetingPlace::come(std::size_t side, const PairExchange& exchange) {
  std::shared_ptr<Encounter> encounter;
  {
    const std::lock_guard hold(lock_);
    const auto found = std::ranges::find_if(posted_, [&](const auto& posted) {
      return posted->first_ != side && posted->sides_[posted->first_].tag == exchange.tag;
    });
    if (found == posted_.end()) {
      posted_.push_back(std::make_shared<Encounter>(side, exchange));
      return posted_.back();
    }
    encounter = std::move(*found);
    posted_.erase(found);
  }
  encounter->meet(side, exchange);
  return encounter;
}

bool MeetingPlace::withdraw(const std::shared_ptr<Encounter>& encounter) {
  const std::lock_guard hold(lock_);
  if (std::erase(posted_, encounter) == 0) return false;
  encounter->state_.store(Encounter::State::withdrawn, std::memory_order_release);
  return true;
}

}  // namespace plumbline::comm::local
