// reference/device/tensor_table.hpp: many tensors as one row of chunks, for a device that takes them all in one launch.
//
// Model   A table is handed to a kernel by value: the stream keeps it, nothing is copied to the device before and nobody waits. Each
//         of its chunks is the work of one block: up to kChunk elements of one entry. An entry has the addresses of what belongs
//         together element by element: a gradient and where it goes; parameters and their slow buffers.
// Size    A kernel has 32764 bytes of parameters: a thousand entries of two addresses. More of them make more tables.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/host_device.hpp"

namespace plumbline::device {

inline constexpr std::int64_t kChunk = 16384;  // elements

template <int addresses>
struct TensorEntry {
  void* address[addresses] = {};
  std::int64_t count = 0;  // elements, of each
  std::int32_t first_chunk = 0;
  std::int32_t types = 0;  // what the kernel's own enumeration says
};

template <int addresses>
struct TensorTable {
  /// What is left of the parameters' room is the kernel's own.
  static constexpr std::int32_t kMost = 32000 / sizeof(TensorEntry<addresses>);

  std::int32_t entries = 0, chunks = 0;
  TensorEntry<addresses> entry[kMost];
};

/// Elements [first, first + count) of an entry.
struct ChunkPart {
  std::int32_t entry = 0;
  std::int64_t first = 0, count = 0;
};

/// What a chunk is of: the last entry that begins at it or before it.
template <int addresses>
PLUMBLINE_HOST_DEVICE inline ChunkPart part_of(const TensorTable<addresses>& table, std::int32_t chunk) {
  std::int32_t low = 0, high = table.entries;
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    if (table.entry[middle].first_chunk <= chunk)
      low = middle;
    else
      high = middle;
  }
  const std::int64_t first = (chunk - table.entry[low].first_chunk) * kChunk, left = table.entry[low].count - first;
  return {low, first, left < kChunk ? left : kChunk};
}

/// Makes tables of entries, in their order; entries without elements are left out.
template <int addresses>
class TensorTables {
 public:
  /// Throws Unsupported for more elements than a table has chunks for.
  void add(TensorEntry<addresses> entry) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (entry.count == 0) return;
    const std::int64_t chunks = (entry.count + kChunk - 1) / kChunk;
    if (chunks > most) throw Unsupported("a tensor of " + std::to_string(entry.count) + " elements in one launch");
    if (tables_.empty() || tables_.back().entries == TensorTable<addresses>::kMost ||
        tables_.back().chunks > most - chunks)
      tables_.emplace_back();
    TensorTable<addresses>& table = tables_.back();
    entry.first_chunk = table.chunks;
    table.entry[table.entries++] = entry;
    table.chunks += static_cast<std::int32_t>(chunks);
  }
  [[nodiscard]] const std::vector<TensorTable<addresses>>& all() const { return tables_; }

 private:
  std::vector<TensorTable<addresses>> tables_;
};

/// Throws InvalidArgument, naming `what`, unless all buffers have as many elements and are somewhere in memory of `device`.
inline void require_together(const std::string& what, std::initializer_list<comm::ConstBuffer> buffers,
                             comm::Device device) {
  for (const comm::ConstBuffer& one : buffers) {
    if (one.count < 0 || (one.data == nullptr && one.count > 0))
      throw InvalidArgument(what + ": " + std::to_string(one.count) + " elements" +
                            (one.data == nullptr ? " at a null pointer" : ""));
    if (one.count != buffers.begin()->count)
      throw InvalidArgument(what + ": " + std::to_string(buffers.begin()->count) + " elements go with " +
                            std::to_string(one.count));
    if (one.device != device)
      throw InvalidArgument(what + " is in memory of " + comm::name_of(one.device) + "; all of one call must be on " +
                            comm::name_of(device));
  }
}

}  // namespace plumbline::device
