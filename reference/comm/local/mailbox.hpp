// reference/comm/local/mailbox.hpp: small messages from one rank to another, until they are received.
//
// Model   A ring of slots. One thread at a time fills them, the sender's, and one at a time empties them. A slot holds
//         a whole message, and its number is written last: who sees the number sees the message. The count of messages
//         taken is written by the side that empties, and read by the other one only when the ring seems full.
// Cost    A message of up to 40 bytes is one cache line that goes from the sender to the receiver; a larger one is one
//         more for each 64 bytes. Nothing goes back.
// Source  Giacomoni, Moseley, Vachharajani, FastForward for Efficient Pipeline Parallelism, PPoPP 2008: the slots
//         themselves say whether they are filled. Open MPI's fast boxes (btl/sm) send small messages in this way.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "reference/comm/call.hpp"
#include "reference/comm/local/posting.hpp"

namespace plumbline::comm::local {

class Mailbox {
 public:
  static constexpr std::size_t kMostBytes = 4096;

  /// Copies the message of a send, of at most kMostBytes on the host. False when the mailbox is full.
  [[nodiscard]] bool put(const Call& send) noexcept {
    if (put_ - taken_seen_ == kSlots) taken_seen_ = taken_.load(std::memory_order_acquire);
    if (put_ - taken_seen_ == kSlots) return false;
    Slot& slot = slots_[put_ % kSlots];
    slot.tag = send.tag;
    slot.to = static_cast<std::int16_t>(send.root);
    slot.count = static_cast<std::int16_t>(send.in.count);
    slot.dtype = send.in.dtype;
    if (send.in.count != 0) std::memcpy(data_of(put_), send.in.data, send.in.bytes());
    slot.number.store(++put_, std::memory_order_release);
    return true;
  }

  /// Also for a thread that may not empty it now: what it sees may be outdated then.
  [[nodiscard]] bool is_empty() const noexcept {
    const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    return slots_[taken % kSlots].number.load(std::memory_order_acquire) != taken + 1;
  }
  /// The send of the oldest message, whose data are valid until pop().
  [[nodiscard]] Call front() noexcept {
    const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    const Slot& slot = slots_[taken % kSlots];
    return {
        .operation = Operation::send, .root = slot.to, .tag = slot.tag, .in = {data_of(taken), slot.count, slot.dtype}};
  }
  void pop() noexcept { taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

 private:
  static constexpr std::size_t kSlots = 8;
  struct alignas(kCacheLine) Slot {
    std::atomic<std::uint64_t> number{0};  // of the message that it holds, from 1
    std::int32_t tag;
    std::int16_t to, count;
    DType dtype;
    alignas(8) std::array<std::byte, 40> line;  // data that need no second cache line
  };
  static_assert(sizeof(Slot) == kCacheLine);
  // Of larger data. A line apart, so that bodies do not begin in the same set of a cache.
  struct alignas(kCacheLine) Body {
    std::array<std::byte, kMostBytes + kCacheLine> data;
  };

  [[nodiscard]] std::byte* data_of(std::uint64_t index) noexcept {
    Slot& slot = slots_[index % kSlots];
    const std::size_t bytes = static_cast<std::size_t>(slot.count) * size_of(slot.dtype);
    return bytes <= slot.line.size() ? slot.line.data() : bodies_[index % kSlots].data.data();
  }

  alignas(kApart) const std::unique_ptr<Body[]> bodies_ = std::make_unique_for_overwrite<Body[]>(kSlots);
  alignas(kApart) std::uint64_t put_ = 0;  // the sender's, like the next
  std::uint64_t taken_seen_ = 0;
  alignas(kApart) std::array<Slot, kSlots> slots_;
  alignas(kApart) std::atomic<std::uint64_t> taken_{0};
};

}  // namespace plumbline::comm::local
