// harness/subject/backend_here.hpp: whether a backend's module and its runtime are on this machine, without starting
// either.
#pragma once

#include <string>

namespace plumbline::subject {

/// What a backend module may export beside its factory: sets `version` to the runtime's name and version ("Open MPI
/// v4.1.4"), without starting it. Throws RuntimeFailure in one line where the runtime is not on this machine.
inline constexpr const char* kBackendRuntime = "plumbline_backend_runtime";
using BackendRuntime = void(std::string& version);

struct BackendHere {
  std::string why_not;  // in one line; empty when it is here
  std::string version;  // its runtime's; empty where the module does not say
};

/// Opens module `name` in a child process, so that what it breaks is gone with it, and asks it for its runtime.
[[nodiscard]] BackendHere look_for_backend(const std::string& name);

}  // namespace plumbline::subject
