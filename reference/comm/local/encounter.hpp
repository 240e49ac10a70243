// reference/comm/local/encounter.hpp: two members that exchange their values in place.
//
// Model   Who comes first posts the parts and waits; who comes second meets it, and from then on the exchange is made, by
//         either of them or both. The parts are cut into pieces. The lower rank takes them from the front, the other one from
//         the back, until there are none left: so each does half, the same one every time, and who is late is helped.
// Cost    An encounter is one lock, and two waits of which each is for the other to be seen.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reference/comm/local/posting.hpp"
#include "reference/comm/local/wait.hpp"
#include "reference/comm/pair_exchange.hpp"

namespace plumbline::comm::local {

class alignas(kApart) Encounter {
 public:
  enum class State : std::uint8_t { waiting, met, mismatched, withdrawn };
  /// The sides of an encounter: the lower rank, and the other.
  static constexpr std::size_t kLower = 0, kHigher = 1;

  Encounter(std::size_t side, const PairExchange& exchange);

  [[nodiscard]] State state() const { return state_.load(std::memory_order_acquire); }
  [[nodiscard]] const std::string& mismatch() const { return mismatch_; }
  /// Of one that has met: takes pieces until there are none left, and makes them. Before it takes those of the other side it
  /// looks for it, as often as the policy spins in a tenth of a wait.
  void work(std::size_t side, WaitPolicy policy) noexcept;
  /// Whether it was met and all pieces are made.
  [[nodiscard]] bool is_complete() const {
    return state() == State::met && made_.load(std::memory_order_acquire) == pieces_;
  }
  /// Whether nobody touches the values any more.
  [[nodiscard]] bool is_over() const {
    return is_complete() || state() == State::mismatched || state() == State::withdrawn;
  }

 private:
  friend class MeetingPlace;
  void meet(std::size_t side, const PairExchange& exchange);
  void cut_into_pieces();
  [[nodiscard]] std::string difference() const;
  void make(std::size_t begin, std::size_t end) const noexcept;

  std::array<PairExchange, 2> sides_{};
  std::size_t first_;  // the side that came first
  std::string mismatch_;
  std::size_t bytes_ = 0, piece_bytes_ = 0;  // of all parts, each rounded up to whole lines
  std::uint32_t pieces_ = 0;
  std::atomic<State> state_{State::waiting};
  alignas(kApart) std::atomic<std::uint32_t> taken_{0};
  alignas(kApart) std::atomic<std::uint32_t> made_{0};
};

/// Where two members of a group meet.
class MeetingPlace {
 public:
  /// Meets the first that the other side has posted with this tag, or posts one.
  std::shared_ptr<Encounter> come(std::size_t side, const PairExchange& exchange);
  /// Takes one that nobody has met back, whose state is `withdrawn` then. False when it was met: then it is made.
  bool withdraw(const std::shared_ptr<Encounter>& encounter);

 private:
  BriefLock lock_;
  std::vector<std::shared_ptr<Encounter>> posted_;  // in order
};

}  // namespace plumbline::comm::local
