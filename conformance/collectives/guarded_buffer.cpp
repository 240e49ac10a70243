#include "conformance/collectives/guarded_buffer.hpp"

#include <cstdint>

#include <fmt/format.h>

namespace plumbline::conformance {
namespace {

constexpr std::size_t kGuard = 256;
constexpr std::size_t kBoundary = 64;

std::byte canary(std::size_t position) { return static_cast<std::byte>((position * 37 + 0x5c) & 0xff); }

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes, std::size_t offset, const Room& room) : size_(bytes) {
  const std::size_t all = 2 * kGuard + kBoundary + offset + bytes;
  if (!room) own_.resize(all);
  storage_ = room ? room(all) : std::span(own_);
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
  begin_ = kGuard + (kBoundary - address % kBoundary) % kBoundary + offset;
  for (std::size_t i = 0; i < begin_; ++i) storage_[i] = canary(i);
  for (std::size_t i = begin_ + size_; i < storage_.size(); ++i) storage_[i] = canary(i);
}

std::string GuardedBuffer::damage() const {
  const auto tell = [this](std::size_t i, std::size_t distance, const char* side) {
    return fmt::format("byte {} {} was 0x{:02x} and is 0x{:02x}", distance, side, static_cast<int>(canary(i)),
                       static_cast<int>(storage_[i]));
  };
  if (storage_.empty()) return {};  // it was moved
  for (std::size_t i = begin_; i-- > 0;)
    if (storage_[i] != canary(i)) return tell(i, begin_ - i, "before the start");
  for (std::size_t i = begin_ + size_; i < storage_.size(); ++i)
    if (storage_[i] != canary(i)) return tell(i, i - begin_ - size_, "after the end");
  return {};
}

}  // namespace plumbline::conformance
