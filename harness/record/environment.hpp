// harness/record/environment.hpp: the machine and settings under which a run was made.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace plumbline::record {

/// Host (by more than its name), CPU, cores, memory, kernel, frequency governor, container, load before the run, compiler,
/// and the variables that change what communication libraries and LibTorch do.
[[nodiscard]] nlohmann::json capture_environment();

/// This process' own: "plumbline", "check", …
[[nodiscard]] std::vector<std::string> command_line();

/// Now, in UTC: "2026-11-21T10:02:33Z".
[[nodiscard]] std::string utc_now();

}  // namespace plumbline::record
