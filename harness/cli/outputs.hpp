// harness/cli/outputs.hpp: the files that are made from a record, beside it.
#pragma once

#include <filesystem>
#include <optional>

#include "harness/metrics/metrics.hpp"
#include "harness/record/file.hpp"
#include "harness/record/junit.hpp"

namespace plumbline::cli {

/// junit.xml and metrics.prom. Throws RuntimeFailure.
inline void write_outputs(const std::filesystem::path& folder, const record::Run& run) {
  record::write_file(folder / "junit.xml", record::to_junit(run));
  record::write_file(folder / "metrics.prom", metrics::to_prometheus(run));
}

/// Ends a record and reads it back, with the run's duration; nothing when this run left none (record::Writer::in_place).
/// Throws what writing and reading throw.
inline std::optional<record::Run> close_record(record::Writer& writer, bool complete, double seconds) {
  if (complete) writer.complete(seconds);
  if (!writer.in_place()) return std::nullopt;
  record::Run run = record::read(writer.path());
  run.seconds = seconds;
  return run;
}

}  // namespace plumbline::cli
