// harness/subject/mpi/errors.hpp: MPI's error codes as RuntimeFailure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include <mpi.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::mpi {

/// MPI's words for an error code, in one line: "MPI_ERR_TRUNCATE: message truncated".
[[nodiscard]] inline std::string text_of_error(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "MPI error " + std::to_string(code);
  // MPICH appends its own stack: "Message truncated, error stack:" and more lines.
  const std::string_view all(text, static_cast<std::size_t>(length));
  return std::string(all.substr(0, std::min(all.find('\n'), all.find(", error stack"))));
}

/// Throws RuntimeFailure unless the code is MPI_SUCCESS. `what` failed, for the message.
inline void check(int code, std::string_view what) {
  if (code != MPI_SUCCESS) throw RuntimeFailure("backend mpi: " + std::string(what) + ": " + text_of_error(code));
}

}  // namespace plumbline::subject::mpi
