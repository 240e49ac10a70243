// conformance/support/holdings.hpp: what a process has of the machine, for checks that look whether it grows.
#pragma once

#include <cstdint>
#include <limits>

#include "reference/comm/communicator.hpp"

namespace plumbline::conformance {

/// What this process has.
struct Holdings {
  std::int64_t threads = 0, descriptors = 0;
  std::int64_t resident = 0;   // bytes in memory
  std::int64_t anonymous = 0;  // those of them that are neither of files nor shared
  std::int64_t allocated = 0;  // bytes that malloc has given out
};

/// Ranks may share the process: all of the group stand still while one looks, so that nobody sees another's look. Where
/// there are more threads than `threads` it looks again for a second: those of destroyed streams end a moment later.
[[nodiscard]] Holdings holdings_at_rest(comm::Communicator& group,
                                        std::int64_t threads = std::numeric_limits<std::int64_t>::max());

/// Whether bytes say something: a sanitizer's allocator, of which malloc's own figures know nothing, keeps what is
/// freed for a while.
[[nodiscard]] bool figures_of_memory_tell();

}  // namespace plumbline::conformance
