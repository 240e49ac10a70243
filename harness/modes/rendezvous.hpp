// harness/modes/rendezvous.hpp: a transport without buffers.
//
// Model   A send begins at once, as the other side may need it, and is complete only when its receive is posted, too.
//         Members meet by group, peers, tag and order. A rank that waits for a receive makes its other started calls go
//         on.
// Source  A synchronous send: MPI-4.1 section 3.4, MPI_Ssend.
// Limits  Over a backend without started calls a send is not held.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "reference/comm/communicator.hpp"

namespace plumbline::modes {

/// `inner` with its sends held, each for its own limit or else `limit`. A send whose receive is not posted within its
/// limit throws TimeoutError, which names the rank that it waited for. `file` is the board of all ranks
/// (posting_board.hpp).
/// Throws RuntimeFailure when it cannot be made.
[[nodiscard]] std::unique_ptr<comm::Communicator> hold_sends(std::unique_ptr<comm::Communicator> inner,
                                                             const std::filesystem::path& file,
                                                             std::chrono::nanoseconds limit);

}  // namespace plumbline::modes
