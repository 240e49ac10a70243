// harness/cli/outputs.hpp: what a run's record begins with, and the files that are made from it, beside it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "harness/metrics/metrics.hpp"
#include "harness/record/environment.hpp"
#include "harness/record/file.hpp"
#include "harness/record/junit.hpp"

namespace plumbline::cli {

/// What the record of this run begins with: the command line, the time and the machine are those of now.
inline record::Header header_of(std::string command, std::string subject) {
  return {.command = std::move(command),
          .subject = std::move(subject),
          .suite_version = PLUMBLINE_VERSION,
          .started = record::utc_now(),
          .arguments = record::command_line(),
          .environment = record::capture_environment()};
}

/// The files that write_outputs() puts beside the record in that folder; of metrics.prom a build without prometheus-cpp makes none.
inline std::string names_of_outputs(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "metrics.prom") ? "junit.xml and metrics.prom" : "junit.xml";
}

/// The last line of a run, where its record is, with its duration.
inline void tell_record(const std::string& folder, double seconds, const std::string& beside) {
  fmt::print("record: {}/run.jsonl ({} beside it), {:.1f} s\n", folder, beside, seconds);
}
inline void tell_record(const std::string& folder, double seconds) {
  tell_record(folder, seconds, names_of_outputs(folder));
}

/// junit.xml and metrics.prom. Throws RuntimeFailure.
inline void write_outputs(const std::filesystem::path& folder, const record::Run& run) {
  record::write_file(folder / "junit.xml", record::to_junit(run));
  if (const std::string text = metrics::to_prometheus(run); !text.empty())
    record::write_file(folder / "metrics.prom", text);
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
