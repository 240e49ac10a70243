// harness/mutants/kinds.hpp: the rows of all_mutants(), by what is wrong.
#pragma once

#include <vector>

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Wrong results, and what an operation does to its buffers.
[[nodiscard]] std::vector<Mutant> result_mutants();
/// Wrong members, wrong ranks, groups that meet.
[[nodiscard]] std::vector<Mutant> group_mutants();
/// Started calls, batches and messages.
[[nodiscard]] std::vector<Mutant> work_mutants();
/// The barrier, time limits, failures and misuse.
[[nodiscard]] std::vector<Mutant> failure_mutants();

}  // namespace plumbline::mutants
