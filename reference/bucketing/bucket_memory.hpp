// reference/bucketing/bucket_memory.hpp: the memory that a reducer's buckets lie in, and what is done there beside reductions.
//
// Order   Of memory of a device everything is done in the order of one stream, that in which the groups' calls are made
//         (comm::Communicator::use_stream()): whoever has the memory sees to both. The host waits for none of it, but in settle().
// Bits    Those of bucketing::copy_divided(), but for which NaN.
#pragma once

#include <cstddef>
#include <memory>

#include "reference/comm/call.hpp"

namespace plumbline::bucketing {

class BucketMemory {
 public:
  virtual ~BucketMemory() = default;
  /// Where it is.
  [[nodiscard]] virtual comm::Device device() const = 0;
  /// So many bytes, each zero, at a multiple of 64; given back when the last owner goes. Throws std::bad_alloc, OutOfMemory or
  /// what the device's library throws.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// As bucketing::copy_divided(), which says what it throws; both buffers in this memory.
  virtual void copy_divided(comm::ConstBuffer from, comm::Buffer to, double divisor) = 0;
  /// Every element zero.
  virtual void fill_zeros(comm::Buffer buffer) = 0;
  /// Returns when all of it is done that was begun here and in the stream: for what takes the time.
  virtual void settle() = 0;
};

/// The host's.
[[nodiscard]] std::shared_ptr<BucketMemory> host_memory();

}  // namespace plumbline::bucketing
