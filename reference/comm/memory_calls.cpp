// Memory that is registered with a group before calls use it, and memory that the group gives out itself.
#include <fmt/format.h>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::comm {

void Communicator::expect_claim(Capability capability, const char* function) const {
  if (!capabilities().has(capability))
    throw Unsupported(fmt::format("{}: backend {} has no {}", function, capabilities().backend, name_of(capability)));
}

Registration Communicator::register_memory(Buffer memory) {
  if (memory.data == nullptr || memory.count <= 0)
    throw InvalidArgument(fmt::format("register_memory({} x {} at {}): there is no memory; give a buffer with elements",
                                      name_of(memory.dtype), memory.count, memory.data));
  expect_claim(Capability::registered_memory, "register_memory");
  return do_register(memory);
}

void Communicator::deregister(Registration registration) {
  expect_claim(Capability::registered_memory, "deregister");
  do_deregister(registration);
}

void* Communicator::allocate(std::size_t bytes) {
  if (bytes == 0) throw InvalidArgument("allocate(0): there is nothing to give; ask for 1 byte or more");
  expect_claim(Capability::allocated_memory, "allocate");
  return do_allocate(bytes);
}

void Communicator::deallocate(void* memory) {
  if (memory == nullptr) return;
  expect_claim(Capability::allocated_memory, "deallocate");
  do_deallocate(memory);
}

// What a backend claims and does not have.
Registration Communicator::do_register(Buffer /*memory*/) { throw Unsupported("register_memory: not implemented"); }
void Communicator::do_deregister(Registration /*registration*/) { throw Unsupported("deregister: not implemented"); }
void* Communicator::do_allocate(std::size_t /*bytes*/) { throw Unsupported("allocate: not implemented"); }
void Communicator::do_deallocate(void* /*memory*/) { throw Unsupported("deallocate: not implemented"); }

}  // namespace plumbline::comm
