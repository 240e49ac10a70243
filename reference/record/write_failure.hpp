// reference/record/write_failure.hpp: a file that the machine does not let be written.
#pragma once

#include "reference/comm/errors.hpp"

namespace plumbline::job {

/// No room on the disk, no folder, no permission: whatever was to be written is not at fault.
class WriteFailure : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

}  // namespace plumbline::job
