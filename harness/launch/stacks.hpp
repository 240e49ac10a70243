// harness/launch/stacks.hpp: where the threads of another process stand.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace plumbline::launch {

/// The signal at which a worker's thread writes its rank and stack to its output.
[[nodiscard]] int stack_signal();

/// The stacks of all threads of processes on this host, as gdb shows them. Without gdb, or where it may not attach,
/// each thread is asked for its own, which it writes to its process' output; then there is no text of that process
/// here. Takes seconds with gdb, ten at most, and two at most without.
[[nodiscard]] std::string stacks_of(const std::vector<pid_t>& processes);

}  // namespace plumbline::launch
