// conformance/support/hollow.hpp: subjects that are hollow (harness/mutants/hollow.cpp) meet checks. They fail every
// requirement that hollow.toml does not list: a check that passes on an adapter which answers 0 to everything judges
// nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/support/in_process.hpp"
#include "harness/mutants/hollow_matrix.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Runs a case on a hollow subject.
using RunHollow = std::function<std::vector<Failure>(const suite::Case&)>;

/// Runs cases of a check until all requirements that they verify are violated, or pass where they may, and adds what
/// became of them. A check that falls over an answer is a failure of the test.
void meet_hollow(const std::string& subject, const suite::Suite& suite, const std::vector<const suite::Case*>& cases,
                 const RunHollow& run, mutants::HollowMatrix& matrix);

/// Prints the matrix. What passes and is not listed is a failure of the test, and so is what is listed and does not
/// pass.
void expect_truths_alone(const mutants::HollowMatrix& matrix);

}  // namespace plumbline::conformance
