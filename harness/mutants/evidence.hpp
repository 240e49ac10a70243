// harness/mutants/evidence.hpp: what a requirement rests on, from what cites it.
#pragma once

#include <string>
#include <vector>

#include "harness/suite/suite.hpp"

namespace plumbline::mutants {

/// The ids of the checks that verify it.
[[nodiscard]] std::vector<std::string> checks_of(const suite::Suite& suite, const suite::Requirement& requirement);
/// The names of the mutants that violate it.
[[nodiscard]] std::vector<std::string> mutants_of(const suite::Suite& suite, const suite::Requirement& requirement);

}  // namespace plumbline::mutants
