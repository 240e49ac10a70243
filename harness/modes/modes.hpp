// harness/modes/modes.hpp: a rank's communicator under the conditions of an arm, for any backend.
//
// Model   Arms stand directly around the backend's communicator: what lies above (a mutant, a component, a check) meets
//         them as it would meet a transport without buffers or with another timing.
// Limits  The notices of rendezvous travel through a file that all ranks of a case map, never over the subject: the
//         ranks must be on one host. Rendezvous holds messages, not collectives.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "harness/suite/execution_mode.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::modes {

/// `world` as rank `rank` meets it under `arm`; groups made from it are under the same arm. `folder` is the same fresh
/// folder for all ranks of a case; `limit` is the world's own, which holds for a held send that is given none. Throws
/// RuntimeFailure when the notices' file cannot be made.
[[nodiscard]] std::unique_ptr<comm::Communicator> under(const suite::ExecutionMode& mode,
                                                        std::unique_ptr<comm::Communicator> world,
                                                        const std::filesystem::path& folder,
                                                        std::chrono::nanoseconds limit);

}  // namespace plumbline::modes
