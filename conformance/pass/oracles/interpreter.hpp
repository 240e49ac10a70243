// conformance/pass/oracles/interpreter.hpp: runs a program, a rank of it, with numbers.
//
// Model   Each rank executes its program op by op in the program's order; communication ops are calls over the rings,
//         which are groups of a communicator. What arithmetic ops have is arithmetic.hpp's. Variables are arrays in
//         memory: an op that writes a variable writes the memory that it has, so that members of a fused variable stay
//         parts of it. coalesce_tensor gives its outputs new memory, one after the other (with use_align at multiples
//         of 256 bytes), and fills it with NaN unless it copies: a value that a pass loses is not a number from there
//         on.
// Values  What is read and never written before is made up, the same in every run: it depends on the variable's name
//         and on the seed, and where a variable does not persist (a batch) on the rank. Powers, moments, variances and
//         loss scales are what they can be, all else lies in [-0.5, 0.5] in steps of 2^-10.
// Types   A variable is rounded to its type whenever it is written, and communicated as that. With in_double all
//         floating types are float64: what two programs differ by then is not rounding.
// Errors  InvalidArgument: a rank that is not in a ring that its program runs over, or a ring with ranks that the world
//         does not have. Unsupported: communication that has no meaning here. What the communicator throws.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "conformance/pass/oracles/arithmetic.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/program/program.hpp"

namespace plumbline::program {

struct ExecutionOptions {
  std::uint64_t seed = 1;
  bool in_double = false;
  /// Nobody runs the programs of other stages of a pipeline: sends go nowhere, and what is received is made up.
  bool stands_in_for_peers = false;
};

/// What a rank has at the end.
struct Execution {
  std::map<std::string, std::vector<double>, std::less<>> variables;  // all that were read or written
  std::map<std::string, std::vector<double>, std::less<>> gradients;  // that optimizers used, rescaled, by parameter
};

/// Executes `program` as rank world.rank(). All ranks of a ring come here with programs that run over it in one order.
[[nodiscard]] Execution execute(const Program& program, const Rings& rings, comm::Communicator& world,
                                const ExecutionOptions& options = {});

/// The rings as another rank sees them, where one rank's are known and all ranks do the same: a ring that the rank is
/// in stays; one whose ranks are evenly spaced is shifted to where it contains the rank, as the rings of a mesh's axis
/// are; in any other the rank is alone.
[[nodiscard]] Rings rings_of_rank(const Rings& rings, int rank, int world_size);

/// How many ranks there must be: one more than the largest in ring 0, the world, or in a ring that the
/// program runs over.
[[nodiscard]] int world_size_of(const Program& program, const Rings& rings);

}  // namespace plumbline::program
