// harness/statement/evidence.hpp: what must hold of the record of a run, or of a shard of one, before a statement rests
// on it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/run/shards.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::statement {

/// The door of a record's subject.
[[nodiscard]] suite::Door door_of(const record::Header& header);

/// The day on which a run began. Throws InvalidArgument for a time that is none.
[[nodiscard]] std::chrono::sys_days day_of(const record::Header& header);

/// What is wrong with one record, a line each that begins with its name: it is no whole run for a statement by this
/// version of the suite, its plan is not the profile's, results contradict their ranks or what the subject claims,
/// count an expectation or a waiver that the suite does not have, or do not add up to its totals.
[[nodiscard]] std::vector<std::string> problems_of_record(const suite::Suite& suite, std::string_view suite_version,
                                                          const run::NamedRun& shard);

}  // namespace plumbline::statement
