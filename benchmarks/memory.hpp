// benchmarks/memory.hpp: elements that a benchmark works on, in the host's memory or in a device's.
//
// Model   On a device all is done in the order of the place's stream; what gives the host values, or takes them from
//         it, waits for that: none of it is for timed regions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/device/memory_space.hpp"

namespace plumbline::bench {

/// Elements at a place, page-aligned, zeroed (so that every page is there before the clock starts). What is said of
/// values is of elements of f32.
class Memory {
 public:
  /// Throws std::bad_alloc, and OutOfMemory of a device.
  Memory(const device::MemorySpace& place, std::int64_t elements, comm::DType dtype = comm::DType::f32);

  [[nodiscard]] std::byte* data() const { return place_.is_host() ? on_host_.get() : on_device_.data(); }
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(elements_) * comm::size_of(dtype_); }
  [[nodiscard]] const device::MemorySpace& place() const { return place_; }
  [[nodiscard]] comm::Buffer buffer() const { return part(0, elements_); }
  /// The elements [first, first + count).
  [[nodiscard]] comm::Buffer part(std::int64_t first, std::int64_t count) const;
  /// Of the host's memory.
  [[nodiscard]] std::span<float> floats() const {
    return {reinterpret_cast<float*>(data()), static_cast<std::size_t>(elements_)};
  }

  /// The elements [first, first + count): those of `period` again and again, beginning with its element `from`.
  void put(std::int64_t first, std::int64_t count, std::span<const std::byte> period, std::int64_t from = 0) const;
  [[nodiscard]] bool has(std::int64_t first, std::int64_t count, std::span<const std::byte> period,
                         std::int64_t from = 0) const;
  void fill(float value) const { put(0, elements_, std::as_bytes(std::span(&value, 1))); }
  [[nodiscard]] bool all_are(float value) const { return has(0, elements_, std::as_bytes(std::span(&value, 1))); }
  /// Whether all are that value times the factors, again and again, but for a share of it: what a mean comes to depends
  /// on the order of additions.
  [[nodiscard]] bool all_are_near(double value, double share, std::span<const float> factors) const;
  [[nodiscard]] float at(std::int64_t element) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  // Calls `body` with places of up to so many values, until it returns false.
  template <class Body>
  static bool in_pieces(const comm::Buffer& of, const Body& body);

  device::MemorySpace place_;
  std::int64_t elements_;
  comm::DType dtype_;
  std::unique_ptr<std::byte, Free> on_host_;
  device::Memory on_device_;
};

}  // namespace plumbline::bench
