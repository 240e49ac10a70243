// reference/comm/local/posting.hpp: how a rank tells the members of a group what it calls.
//
// Model   Each member owns one PostingStream per group: an endless row of slots that it alone fills and all members
//         read in order. A slot's `sequence` is written last, so a reader that sees number k sees all of posting k.
//         Slots live in blocks that form a ring; a full ring grows, so posting never blocks. A block is reused when
//         every member has consumed its last posting, which the poster learns from the postings of the others.
//         Small payloads lie in the slot's own cache line: one transfer brings flag, signature and data.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reference/comm/local.hpp"
#include "reference/comm/local/shape.hpp"

namespace plumbline::comm::local {

inline constexpr std::size_t kCacheLine = 64;
/// Apart by this much, what different ranks write does not share lines, nor pairs of lines that are fetched together.
inline constexpr std::size_t kApart = 128;

/// What members must agree on, in 64 bits: operation, dtype, op, root, elements, and whether memory is a device's.
/// Equal calls have equal signatures. In the place of the operation, numbers that no collective has name those of
/// blocks of different lengths, whose steps no other call meets; in the place of the op, one that no op has names a sum
/// with factors, which no plain sum meets, in the caller's dtype.
class Signature {
 public:
  Signature() = default;
  explicit Signature(const Shape& shape)
      : bits_((shape.is_uneven() ? kUneven + static_cast<std::uint64_t>(shape.uneven) - kFirst
                                 : static_cast<std::uint64_t>(shape.operation)) |
              static_cast<std::uint64_t>(shape.scaled.value_or(shape.dtype)) << kDTypeAt |
              (shape.scaled ? kScaled : static_cast<std::uint64_t>(shape.op)) << kOpAt |
              static_cast<std::uint64_t>(shape.root + 1) << kRootAt |
              static_cast<std::uint64_t>(shape.elements) << kElementsAt |
              static_cast<std::uint64_t>(shape.on_device) << 63) {}
  /// The call, without its data.
  [[nodiscard]] std::string describe(int ranks) const;
  [[nodiscard]] bool on_device() const { return bits_ >> 63 != 0; }
  friend bool operator==(Signature, Signature) = default;

 private:
  static constexpr int kDTypeAt = 4, kOpAt = 8, kRootAt = 11, kElementsAt = 23;
  static constexpr auto kUneven = static_cast<std::uint64_t>(Operation::send);
  static constexpr auto kFirst = static_cast<std::uint64_t>(Operation::reduce_scatter);  // then all_gather, all_to_all
  static constexpr std::uint64_t kScaled = kAllReduceOps.size();
  static_assert(kUneven + 3 <= 1 << kDTypeAt && kDTypeCount <= 1 << (kOpAt - kDTypeAt) &&
                kScaled < 1 << (kRootAt - kOpAt));
  [[nodiscard]] std::uint64_t field(int from, int until) const {
    return bits_ >> from & ((std::uint64_t{1} << (until - from)) - 1);
  }
  [[nodiscard]] Call call(int ranks) const;

  std::uint64_t bits_ = 0;
};
inline constexpr int kMaxRanks = (1 << 12) - 1;
inline constexpr std::int64_t kMaxElements = (std::int64_t{1} << 40) - 1;

/// What a slot of a call on a device's memory has no room for.
struct DevicePosting {
  std::uint64_t sequence;
  Device device;
  std::shared_ptr<const DeviceCalls::Mark> ready;  // where the poster's stream stood
  std::shared_ptr<const DeviceCalls::Mark> done;   // of the first member's: set by the member that launches the call
};

struct alignas(kCacheLine) Slot {
  static constexpr std::uint32_t kClosed = 0x80000000u;  // next_block of a part that only its owner works on

  std::atomic<std::uint64_t> sequence{0};  // number of the posting that the slot holds, from 1
  Signature signature;
  std::uint64_t consumed = 0;     // the poster's last finished call when it posted
  const std::byte* in = nullptr;  // what the poster gives: in its own buffer, in the block's payload or in `line`
  std::byte* out = nullptr;       // where its result goes
  std::atomic<std::uint32_t> next_block{0};   // of this rank's part: the first block that is not taken
  std::atomic<std::uint32_t> blocks_done{0};  // of this rank's part
  union {
    std::array<std::byte, 16> line;  // a payload that needs no second cache line
    DevicePosting* on_device;        // of a call on a device's memory
  };
};
static_assert(sizeof(Slot) == kCacheLine);

struct SlotBlock {
  static constexpr std::size_t kSlots = 4;
  explicit SlotBlock(std::size_t payload_bytes) : payload(std::make_unique<std::byte[]>(kSlots * payload_bytes)) {}
  std::array<Slot, kSlots> slots;
  std::atomic<SlotBlock*> next{nullptr};  // valid before the last slot is posted
  std::unique_ptr<std::byte[]> payload;
};

/// Where a reader stands in a stream.
struct Cursor {
  SlotBlock* block = nullptr;
  std::size_t index = 0;
  [[nodiscard]] Slot& slot() const { return block->slots[index]; }
  void advance() {
    if (++index < SlotBlock::kSlots) return;
    block = block->next.load(std::memory_order_acquire);
    index = 0;
  }
};

class alignas(kApart) PostingStream {
 public:
  explicit PostingStream(std::size_t payload_bytes);

  /// The first slot, for readers.
  [[nodiscard]] Cursor begin() const { return {first_, 0}; }

  /// The slot of the next posting, for the owner to fill. `consumed_by_all`: the last call that every member finished.
  Slot& next_slot(std::uint64_t consumed_by_all);
  /// Room for a payload in the block of the slot that next_slot() returned.
  [[nodiscard]] std::byte* payload() const { return end_.block->payload.get() + end_.index * payload_bytes_; }
  /// Makes the filled slot visible and returns its number.
  std::uint64_t publish();
  /// The number of the newest posting.
  [[nodiscard]] std::uint64_t published() const { return published_; }

 private:
  SlotBlock* new_block();
  std::size_t payload_bytes_;
  std::vector<std::unique_ptr<SlotBlock>> blocks_;  // owner; the ring's order is in their `next`
  SlotBlock* first_;                                // never changes: readers look while the owner grows the ring
  Cursor end_;                                      // the slot to be filled next
  std::uint64_t published_ = 0;
};

}  // namespace plumbline::comm::local
