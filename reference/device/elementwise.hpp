// reference/device/elementwise.hpp: what one thread of a block does of a part, written once for the device and for the host.
//
// Model   Columns are what belongs together element by element: read, written, or both. A step gets an element of each. A part is
//         cut into a head up to the first boundary of 16 bytes, whole vectors of 16 bytes of the narrowest column, and a tail.
//         Threads take vectors in turn, so that neighbours read neighbours; head and tail go to the first threads. Columns
//         without a common boundary are done element by element.
// Memory  Columns are the same memory or do not overlap; each thread reads all of a vector before it writes any.
#pragma once

#include <cstdint>

#include "reference/device/host_device.hpp"

namespace plumbline::device {

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

}  // namespace plumbline::device
