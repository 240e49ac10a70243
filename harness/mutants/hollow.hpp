// harness/mutants/hollow.hpp: what a hollow subject may pass.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace plumbline::mutants {

struct Mutant;  // harness/mutants/mutants.hpp

/// The requirements whose sentence is true of a hollow subject, by its name, with the reason for each (hollow.toml). Throws
/// InvalidArgument where the file that was compiled in is malformed.
[[nodiscard]] const std::map<std::string, std::map<std::string, std::string>>& hollow_truths();

/// How many cases, with parameters or seeds of their own, a check needs before it says something of a hollow subject: one that is
/// wrong in a place drawn by chance is often wrong where the requirement does not look.
[[nodiscard]] std::uint64_t hollow_draws(const Mutant& subject);

/// How often the hollow subjects in this process have done something other than what they stand in for: answers and records that
/// they changed, and calls that they skipped. A case during which it stays the same has judged the right subject.
[[nodiscard]] std::uint64_t hollow_deviations();

}  // namespace plumbline::mutants
