// harness/subject/nccl/options.hpp: the settings of the NCCL backend, and this process' place among the ranks.
#pragma once

#include <chrono>
#include <filesystem>
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

/// What the launcher says to a rank.
struct Place {
  int rank = 0;
  int size = 1;
  std::filesystem::path folder;  // that all ranks share

  /// From PLUMBLINE_RANK, PLUMBLINE_RANKS and PLUMBLINE_SCRATCH, which the driver sets, else from what mpirun and srun
  /// set.
  /// Throws RuntimeFailure where they contradict each other.
  static Place from_environment();
};

}  // namespace plumbline::subject::nccl
