// harness/device/staged.hpp: a communicator whose callers keep their data on the host, and whose calls are made on a
// device's memory.
//
// Model   Each call's buffers get a place in the device's memory, as far from a boundary of 64 bytes as the caller's,
//         one common place where they share memory: in place stays in place. Between guards; outputs begin as the
//         caller's, so that what a call leaves alone stays. Data go there and back in the order of a stream of this
//         communicator's own, in which the calls are made, and the host waits for it before it looks. So every check
//         runs on a device as it is, with its arms and mutants above.
// Own     Memory of the host that is registered gets one place on the device, which is registered there, and calls on
//         it are made there. What the backend allocates is passed through: the host's, or its device's.
// Passed  Calls on memory of a device that the caller has itself go through untouched, in the same stream. Who has his
//         own order there has all in the stream that is his at each moment (StagedStream::callers).
// Errors  StateError for use_stream() where the stream is its own. RuntimeFailure for a guard that was overwritten or
//         an input that was changed: what the checks watch on the host.
// Cost    Two copies and a wait a call: for checks, not for speed.
#pragma once

#include <memory>

#include "reference/comm/communicator.hpp"
#include "reference/device/runtime.hpp"

namespace plumbline::harness {

enum class StagedStream { own, callers };

/// `inner` serves memory of `device`, which is one of `runtime`'s. Groups made from it are staged in the same way.
[[nodiscard]] std::unique_ptr<comm::Communicator> staged_on(std::shared_ptr<device::Runtime> runtime,
                                                            comm::Device device,
                                                            std::unique_ptr<comm::Communicator> inner,
                                                            StagedStream stream = StagedStream::own);

}  // namespace plumbline::harness
