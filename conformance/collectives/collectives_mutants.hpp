// conformance/collectives/collectives_mutants.hpp: the mutants of component "collectives", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Wrong results, and what an operation does to its buffers.
[[nodiscard]] std::vector<Mutant> result_mutants();
/// Wrong members, wrong ranks, groups that meet.
[[nodiscard]] std::vector<Mutant> group_mutants();
/// Groups beside other groups: many, outstanding, destroyed.
[[nodiscard]] std::vector<Mutant> several_groups_mutants();
/// Different calls, and messages, that are under way together, and calls of a group that fails.
[[nodiscard]] std::vector<Mutant> outstanding_mutants();
/// Started calls, batches and messages.
[[nodiscard]] std::vector<Mutant> work_mutants();
/// The barrier, time limits, failures and misuse.
[[nodiscard]] std::vector<Mutant> failure_mutants();
/// Sums whose inputs are multiplied by factors.
[[nodiscard]] std::vector<Mutant> scaled_mutants();
/// Groups that take in ranks which were no members.
[[nodiscard]] std::vector<Mutant> grow_mutants();
/// Memory that is registered, or comes from the backend.
[[nodiscard]] std::vector<Mutant> registered_memory_mutants();
/// Members that end, and groups without them.
[[nodiscard]] std::vector<Mutant> shrink_mutants();
/// Rows with gaps between them.
[[nodiscard]] std::vector<Mutant> strided_mutants();
/// Blocks of different lengths.
[[nodiscard]] std::vector<Mutant> uneven_mutants();
/// Windows and their signals.
[[nodiscard]] std::vector<Mutant> window_mutants();
/// Complex numbers.
[[nodiscard]] std::vector<Mutant> complex_mutants();
/// The other element types that are claimed one by one.
[[nodiscard]] std::vector<Mutant> optional_dtype_mutants();
/// Memory of devices: order of streams, kernels, addresses.
[[nodiscard]] std::vector<Mutant> device_mutants();
/// Answers of adapters.
[[nodiscard]] std::vector<Mutant> answer_mutants();
/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> collectives_size_mutants();

}  // namespace plumbline::mutants
