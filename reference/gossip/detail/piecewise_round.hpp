// reference/gossip/detail/piecewise_round.hpp: a round of large tensors, of which each piece is mixed while it is in a
// cache.
//
// Model   Receives are posted some pieces ahead, so that whoever sends moves the values, while they are in its cache,
//         and is done with them. A piece is mixed when the next one has been sent: by then its peers' are mostly here.
//         Where they are not, more are sent, up to as many as are posted; and where the wait is longer than a piece
//         takes in memory, more are posted for the rest of the round, so that a long way is filled.
// Cut     With confirmations a piece is mixed when those that it was sent to have said that they have it: until then it
//         can be sent again. What was cut goes on where it was: each count goes up when what it counts is done.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/gossip/detail/round_messages.hpp"
#include "reference/gossip/detail/round_state.hpp"

namespace plumbline::gossip {

/// Of a piece.
inline constexpr std::int64_t kPieceBytes = 64 * 1024;

class PiecewiseRound {
 public:
  /// Of the only bucket's tensors. Sends nothing yet.
  PiecewiseRound(RoundMessages& messages, std::span<const comm::Buffer> x);

  /// Mixes what is not mixed yet.
  void mix();
  /// What came with the values.
  [[nodiscard]] double weight() const { return weight_; }

  /// How many pieces of all peers are here.
  [[nodiscard]] std::size_t come() const { return come_; }
  /// Begins again over another group what is not done, where that many pieces are with each peer that they are sent to;
  /// their number here was told.
  void go_over(const std::vector<std::size_t>& had);

 private:
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
  struct Piece {
    comm::Buffer x;
    comm::Work came{}, sent{}, told{};  // `sent`: and confirmed
    std::size_t memory = kNowhere;
  };
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] PieceMemory& memory_of(Piece& piece);
  void receive(std::size_t index);
  void send(std::size_t index);
  void add_confirmations(std::size_t index);
  void confirm();
  [[nodiscard]] bool is_ready(std::size_t index);
  Clock::duration finish(std::size_t index);
  void mix(const comm::Buffer& x, std::span<const comm::Buffer> came) const;

  RoundMessages& messages_;
  RoundState& state_;
  TypeBucket& bucket_;
  std::int64_t length_;  // of a piece, in elements
  double kept_ = 1;
  std::vector<std::size_t> free_;  // memory of the bucket's that no piece has
  std::size_t ahead_;
  std::size_t posted_ = 0, sent_ = 0, scaled_ = 0, come_ = 0, told_ = 0, mixed_ = 0;
  std::vector<std::size_t> had_;         // by each peer that is sent to, before the first send over this group
  std::vector<std::uint8_t> confirmed_;  // of each piece by each of them
  double weight_ = 0;
  std::vector<Piece> pieces_;  // the last member: what is under way uses the others' memory until it is dropped
};

}  // namespace plumbline::gossip
