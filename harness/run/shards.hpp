// harness/run/shards.hpp: the records of all shards of a run, put together to the record of the whole.
#pragma once

#include <string>
#include <vector>

#include "harness/record/result.hpp"

namespace plumbline::run {

struct NamedRun {
  std::string name;  // of the file, for messages
  record::Run run;
};

/// What of an environment must be equal in shards: not the host's name, its load and other things of one machine or
/// moment.
[[nodiscard]] nlohmann::json comparable_environment(const record::Run& run);

/// The whole run. Throws InvalidArgument, naming files and values, when one is no shard or of another plan, subject or
/// suite, when a shard is there twice, missing or not complete, when environments differ, or when a case that all
/// shards run (a canary) ends differently in two of them.
[[nodiscard]] record::Run merge(const std::vector<NamedRun>& shards);

}  // namespace plumbline::run
