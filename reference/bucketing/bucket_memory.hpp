// reference/bucketing/bucket_memory.hpp: the memory of buckets, the host's or a device's, and copies into and out of
// them.
#pragma once

#include <cstddef>
#include <memory>

#include "reference/comm/call.hpp"
#include "reference/device/memory_space.hpp"

namespace plumbline::bucketing {

// ---- The memory that a reducer's buckets lie in, and what is done there beside reductions.
//
// Order   Of memory of a device everything is done in the order of one stream, that in which the groups' calls are made
//         (comm::Communicator::use_stream()): the owner of the memory ensures both. The host waits for none of it, but
//         in settle().
// Bits    Those of bucketing::copy_divided(), but for which NaN.

class BucketMemory {
 public:
  virtual ~BucketMemory() = default;
  /// Where it is.
  [[nodiscard]] virtual comm::Device device() const = 0;
  /// Returns `bytes` zero bytes, aligned to 64, freed when the last owner releases them. Throws std::bad_alloc,
  /// OutOfMemory or what the device's library throws.
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

// ---- Buckets in a device's memory.

/// The memory of the place, all in the order of its stream: that in which the groups' calls are made. What it gives out
/// is waited for before it is given back. Of the host: host_memory().
[[nodiscard]] std::shared_ptr<BucketMemory> memory_of(const device::MemorySpace& place);

// ---- Gradients into and out of buckets, in one pass over memory.
//
// Model   An element is read, divided, rounded to the type of where it goes, and written. Division by 1 between buffers
//         of one type is a copy of bytes. What is neither f32 nor f64 is divided as f32.
// Cost    Each byte is read once and written once: what memcpy costs.

/// to[i] = from[i] / divisor. In place where both start at one address. Throws InvalidArgument for other counts than
/// each other's, Unsupported for integers that would be divided or change their type.
void copy_divided(comm::ConstBuffer from, comm::Buffer to, double divisor);
/// Every element zero.
void fill_zeros(comm::Buffer buffer);

}  // namespace plumbline::bucketing
