// reference/comm/local/pair_exchange_queue.hpp: two members that exchange their values in place.
//
// Model   Who comes first posts the parts and waits; who comes second meets it, and from then on the exchange is made,
//         by either of them or both. The parts are cut into pieces. The lower rank takes them from the front, the other
//         one from the back, until none is left: so each does half, the same one every time, and a late member is
//         helped.
// Cost    A lock; then all that both look at is in one word: that they have met, which pieces are taken, which are
//         made. The memory of exchanges is kept for later ones.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/comm/local/posting.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {

class alignas(kApart) PairExchangeSlot {
 public:
  enum class State : std::uint8_t { waiting, met, mismatched, withdrawn };
  /// The sides of an exchange: the lower rank, and the other.
  static constexpr std::size_t kLower = 0, kHigher = 1;

  [[nodiscard]] State state() const;
  /// Of one that is mismatched: how the sides differ, in words.
  [[nodiscard]] std::string mismatch() const;
  /// Of one that has met: takes pieces until none is left, and makes them. Before it takes those of the other
  /// side it looks for it, for the number of spins of the policy in a tenth of a wait.
  void work(std::size_t side, WaitPolicy policy) noexcept { take_pieces(side, policy, false); }
  /// Whether it was met and all pieces are made.
  [[nodiscard]] bool is_complete() const;
  /// Whether the values are no longer accessed.
  [[nodiscard]] bool is_over() const;

 private:
  friend class PairExchangeQueue;
  friend struct LeaveSlot;
  // How the sides differ: in their numbers of parts, in their updates, or in a part. Values, since who has been told
  // may free its parts before the other one is.
  struct Difference {
    enum class In : std::uint8_t { nothing, number, update, part } in = In::nothing;
    std::size_t part = 0;
    std::array<std::size_t, 2> parts{};
    std::array<DType, 2> dtypes{};
    std::array<std::int64_t, 2> counts{};
  };
  void post(std::size_t side, const PairExchange& exchange) noexcept;
  // In every case, the other side, which waits, is woken.
  void meet(std::size_t side, const PairExchange& exchange, WaitPolicy policy) noexcept;
  void take_pieces(std::size_t side, WaitPolicy policy, bool has_first) noexcept;
  void cut_into_pieces() noexcept;
  [[nodiscard]] Difference difference() const noexcept;
  void make(std::size_t begin, std::size_t end) const noexcept;

  // The word: pieces that are taken, pieces that are made, and the state. More are taken than there are, by at most
  // two.
  static constexpr std::uint64_t kTaken = 1, kMade = std::uint64_t{1} << 24, kState = std::uint64_t{1} << 48;
  static constexpr std::uint64_t kCountMask = kMade - 1;
  static std::uint64_t taken_in(std::uint64_t word) { return word & kCountMask; }
  static std::uint64_t made_in(std::uint64_t word) { return word / kMade & kCountMask; }
  static std::uint64_t word_of(State state) { return kState * static_cast<std::uint64_t>(state); }

  std::atomic<std::uint64_t> word_{0};
  alignas(kApart) std::array<PairExchange, 2> sides_{};
  std::size_t first_ = kLower;               // the side that came first
  std::size_t bytes_ = 0, piece_bytes_ = 0;  // of all parts, each rounded up to whole lines
  std::uint64_t pieces_ = 0;
  Difference difference_;
  std::atomic<int> users_{0};  // 0: may be posted again
};

/// A member's hold on an exchange, which lasts no longer than the group.
struct LeaveSlot {
  void operator()(PairExchangeSlot* exchange_slot) const {
    exchange_slot->users_.fetch_sub(1, std::memory_order_acq_rel);
  }
};
using HeldSlot = std::unique_ptr<PairExchangeSlot, LeaveSlot>;

/// Where two members of a group meet.
class alignas(kApart) PairExchangeQueue {
 public:
  /// Meets the first that the other side has posted with this tag, and does the side's work, or posts one.
  [[nodiscard]] HeldSlot come(std::size_t side, const PairExchange& exchange, WaitPolicy policy);
  /// Takes back one that has not met its peer; its state is `withdrawn` then. False when it has met: then it is made.
  bool withdraw(PairExchangeSlot& exchange_slot);

 private:
  [[nodiscard]] PairExchangeSlot& idle();
  SpinLock lock_;
  std::vector<PairExchangeSlot*> posted_;  // in order
  std::vector<std::unique_ptr<PairExchangeSlot>> owned_;
};

}  // namespace plumbline::comm::local
