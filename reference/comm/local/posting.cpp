#include "reference/comm/local/posting.hpp"

#include <fmt/format.h>

namespace plumbline::comm::local {

std::string Signature::describe(int ranks) const {
  const std::uint64_t operation = field(0, kDTypeAt);
  if (operation >= kUneven) return fmt::format("{}_v", name_of(static_cast<Operation>(operation - kUneven + kFirst)));
  const bool is_scaled = field(kOpAt, kRootAt) == kScaled;
  return comm::describe(call(ranks), ranks) + (is_scaled ? " with a factor" : "");
}

Call Signature::call(int ranks) const {
  const std::uint64_t op = field(kOpAt, kRootAt);
  Call call{.operation = static_cast<Operation>(field(0, kDTypeAt)),
            .op = op == kScaled ? ReduceOp::sum : static_cast<ReduceOp>(op),
            .root = static_cast<int>(field(kRootAt, kElementsAt)) - 1};
  const auto dtype = static_cast<DType>(field(kDTypeAt, kOpAt));
  const auto elements = static_cast<std::int64_t>(field(kElementsAt, 63));
  call.in = {nullptr, call.operation == Operation::all_to_all ? elements * ranks : elements, dtype};
  call.out = {nullptr, elements, dtype};
  return call;
}

PostingStream::PostingStream(std::size_t payload_bytes)
    : payload_bytes_(payload_bytes), first_(new_block()), end_{first_, 0} {
  SlotBlock* second = new_block();
  first_->next.store(second, std::memory_order_relaxed);
  second->next.store(first_, std::memory_order_relaxed);
}

SlotBlock* PostingStream::new_block() {
  blocks_.push_back(std::make_unique<SlotBlock>(payload_bytes_));
  return blocks_.back().get();
}

Slot& PostingStream::next_slot(std::uint64_t consumed_by_all) {
  // Before a block's last slot is published its successor must be free, for readers will follow `next` from there.
  if (end_.index == SlotBlock::kSlots - 1) {
    SlotBlock* following = end_.block->next.load(std::memory_order_relaxed);
    const std::uint64_t last = following->slots.back().sequence.load(std::memory_order_relaxed);
    if (last > consumed_by_all) {
      SlotBlock* block = new_block();
      block->next.store(following, std::memory_order_relaxed);
      end_.block->next.store(block, std::memory_order_release);
    }
  }
  return end_.slot();
}

std::uint64_t PostingStream::publish() {
  ++published_;
  end_.slot().sequence.store(published_, std::memory_order_release);
  end_.advance();
  return published_;
}

}  // namespace plumbline::comm::local
