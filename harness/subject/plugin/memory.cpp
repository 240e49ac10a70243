// Memory that is registered with a plugin before calls use it, and memory that the plugin gives out.
#include <cstdint>

#include <fmt/format.h>

#include "harness/subject/plugin/group.hpp"
#include "harness/subject/plugin/reply.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {

std::uint64_t Group::register_memory(void* memory, std::size_t bytes) {
  expect_sound();
  std::uint64_t registration = 0;
  const auto words = [&] { return where(fmt::format("register_memory({} bytes)", bytes)); };
  call(words, [&](plumbline_error* error) {
    return job->library->register_memory(handle_, memory, bytes, &registration, error);
  });
  if (registration == 0)
    throw RuntimeFailure(fmt::format("{}: the plugin returned status 0 and no registration", words()));
  return registration;
}

void Group::deregister(std::uint64_t registration) {
  call([&] { return where(fmt::format("deregister_memory({})", registration)); },
       [&](plumbline_error* error) { return job->library->deregister_memory(handle_, registration, error); });
}

void* Group::allocate(std::size_t bytes) {
  expect_sound();
  void* memory = nullptr;
  const auto words = [&] { return where(fmt::format("allocate({} bytes)", bytes)); };
  call(words, [&](plumbline_error* error) { return job->library->allocate(handle_, bytes, &memory, error); });
  if (memory == nullptr) throw RuntimeFailure(fmt::format("{}: the plugin returned status 0 and no memory", words()));
  allocated_.insert(memory);
  return memory;
}

void Group::deallocate(void* memory) {
  if (allocated_.erase(memory) == 0)
    throw InvalidArgument(
        fmt::format("{}: it was not given out, or has been given back", where(fmt::format("deallocate({})", memory))));
  job->library->deallocate(handle_, memory);
}

}  // namespace plumbline::subject::plugin
