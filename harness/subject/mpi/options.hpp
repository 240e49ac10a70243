// harness/subject/mpi/options.hpp: the settings of the MPI backend.
#pragma once

#include <cstdint>
#include <string_view>

#include <mpi.h>

#include "harness/subject/backend.hpp"

namespace plumbline::subject::mpi {

struct Options {
  /// What MPI_Init_thread is asked for: threads=single|funneled|serialized|multiple.
  int thread_level = MPI_THREAD_MULTIPLE;
  /// The most elements that one MPI call counts; longer calls are cut: segment_elements=N.
  std::int64_t segment_elements = std::int64_t{1} << 30;

  /// Throws InvalidArgument, naming key, value and what would be right.
  static Options parse(const BackendOptions& given);
};

/// "single", "funneled", "serialized", "multiple".
[[nodiscard]] std::string_view name_of_thread_level(int level);

}  // namespace plumbline::subject::mpi
