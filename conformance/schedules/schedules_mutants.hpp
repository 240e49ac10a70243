// conformance/schedules/schedules_mutants.hpp: the mutants of component "schedules", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Answers of adapters about partitions.
[[nodiscard]] std::vector<Mutant> schedule_mutants();
/// Answers of adapters about plans: schedules, their messages, what is checked and simulated.
[[nodiscard]] std::vector<Mutant> plan_mutants();
/// Answers of adapters about plans, of which most are right.
[[nodiscard]] std::vector<Mutant> judgement_mutants();
/// Answers of adapters about partitions by cost, by method and by name.
[[nodiscard]] std::vector<Mutant> partition_mutants();
/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> schedules_size_mutants();

}  // namespace plumbline::mutants
