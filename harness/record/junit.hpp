// harness/record/junit.hpp: a record as JUnit XML, as CI systems read it (the Jenkins xunit plugin's junit-10 schema).
#pragma once

#include <string>

#include "harness/record/result.hpp"

namespace plumbline::record {

/// One test suite per component, a test case per result; failures with reason, ranks and the repeating command. Cases
/// that were planned and have no result are errors; what fails as expected, or is waived, is skipped with the reason; a
/// pass that nobody expected is a failure, unless the run allows it.
[[nodiscard]] std::string to_junit(const Run& run);

}  // namespace plumbline::record
