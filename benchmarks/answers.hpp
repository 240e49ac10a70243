// benchmarks/answers.hpp: what ranks give to a collective whose answer is checked, and what each must get.
//
// Model   Small integers that depend on rank and index, so that a block of another rank, or in another place, shows;
//         sums over the ranks are exact in every floating dtype. They repeat after a prime number of elements.
#pragma once

#include <vector>

#include "benchmarks/memory.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::bench {

/// What `rank` of so many gives: a period of it.
[[nodiscard]] std::vector<std::byte> given_by(int rank, int ranks, comm::DType dtype);

/// A period of the sum of what all ranks give.
[[nodiscard]] std::vector<std::byte> sums_of(int ranks, comm::DType dtype);

/// Fills the input of a call that `world` is going to make out of `in` into `out`, which is the same memory in place,
/// and makes its output something else. The operation is one of those that give each rank something; reductions add.
void give(const comm::Communicator& world, const comm::Call& call, const Memory& in, const Memory& out);
/// Whether the call gave this rank what it must.
[[nodiscard]] bool is_answer(const comm::Communicator& world, const comm::Call& call, const Memory& out);

}  // namespace plumbline::bench
