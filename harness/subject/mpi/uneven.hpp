// harness/subject/mpi/uneven.hpp: collectives of blocks of different lengths.
//
// Model   Always the non-blocking form, polled, with a limit or without: so one with a limit and one without match. MPI
//         may read counts and memory until a call is complete: of one that was given up, ours stay.
// Source  MPI-3.1 sections 5.12.5 (MPI_Iallgatherv), 5.12.6 (MPI_Ialltoallv), 5.12.10 (MPI_Ireduce_scatter).
#pragma once

#include <memory>

#include "harness/subject/mpi/group.hpp"

namespace plumbline::subject::mpi {

/// Makes a validated call. Throws Unsupported for more elements than MPI counts, TimeoutError, PeerFailed,
/// RuntimeFailure.
void run_uneven(MpiGroup& group, const comm::UnevenCall& call, comm::Timeout timeout);

}  // namespace plumbline::subject::mpi
