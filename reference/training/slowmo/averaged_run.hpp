// reference/training/slowmo/averaged_run.hpp: a rank of session.hpp, on LibTorch.
#pragma once

#include <memory>

#include "reference/training/slowmo/session.hpp"

namespace plumbline::training {

/// Collective over `world`, which must outlive it. Throws InvalidArgument as require_averageable() and require_possible(),
/// and for a world of another size than the specification's.
[[nodiscard]] std::unique_ptr<AveragedSession> averaged_run(const job::RunSpec& spec, comm::Communicator& world,
                                                            const AveragingSettings& settings,
                                                            const AveragedSteps& steps);

}  // namespace plumbline::training
