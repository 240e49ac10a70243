// reference/device/detail/move_chunk.hpp: what one thread of a block does of a MoveTable's chunk, written once for both
// sides.
//
// Model   A chunk is moved in the widest units, of 16 bytes at most, at whose boundaries all its addresses can be at
//         once; what lies before the first boundary and after the last one goes byte by byte.
#pragma once

#include <cstdint>

#include "reference/device/detail/move.hpp"
#include "reference/device/elementwise.hpp"

namespace plumbline::device {

/// The addresses of one chunk's part of a move, whose ranges begin `at` bytes after those of the table.
struct MovePart {
  std::byte* const* address;
  std::int64_t at, bytes;
  std::int32_t copies;
  PLUMBLINE_HOST_DEVICE std::int32_t addresses() const { return copies == 0 ? 4 : copies + 1; }
};

/// This thread's share of the part's bytes [first, first + count), in units of type Unit, at whose boundaries all
/// addresses are.
template <class Unit, int at_once>
PLUMBLINE_HOST_DEVICE inline void move_units(const MovePart& part, std::int64_t first, std::int64_t count, int thread,
                                             int threads) {
  const auto place = [&](std::int32_t i) { return reinterpret_cast<Unit*>(part.address[i] + part.at + first); };
  const std::int64_t units = count / static_cast<std::int64_t>(sizeof(Unit));
  const std::int64_t step = threads;
  if (part.copies == 0) {
    const Unit* from_a = place(0);
    Unit* to_b = place(1);
    const Unit* from_b = place(2);
    Unit* to_a = place(3);
    for (std::int64_t i = thread; i < units; i += step) {
      const Unit a = from_a[i], b = from_b[i];
      to_b[i] = a;
      to_a[i] = b;
    }
    return;
  }
  const Unit* from = place(0);
  std::int64_t i = thread;
  for (; i + (at_once - 1) * step < units; i += at_once * step) {
    Unit read[at_once];
    for (int u = 0; u < at_once; ++u) read[u] = from[i + u * step];
    for (std::int32_t copy = 1; copy <= part.copies; ++copy) {
      Unit* to = place(copy);
      for (int u = 0; u < at_once; ++u) to[i + u * step] = read[u];
    }
  }
  for (; i < units; i += step) {
    const Unit read = from[i];
    for (std::int32_t copy = 1; copy <= part.copies; ++copy) place(copy)[i] = read;
  }
}

/// The widest unit that fits: the greatest power of two, 16 at most, that divides all distances between the addresses.
PLUMBLINE_HOST_DEVICE inline std::int64_t unit_of(const MovePart& part) {
  const auto first = reinterpret_cast<std::uintptr_t>(part.address[0]);
  std::uintptr_t distances = kVectorBytes;
  for (std::int32_t i = 1; i < part.addresses(); ++i)
    distances |= reinterpret_cast<std::uintptr_t>(part.address[i]) - first;
  return static_cast<std::int64_t>(distances & (~distances + 1));
}

template <class Unit>
PLUMBLINE_HOST_DEVICE inline void move_part(const MovePart& part, int thread, int threads) {
  constexpr auto width = static_cast<std::int64_t>(sizeof(Unit));
  const auto address =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(part.address[0] + part.at) % sizeof(Unit));
  std::int64_t head = (width - address) % width;
  if (head > part.bytes) head = part.bytes;
  const std::int64_t whole = (part.bytes - head) / width * width;
  move_units<Unit, 4>(part, head, whole, thread, threads);
  if constexpr (width > 1) {
    move_units<unsigned char, 1>(part, 0, head, thread, threads);
    move_units<unsigned char, 1>(part, head + whole, part.bytes - head - whole, thread, threads);
  }
}

/// This thread's share of a chunk.
PLUMBLINE_HOST_DEVICE inline void move_chunk(const MoveTable& table, std::int32_t chunk, int thread, int threads) {
  const Move& move = table.move[find_move(table, chunk)];
  const std::int64_t at = (chunk - move.first_chunk) * kMoveChunkBytes;
  const MovePart part{.address = table.address + move.first_address,
                      .at = at,
                      .bytes = move.bytes - at < kMoveChunkBytes ? move.bytes - at : kMoveChunkBytes,
                      .copies = move.copies};
  switch (unit_of(part)) {
    case 16:
      return move_part<Vector<unsigned char>>(part, thread, threads);
    case 8:
      return move_part<std::uint64_t>(part, thread, threads);
    case 4:
      return move_part<std::uint32_t>(part, thread, threads);
    case 2:
      return move_part<std::uint16_t>(part, thread, threads);
    default:
      return move_part<unsigned char>(part, thread, threads);
  }
}

}  // namespace plumbline::device
