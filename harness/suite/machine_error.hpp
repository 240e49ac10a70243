// harness/suite/machine_error.hpp: what a check needs and the machine denies, as an exception that becomes a verdict.
#pragma once

#include "reference/comm/errors.hpp"

namespace plumbline::suite {

/// No process, pipe, file or folder could be had for a case: verdict `error`, no fault of the subject's.
class MachineFailure : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

}  // namespace plumbline::suite
