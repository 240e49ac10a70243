// harness/record/environment.hpp: the machine and settings under which a run was made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace plumbline::record {

/// What tells hosts apart. Names collide in clouds and in clones of an image; the machine's and the boot's ids do not.
/// Where process ids are counted apart, in a container, is another host for whoever means processes.
struct HostFacts {
  std::string name;
  std::string machine;    // id of the installation
  std::string boot;       // id of the running kernel
  std::string processes;  // id of the space of process ids
};
/// Of this process' host.
[[nodiscard]] HostFacts host_facts();
/// 16 digits, equal where all facts are.
[[nodiscard]] std::string host_identity(const HostFacts& facts);

/// Host (by more than its name), CPU, cores, memory, kernel, frequency governor, container, load before the run,
/// compiler, and the variables that change what communication libraries and LibTorch do.
[[nodiscard]] nlohmann::json capture_environment();

/// Bytes of memory that this process and its children can still have, by the kernel and by the container's limit.
[[nodiscard]] std::uint64_t available_memory();

/// This process' own: "plumbline", "check", …
[[nodiscard]] std::vector<std::string> command_line();

/// Now, in UTC: "2026-11-21T10:02:33Z".
[[nodiscard]] std::string utc_now();

}  // namespace plumbline::record
