// harness/junit/junit.hpp: a record as JUnit XML, in the form that CI servers read in common
// (github.com/testmoapp/junitxml).
#pragma once

#include <string>

#include "harness/record/result.hpp"

namespace plumbline::junit {

/// One test suite of the run, whose only case is an error where planned cases have no result, however many, or the run
/// has not finished; one per component, a test case per result; one of requirements. A case has the same name however
/// it ends and whatever its seed; seed, execution mode and world are properties. A failure begins with the
/// requirement's sentence and has at most 4 KiB, with the command that repeats it. A warning is a pass with output; its
/// requirement is skipped with a message. What fails as expected, or is waived, is skipped with the reason; a pass that
/// nobody expected is a failure, unless the run allows it. File and line are those of the check.
[[nodiscard]] std::string to_junit(const record::Run& run);

}  // namespace plumbline::junit
