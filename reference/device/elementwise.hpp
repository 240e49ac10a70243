// reference/device/elementwise.hpp: what one thread of a block does of a part, written once for the device and for the
// host.
//
// Model   Columns are what belongs together element by element: read, written, or both. A step gets an element of each.
//         A part is cut into a head up to the first boundary of 16 bytes, whole vectors of 16 bytes of the narrowest
//         column, and a tail.
//         Threads take vectors alternately, so that neighbours read neighbours; head and tail go to the first threads.
//         Columns without a common boundary are done element by element.
// Memory  Columns are the same memory or do not overlap; each thread reads all of a vector before it writes any.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

// ---- What bodies of kernels have in common that are written once, for a GPU and for the host.
//
// Model   A body does one thread's part of one block's work, of any number of threads: nvcc compiles it for the device,
//         the host's compiler for the emulated device and for tests.

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define PLUMBLINE_HOST_DEVICE __host__ __device__
#else
#define PLUMBLINE_HOST_DEVICE
#endif

namespace plumbline::device {

/// Bytes that a thread reads or writes at once, at a multiple of them.
constexpr int kVectorBytes = 16;

template <class T, int count = kVectorBytes / static_cast<int>(sizeof(T))>
struct alignas(kVectorBytes) Vector {
  T value[count];
};

template <class T>
inline constexpr bool is_half = std::is_same_v<T, comm::Float16> || std::is_same_v<T, comm::BFloat16>;

/// An element as it is computed with: float of a half format, else itself.
template <class T>
PLUMBLINE_HOST_DEVICE inline auto widened(T value) {
  if constexpr (!is_half<T>) {
    return value;
  } else {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, comm::Float16>)
      return __half2float(__ushort_as_half(value.bits));
    else
      return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
#else
    return comm::to_float(value);
#endif
  }
}

/// A result as it is stored, rounded once.
template <class T, class Wide>
PLUMBLINE_HOST_DEVICE inline T narrowed(Wide value) {
  if constexpr (!is_half<T>) {
    return static_cast<T>(value);
  } else {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, comm::Float16>)
      return T{__half_as_ushort(__float2half_rn(value))};
    else
      return T{__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
    if constexpr (std::is_same_v<T, comm::Float16>)
      return comm::to_float16(value);
    else
      return comm::to_bfloat16(value);
#endif
  }
}

/// What T is computed in.
template <class T>
using Wide = decltype(widened(T()));

// Columns, by what a step does with them.
template <class T>
struct In {
  using Element = T;
  static constexpr bool reads = true, writes = false;
  const T* data;
};
template <class T>
struct Out {
  using Element = T;
  static constexpr bool reads = false, writes = true;
  T* data;
};
template <class T>
struct InOut {
  using Element = T;
  static constexpr bool reads = true, writes = true;
  T* data;
};

/// A vector of a column while it is worked on.
template <class Column, int width>
struct VectorOf {
  using Values = Vector<typename Column::Element, width>;
  PLUMBLINE_HOST_DEVICE VectorOf(Column column, std::int64_t head, std::int64_t index)
      : at(column.data + head + index * width) {
    if constexpr (Column::reads) vector = *reinterpret_cast<const Values*>(at);
  }
  PLUMBLINE_HOST_DEVICE void store() const {
    if constexpr (Column::writes) *reinterpret_cast<Values*>(at) = vector;
  }
  decltype(Column::data) at;
  Values vector;
};

template <int width, class Step, class... Vector>
PLUMBLINE_HOST_DEVICE inline void on_vectors(Step& step, Vector... vectors) {
  for (int k = 0; k < width; ++k) step(vectors.vector.value[k]...);
  (vectors.store(), ...);
}

/// This thread's part of `count` elements: step(element of each column…).
template <class Step, class... Column>
PLUMBLINE_HOST_DEVICE inline void elementwise(Step& step, std::int64_t count, int thread, int threads,
                                              Column... columns) {
  int narrowest = 16;
  std::uint64_t start = 0;
  const auto narrow = [&](int size, const void* data) {
    if (size >= narrowest) return;
    narrowest = size;
    start = reinterpret_cast<std::uintptr_t>(data);
  };
  (narrow(static_cast<int>(sizeof(typename Column::Element)), columns.data), ...);
  constexpr int width = [] {
    int size = 16;
    ((size = static_cast<int>(sizeof(typename Column::Element)) < size
                 ? static_cast<int>(sizeof(typename Column::Element))
                 : size),
     ...);
    return 16 / size;
  }();
  std::int64_t head = static_cast<std::int64_t>((16 - start % 16) % 16) / narrowest;
  const auto is_aligned = [&](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  if (head > count || !(is_aligned(columns.data + head) && ...)) head = count;
  const std::int64_t vectors = (count - head) / width, tail = head + vectors * width;
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
  for (std::int64_t i = thread; i < vectors; i += threads)
    on_vectors<width>(step, VectorOf<Column, width>(columns, head, i)...);
  for (std::int64_t i = thread; i < head; i += threads) step(columns.data[i]...);
  for (std::int64_t i = tail + thread; i < count; i += threads) step(columns.data[i]...);
}

// ---- Many tensors as one row of chunks, for a device that takes them all in one launch.
//
// Model   A table is handed to a kernel by value: the stream keeps it, nothing is copied to the device before and
//         nothing waits. Each of its chunks is the work of one block: up to kChunk elements of one entry. An entry has
//         the addresses of what belongs together element by element: a gradient and where it goes; parameters and their
//         slow momentum buffers.
// Size    A kernel has 32764 bytes of parameters: a thousand entries of two addresses. More of them make more tables.

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

/// Throws InvalidArgument, naming `what`, unless all buffers have the same element count and are somewhere in memory of
/// `device`.
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
