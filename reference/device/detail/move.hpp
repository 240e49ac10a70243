// reference/device/detail/move.hpp: many copies and exchanges as a table, for a device that does them all in one
// launch.
//
// Model   A copy reads one range of bytes once and writes it to one place or several. An exchange takes two ranges and
//         writes each to the other's place; both are read by the thread that writes them, so that the places may be the
//         ranges themselves: of an all_to_all in place, the block that two ranks hold for each other. No move may write
//         what another one reads or writes.
//         Tables, chunks and blocks as fold.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/device/elementwise.hpp"

namespace plumbline::device {

constexpr std::int64_t kMoveChunkBytes = 16384;
constexpr std::int32_t kMostMoves = 500, kMostAddresses = 3000;

/// Its addresses: of a copy where it is read and where it is written; of an exchange read and written, read and
/// written.
struct Move {
  std::int64_t bytes = 0;
  std::int32_t first_chunk = 0;
  std::int16_t first_address = 0;
  std::int16_t copies = 0;  // 0: an exchange
};

struct MoveTable {
  std::int32_t moves = 0, addresses = 0, chunks = 0;
  Move move[kMostMoves];
  std::byte* address[kMostAddresses];
};
static_assert(sizeof(MoveTable) <= 32764, "a kernel takes no more by value");

/// Collects moves, in as few tables as hold them.
class Moves {
 public:
  /// Copies `bytes` to each of `to`; what is there already, since `to` is `from`, is left out.
  void copy(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes);
  /// to_a = from_b and to_b = from_a.
  void exchange(std::byte* to_a, const std::byte* from_b, std::byte* to_b, const std::byte* from_a, std::size_t bytes);
  [[nodiscard]] const std::vector<MoveTable>& tables() const { return tables_; }

 private:
  void add(std::span<std::byte* const> addresses, std::int16_t copies, std::size_t bytes);
  std::vector<MoveTable> tables_;
};

/// The move that a chunk is of: the last one that begins at it or before it.
PLUMBLINE_HOST_DEVICE inline std::int32_t find_move(const MoveTable& table, std::int32_t chunk) {
  std::int32_t low = 0, high = table.moves;
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    if (table.move[middle].first_chunk <= chunk)
      low = middle;
    else
      high = middle;
  }
  return low;
}

}  // namespace plumbline::device
