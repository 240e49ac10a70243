// reference/comm/local/pair_exchange_queue.hpp: two members that exchange their values in place.
//
// Model   Who comes first posts the parts and waits; who comes second meets it, and from then on both make the exchange
//         (rendezvous.hpp). The lower rank begins at the front, so that each does the same half every time.
// Cost    A lock, and a rendezvous. The memory of exchanges is kept for later ones.
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
#include "reference/comm/local/rendezvous.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {

class alignas(kApart) PairExchangeSlot {
 public:
  using State = Rendezvous::State;
  /// The sides of an exchange: the lower rank, and the other.
  static constexpr std::size_t kLower = 0, kHigher = 1;

  [[nodiscard]] State state() const { return rendezvous_.state(); }
  /// Of one that is mismatched: how the sides differ, in words.
  [[nodiscard]] std::string mismatch() const;
  /// Of one that has met: takes pieces until none is left, and makes them. Before it takes those of the other
  /// side it looks for it, for the number of spins of the policy in a tenth of a wait.
  void work(std::size_t side, WaitPolicy policy) noexcept;
  /// Whether it was met and all pieces are made.
  [[nodiscard]] bool is_complete() const { return rendezvous_.is_complete(); }
  /// Whether the values are no longer accessed.
  [[nodiscard]] bool is_over() const { return rendezvous_.is_over(); }

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
  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] Difference difference() const noexcept;
  void make(std::size_t begin, std::size_t end) const noexcept;

  Rendezvous rendezvous_;
  alignas(kApart) std::array<PairExchange, 2> sides_{};
  std::size_t first_ = kLower;  // the side that came first
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
