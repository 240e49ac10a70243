// harness/launch/attach.hpp: plumbline inside the user's own launcher: every rank runs the same command line.
//
// Model   Rank 0 forks the driver before its backend's runtime starts; then all ranks, 0 too, become workers. Endpoint
//         and token go through a file that only the user can read, in the folder that all ranks share, named by the
//         job; it is gone once all ranks have joined. A driver that ends without them leaves its exit status there
//         instead, so that nobody waits for it.
#pragma once

#include <filesystem>
#include <functional>

#include "harness/launch/driver.hpp"
#include "harness/subject/place.hpp"

namespace plumbline::launch {

/// What the driver is to be given as Observer::listening.
using Listening = std::function<void(const Rendezvous&)>;

/// Runs as one process of a job whose ranks share `folder`: on rank 0 `driver`, which must not throw, in a child
/// process, and on every rank `worker`, once the rendezvous is known and set in the environment. Returns the exit
/// status: on rank 0 the driver's, and on all ranks where it ended without them; else 2 where `worker` ends with 2
/// (it has reported to the driver that an option is wrong), 3 for any other status but 0. Throws RuntimeFailure.
int run_attached(const subject::Place& place, const std::filesystem::path& folder,
                 const std::function<int(const Listening&)>& driver, const std::function<int()>& worker);

}  // namespace plumbline::launch
