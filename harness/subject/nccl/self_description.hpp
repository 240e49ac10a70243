// harness/subject/nccl/self_description.hpp: what the NCCL backend says of itself.
#pragma once

#include <map>
#include <string>

#include "harness/subject/nccl/library.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::nccl {

class Process;

/// What the backend claims, and what it cannot do.
[[nodiscard]] comm::Capabilities capabilities_of(const Library& library, comm::Device::Kind device);

/// "library", "version", "device", what the device's runtime says, and the environment variables by which NCCL is set.
[[nodiscard]] std::map<std::string, std::string> environment_of(const Process& process);

}  // namespace plumbline::subject::nccl
