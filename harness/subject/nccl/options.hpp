// harness/subject/nccl/options.hpp: the settings of the NCCL backend.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "harness/subject/backend.hpp"
#include "reference/comm/call.hpp"

namespace plumbline::subject::nccl {

struct Options {
  /// The shared library: library=FILE.
  std::string library = "libnccl.so.2";
  /// The kind of device: runtime=cuda|emulated. Emulated devices are for tests, with a library that knows them.
  comm::Device::Kind runtime = comm::Device::Kind::cuda;
  /// The GPU of this process: device=N. By default that of the rank's number.
  std::optional<int> device;
  /// How long the ranks wait for each other when a group is made: start_limit=SECONDS.
  std::chrono::seconds start_limit{60};

  /// Throws InvalidArgument, naming key, value and what would be right.
  static Options parse(const BackendOptions& given);
};

}  // namespace plumbline::subject::nccl
