// reference/comm/local/window.hpp: windows of a local group. All members reach each other's memory: a put is a copy,
// and a signal a number that its receiver looks at.
#pragma once

#include <memory>

#include "reference/comm/communicator.hpp"
#include "reference/comm/local/endpoint.hpp"

namespace plumbline::comm::local {

/// Of `memory` of this rank's and that of the others. Collective, by calls of `group`, which is the handle of `self`.
[[nodiscard]] std::unique_ptr<Window> make_local_window(Endpoint& self, Communicator& group, Buffer memory,
                                                        Timeout timeout);

}  // namespace plumbline::comm::local
