// reference/comm/local/rendezvous.hpp: two members, of which the second finds what the first has posted.
//
// Model   From then on their work, on a range of bytes, is made by either of them or both. It is cut into pieces. One
//         side takes them from the front, the other one from the back, until none is left: so each does half, and a
//         late member is helped.
// Cost    All that both look at is in one word: that they have met, which pieces are taken, which are made.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "reference/comm/local/posting.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {

class Rendezvous {
 public:
  enum class State : std::uint8_t { waiting, met, mismatched, withdrawn };
  enum class From : std::uint8_t { front, back };

  [[nodiscard]] State state() const { return static_cast<State>(word_.load(std::memory_order_acquire) / kState); }
  /// Whether they have met and all pieces are made.
  [[nodiscard]] bool is_complete() const {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return static_cast<State>(word / kState) == State::met && made_in(word) == pieces_;
  }
  /// Whether the bytes are no longer accessed.
  [[nodiscard]] bool is_over() const {
    return is_complete() || state() == State::mismatched || state() == State::withdrawn;
  }

  /// To wait for the second side, which must not know of it yet.
  void post() noexcept { word_.store(word_of(State::waiting), std::memory_order_relaxed); }
  void end(State state) noexcept {
    pieces_ = 0;
    word_.store(word_of(state), std::memory_order_release);
  }
  /// The second side's work. make(begin, end) makes these bytes, which are whole cache lines but for the last. After
  /// its share it looks for this number of spins whether the other side has begun. Returns whether it made the last
  /// piece. From then on the first side may end the rendezvous' life.
  template <class Make>
  bool meet(std::size_t bytes, From from, int spins, const Make& make) noexcept {
    cut(bytes);
    if (pieces_ <= 1) {
      make(std::size_t{0}, bytes_);
      word_.store(word_of(State::met) + pieces_ * (kTaken + kMade), std::memory_order_release);
      return true;
    }
    word_.store(word_of(State::met) + kTaken, std::memory_order_release);
    return take(from, spins, true, make);
  }
  /// The first side's work, once they have met: takes pieces until none is left. Returns whether it made the last one.
  template <class Make>
  bool help(From from, int spins, const Make& make) noexcept {
    return take(from, spins, false, make);
  }

 private:
  // Pieces that are taken, pieces that are made, and the state. More are taken than there are, by at most two.
  static constexpr std::uint64_t kTaken = 1, kMade = std::uint64_t{1} << 24, kState = std::uint64_t{1} << 48;
  static constexpr std::uint64_t kCountMask = kMade - 1;
  static std::uint64_t taken_in(std::uint64_t word) { return word & kCountMask; }
  static std::uint64_t made_in(std::uint64_t word) { return word / kMade & kCountMask; }
  static std::uint64_t word_of(State state) { return kState * static_cast<std::uint64_t>(state); }

  void cut(std::size_t bytes) noexcept {
    // A piece of both sides fits into the nearer caches, and large values do not make too many: looking for their
    // parts costs. What is small is made by the second side, before the other one could have seen it.
    constexpr std::size_t small = 1024, least = 64 * 1024, most_pieces = 64;
    bytes_ = bytes;
    const std::size_t half = (bytes_ / kCacheLine + 1) / 2 * kCacheLine;
    const std::size_t many = (bytes_ / most_pieces + kCacheLine - 1) / kCacheLine * kCacheLine;
    piece_bytes_ = bytes_ <= small ? bytes_ : std::min(half, std::max(least, many));
    pieces_ = bytes_ == 0 ? 0 : (bytes_ + piece_bytes_ - 1) / piece_bytes_;
  }

  template <class Make>
  bool take(From from, int spins, bool has_first, const Make& make) noexcept {
    const std::uint64_t pieces = pieces_;
    const std::uint64_t share = from == From::front ? pieces_ - pieces_ / 2 : pieces_ / 2;
    const auto taken = [this] { return taken_in(word_.load(std::memory_order_relaxed)); };
    std::uint64_t made = 0;
    for (; has_first || taken() < pieces_; ++made) {
      for (int left = spins; made >= share && left > 0 && taken() == made; --left) cpu_pause();
      if (!std::exchange(has_first, false) && taken_in(word_.fetch_add(kTaken, std::memory_order_relaxed)) >= pieces_)
        break;
      const std::size_t piece = from == From::front ? made : pieces_ - 1 - made;
      make(piece * piece_bytes_, std::min(bytes_, (piece + 1) * piece_bytes_));
    }
    return made > 0 && made_in(word_.fetch_add(made * kMade, std::memory_order_acq_rel)) + made == pieces;
  }

  std::atomic<std::uint64_t> word_{0};
  std::size_t bytes_ = 0, piece_bytes_ = 0;
  std::uint64_t pieces_ = 0;
};

}  // namespace plumbline::comm::local
