// harness/cli/outputs.hpp: what a run's record begins with, and the files that are made from it, beside it.
#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

#include "harness/cli/arguments.hpp"
#include "harness/cli/output_folder.hpp"
#include "harness/cli/report_options.hpp"
#include "harness/launch/group.hpp"
#include "harness/record/file.hpp"

namespace plumbline::cli {

/// Of this machine and this build (record::capture_environment), with "suite_source": the commit, or "no git checkout",
/// then the files that were changed in it.
[[nodiscard]] nlohmann::json environment_of_run();

/// What the record of this run begins with: the command line, the time and the machine are the current ones.
[[nodiscard]] record::Header header_of(std::string command, std::string subject);
/// As above for a run on one subject, with what keeps its reports apart from those of others. A world of 0 is left out.
[[nodiscard]] record::Header header_of(std::string command, const launch::Subject& subject, const std::string& device,
                                       const ReportOptions& reports, int world = 0);

/// The files that write_outputs() puts beside the record in that folder; of metrics.prom a build without prometheus-cpp
/// makes none.
[[nodiscard]] std::string names_of_outputs(const std::filesystem::path& folder);

/// The last line of a run, where its record is, with its duration.
void tell_record(const std::string& folder, double seconds, const std::string& beside);
void tell_record(const std::string& folder, double seconds);

/// The record that is meant: a file, or the run.jsonl of a folder.
[[nodiscard]] std::filesystem::path record_file(const std::filesystem::path& given);

/// The record in a file, or in the run.jsonl of a folder. Throws NotFound for a missing file, InvalidArgument for a
/// file that is not a record.
[[nodiscard]] record::Run read_record(const std::filesystem::path& given);

/// junit.xml and metrics.prom, each replaced at once. Throws RuntimeFailure.
void write_outputs(const std::filesystem::path& folder, const record::Run& run);

/// Ends a record and reads it back, with the run's duration; nothing when this run left none
/// (record::Writer::in_place).
/// Throws what writing and reading throw.
[[nodiscard]] std::optional<record::Run> close_record(record::Writer& writer, bool complete, double seconds);

/// junit.xml and metrics.prom of a run that has not finished: write_outputs() replaces them at its end.
class UnfinishedReports {
 public:
  /// Writes them in place of those of an earlier run, unless another run is writing in the folder. Throws
  /// RuntimeFailure where they cannot be written; then those of the earlier run are gone.
  UnfinishedReports(std::filesystem::path folder, record::Header header);
  /// Has them count the cases of the plan that the header has.
  void planned(record::Header header);
  /// Has them say why the run ended.
  void failed(const std::string& why);
  /// Whether this process has made any.
  [[nodiscard]] static bool were_begun();

 private:
  void rewrite();  // if they still are those that this object wrote
  std::filesystem::path folder_;
  record::Run run_;
  std::string written_;  // junit.xml, the last; empty: that of another run
};

/// Keeps metrics.prom at what there is of a run under way: a dashboard shows how far it is.
class LiveMetrics {
 public:
  /// Writes those of `run`, which is asked for no more than once a second, nor for more than a twentieth of the time.
  /// A file that cannot be written waits for the end of the run.
  void look(const record::Writer& writer, const std::function<record::Run()>& run);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begun_ = Clock::now(), due_ = begun_ + std::chrono::seconds(1);
};

/// Has the reports in the folders of --out say that this run was rejected before it began, and why: under the labels
/// and the subject's name of the line, whether or not the rest can be parsed. Does nothing for --list, which writes no
/// reports, nor for a line without --out: it has no folder yet, and those of earlier runs stay as they are.
void refuse_in_reports(const CommandLine& line, record::Header header, const std::string& why);

/// Runs `body`, which may take the reports, with reports that say that the run has not finished, from before it on, and
/// why where it throws. `header` needs no more than command and subject.
template <class Body>
int with_unfinished_reports(OutputFolder& out, const record::Header& header, const Body& body) {
  return in_output_folder(out, [&] {
    UnfinishedReports reports(out.path(), header);
    try {
      if constexpr (std::is_invocable_v<const Body&, UnfinishedReports&>)
        return body(reports);
      else
        return body();
    } catch (const std::exception& error) {
      reports.failed(error.what());
      throw;
    }
  });
}

}  // namespace plumbline::cli
