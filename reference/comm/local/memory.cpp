#include "reference/comm/local/memory.hpp"

#include <atomic>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local/posting.hpp"

namespace plumbline::comm::local {

Registration OwnMemory::add() {
  static std::atomic<Registration> last{0};  // of all communicators: each knows its own
  return *registered_.insert(++last).first;
}

void OwnMemory::remove(Registration registration) {
  if (registered_.erase(registration) == 0)
    throw InvalidArgument(fmt::format(
        "deregister({}): this communicator has no such registration; give one that has not ended", registration));
}

// The line is chosen here: aligned_alloc of glibc 2.36 leaves a hole that the next call of its size does not fit into.
void* OwnMemory::allocate(std::size_t bytes) {
  std::size_t room = bytes + kApart - 1;
  std::unique_ptr<std::byte[]> made(room < bytes ? nullptr : new (std::nothrow) std::byte[room]);
  if (made == nullptr) throw RuntimeFailure(fmt::format("allocate({}): there is no memory left", bytes));
  void* memory = made.get();
  std::align(kApart, bytes, memory, room);
  allocated_.emplace(memory, std::move(made));
  return memory;
}

void OwnMemory::deallocate(void* memory) {
  if (allocated_.erase(memory) == 0)
    throw InvalidArgument(fmt::format("deallocate({}): this communicator did not give it out", memory));
}

}  // namespace plumbline::comm::local
