#include "harness/modes/posting_board.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"

namespace plumbline::modes {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share them");

PostingBoard::PostingBoard(const std::filesystem::path& file) {
  constexpr std::size_t bytes = kSlots * sizeof(Slot);
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  // All ranks set the same length, and a fresh file reads as zeros: no slot is taken. posix_fallocate, not ftruncate: a
  // full disk is an error here and not a SIGBUS later.
  int error = descriptor < 0 ? errno : ::posix_fallocate(descriptor, 0, bytes);
  void* memory = error == 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
  if (error == 0) error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (memory == MAP_FAILED)
    throw RuntimeFailure(fmt::format("cannot map '{}': {}", file.string(), std::strerror(error)));
  slots_ = static_cast<Slot*>(memory);
}

PostingBoard::~PostingBoard() { ::munmap(slots_, kSlots * sizeof(Slot)); }

std::uint64_t PostingBoard::key(std::uint64_t group, int from, int to, int tag) {
  std::uint64_t hash = group;
  for (const int part : {from, to, tag}) {
    // The finaliser of MurmurHash3 mixes all bits of each part into all of the sum.
    hash ^= static_cast<std::uint64_t>(part) + 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
    hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53u;
    hash ^= hash >> 33;
  }
  return hash == 0 ? 1 : hash;
}

std::atomic<std::uint64_t>& PostingBoard::entry(std::uint64_t key) {
  for (std::size_t probe = 0; probe < kSlots; ++probe) {
    Slot& slot = slots_[(key + probe) % kSlots];
    std::uint64_t owner = slot.key.load(std::memory_order_acquire);
    if (owner == 0 && slot.key.compare_exchange_strong(owner, key, std::memory_order_acq_rel)) return slot.count;
    if (owner == key) return slot.count;
  }
  throw RuntimeFailure(fmt::format("the rendezvous arm counts {} kinds of messages, and there are more", kSlots));
}

}  // namespace plumbline::modes
