// harness/subject/mpi/strided.hpp: calls on rows with gaps between them.
//
// Model   What copies is made with derived datatypes, from and to the caller's rows. What reduces is made on packed
//         copies, since MPI's own operations take no derived types (MPI-3.1 section 5.9.1), and so is what has a block
//         that ends within a row. Either way it is the non-blocking form, waited for, so that members with other rows
//         match.
#pragma once

#include <memory>

#include "harness/subject/mpi/group.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::mpi {

/// Makes a validated call. Throws TimeoutError, PeerFailed, RuntimeFailure.
void run_strided(const std::shared_ptr<MpiGroup>& group, const comm::StridedCall& call, comm::Timeout timeout);

}  // namespace plumbline::subject::mpi
