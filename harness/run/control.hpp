// harness/run/control.hpp: the control run: a bad case runs on the reference in the subject's place, to tell the
// subject from the machine and from the check.
#pragma once

#include <optional>

#include "harness/record/result.hpp"

namespace plumbline::run {

/// Whether the reference runs a subject's case: its result is bad by the options of the run (is_bad), and it was
/// executed. What was decided by what the subject claims is no machine's fault.
[[nodiscard]] bool wants_control(const record::Result& result, const record::Header& header);

/// The subject's result once the control has ended: inconclusive where the reference fails the case as well, or has an
/// error.
/// Nothing where the control changes nothing.
[[nodiscard]] std::optional<record::Result> after_control(const record::Result& subject, const record::Result& control);

}  // namespace plumbline::run
