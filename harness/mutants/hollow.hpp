// harness/mutants/hollow.hpp: how hollow subjects are met.
#pragma once

#include <cstdint>

#include "harness/suite/mutant.hpp"

namespace plumbline::mutants {

/// How many cases, with parameters or seeds of their own, a check needs before it says something of a hollow subject:
/// one that is wrong in a place drawn by chance is often wrong where the requirement does not look.
[[nodiscard]] std::uint64_t hollow_draws(const suite::Mutant& subject);

/// How often the hollow subjects in this process have done something other than what they stand in for: answers and
/// records that they changed, and calls that they skipped. A case during which it stays the same has judged the right
/// subject.
[[nodiscard]] std::uint64_t hollow_deviations();

}  // namespace plumbline::mutants
