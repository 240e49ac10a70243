#include "reference/comm/local/memory.hpp"

#include <algorithm>
#include <atomic>

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

void* OwnMemory::allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes + kApart - 1) / kApart * kApart;
  std::unique_ptr<void, Free> made(rounded < bytes ? nullptr : std::aligned_alloc(kApart, rounded));
  if (made == nullptr) throw RuntimeFailure(fmt::format("allocate({}): there is no memory left", bytes));
  return allocated_.insert(std::move(made)).first->get();
}

void OwnMemory::deallocate(void* memory) {
  const auto found = std::ranges::find(allocated_, memory, &std::unique_ptr<void, Free>::get);
  if (found == allocated_.end())
    throw InvalidArgument(fmt::format("deallocate({}): this communicator did not give it out", memory));
  allocated_.erase(found);
}

}  // namespace plumbline::comm::local
