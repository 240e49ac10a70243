// conformance/collectives/guarded_buffer.hpp: memory whose surroundings are watched.
//
// Model   `bytes()` starts `offset` bytes past a boundary of 64 bytes, between two guards of 256 bytes each. The guards
//         hold a pattern that depends on the position, so that a copy of a guard onto the other shows too.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace plumbline::conformance {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes, std::size_t offset = 0);

  [[nodiscard]] std::span<std::byte> bytes() { return std::span(storage_).subspan(begin_, size_); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::span(storage_).subspan(begin_, size_); }
  [[nodiscard]] std::byte* data() { return bytes().data(); }

  /// What was written outside, in one line: "byte 0 after the end was 0x5c and is 0x00"; "" when nothing was.
  [[nodiscard]] std::string damage() const;

 private:
  std::vector<std::byte> storage_;
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
};

}  // namespace plumbline::conformance
