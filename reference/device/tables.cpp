#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/device/detail/move.hpp"
#include "reference/device/fold.hpp"

namespace plumbline::device {
namespace {

// How far all of them are past a boundary, or -1.
template <class Pointer>
std::int32_t common_shift(std::span<const Pointer> addresses) {
  const auto shift = [](const void* address) {
    return static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(address) % kVectorBytes);
  };
  if (addresses.empty()) return 0;
  const std::int32_t first = shift(addresses.front());
  return std::ranges::all_of(addresses, [&](Pointer address) { return shift(address) == first; }) ? first : -1;
}

}  // namespace

void note_shifts(FoldTable& table) {
  table.input_shift =
      common_shift(std::span<const std::byte* const>(table.input, static_cast<std::size_t>(table.inputs)));
  table.output_shift = common_shift(std::span<std::byte* const>(table.output, static_cast<std::size_t>(table.outputs)));
}

void Moves::add(std::span<std::byte* const> addresses, std::int16_t copies, std::size_t bytes) {
  constexpr std::size_t most_chunks = std::numeric_limits<std::int32_t>::max();
  const std::size_t chunks = (bytes + kMoveChunkBytes - 1) / kMoveChunkBytes;
  if (chunks > most_chunks)
    throw Unsupported(fmt::format("{} bytes are more than a device moves in one launch", bytes));
  const auto count = static_cast<std::int32_t>(addresses.size());
  const auto is_full = [&](const MoveTable& table) {
    return table.moves == kMostMoves || table.addresses + count > kMostAddresses ||
           static_cast<std::size_t>(table.chunks) > most_chunks - chunks;
  };
  if (tables_.empty() || is_full(tables_.back())) tables_.emplace_back();
  MoveTable& table = tables_.back();
  table.move[table.moves++] = {.bytes = static_cast<std::int64_t>(bytes),
                               .first_chunk = table.chunks,
                               .first_address = static_cast<std::int16_t>(table.addresses),
                               .copies = copies};
  std::ranges::copy(addresses, table.address + table.addresses);
  table.addresses += count;
  table.chunks += static_cast<std::int32_t>(chunks);
}

void Moves::copy(const std::byte* from, std::span<std::byte* const> to, std::size_t bytes) {
  if (bytes == 0) return;
  std::byte* const source = const_cast<std::byte*>(from);  // only read
  std::vector<std::byte*> addresses{source};
  const auto flush = [&] {
    if (addresses.size() > 1) add(addresses, static_cast<std::int16_t>(addresses.size() - 1), bytes);
    addresses.resize(1);
  };
  for (std::byte* place : to) {
    if (place == from) continue;
    addresses.push_back(place);
    if (addresses.size() == static_cast<std::size_t>(kMostAddresses)) flush();
  }
  flush();
}

void Moves::exchange(std::byte* to_a, const std::byte* from_b, std::byte* to_b, const std::byte* from_a,
                     std::size_t bytes) {
  if (bytes == 0) return;
  std::byte* const addresses[] = {const_cast<std::byte*>(from_a), to_b, const_cast<std::byte*>(from_b), to_a};
  add(addresses, 0, bytes);
}

}  // namespace plumbline::device
