// harness/cli/missing_measurement.hpp: what a record says of a measurement that did not come about.
#pragma once

#include <string>
#include <utility>

#include "harness/launch/driver.hpp"
#include "harness/record/result.hpp"

namespace plumbline::cli {

/// A result of that name, so that the exit status and every reader see that the measurement is missing.
inline record::Result missing_measurement(std::string check, std::string case_id, const launch::Outcome& outcome,
                                          double limit_seconds) {
  return {.check = std::move(check),
          .case_id = std::move(case_id),
          .verdict = outcome.verdict == record::Verdict::pass ? record::Verdict::error : outcome.verdict,
          .reason = outcome.reason,
          .ranks = outcome.ranks,
          .seconds = outcome.seconds,
          .limit_seconds = limit_seconds,
          .output = outcome.output};
}

}  // namespace plumbline::cli
