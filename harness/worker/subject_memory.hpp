// harness/worker/subject_memory.hpp: tells a backend that asks for more memory than there is from a program that does.
#pragma once

#include <memory>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::worker {

/// std::bad_alloc out of a call of the backend, of the start of one, or of a later test or wait. The words name the
/// call.
class SubjectOutOfMemory : public Error {
 public:
  using Error::Error;
};

/// The communicator, whose calls throw SubjectOutOfMemory where the backend's throw std::bad_alloc. What else a rank's
/// body throws as std::bad_alloc is then of the program, to which the machine denied memory.
[[nodiscard]] std::unique_ptr<comm::Communicator> naming_memory(std::unique_ptr<comm::Communicator> backend);

}  // namespace plumbline::worker
