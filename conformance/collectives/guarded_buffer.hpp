// conformance/collectives/guarded_buffer.hpp: memory whose surroundings are watched.
//
// Model   `bytes()` starts `offset` bytes past a boundary of 64 bytes, between two guards of 256 bytes each. The guards
//         hold a pattern that depends on the position, so that a copy of a guard onto the other shows too. The memory
//         is the buffer's own, or from a room that the check has.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::conformance {

/// Gives that many bytes of memory, which outlives what lies in it. Empty: there is none, and buffers have their own.
using Room = std::function<std::span<std::byte>(std::size_t bytes)>;

class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes, std::size_t offset = 0, const Room& room = {});
  GuardedBuffer(GuardedBuffer&& other) noexcept
      : own_(std::move(other.own_)),
        storage_(std::exchange(other.storage_, {})),
        begin_(other.begin_),
        size_(other.size_) {}
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    own_ = std::move(other.own_);
    storage_ = std::exchange(other.storage_, {});
    begin_ = other.begin_;
    size_ = other.size_;
    return *this;
  }

  [[nodiscard]] std::span<std::byte> bytes() { return storage_.subspan(begin_, size_); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return storage_.subspan(begin_, size_); }
  [[nodiscard]] std::byte* data() { return bytes().data(); }

  /// What was written outside, in one line: "byte 0 after the end was 0x5c and is 0x00"; "" when nothing was.
  [[nodiscard]] std::string damage() const;

 private:
  std::vector<std::byte> own_;
  std::span<std::byte> storage_;
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
};

}  // namespace plumbline::conformance
