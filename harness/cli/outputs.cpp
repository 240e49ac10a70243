#include "harness/cli/outputs.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "harness/junit/junit.hpp"
#include "harness/metrics/metrics.hpp"
#include "harness/record/environment.hpp"
#include "harness/run/summary.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {

namespace fs = std::filesystem;

nlohmann::json environment_of_run() {
  nlohmann::json environment = record::capture_environment();
  std::ifstream stream(subject::data_folder() / "source.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (lines.empty()) lines.emplace_back("no git checkout");
  environment["suite_source"] = lines;
  return environment;
}

record::Header header_of(std::string command, std::string subject) {
  return {.command = std::move(command),
          .subject = std::move(subject),
          .suite_version = PLUMBLINE_VERSION,
          .started = record::utc_now(),
          .arguments = record::command_line(),
          .environment = environment_of_run()};
}

record::Header header_of(std::string command, const launch::Subject& subject, const std::string& device,
                         const ReportOptions& reports, int world) {
  record::Header header = header_of(std::move(command), subject.describe());
  header.facts = {{"backend", subject.backend}, {"device", device}};
  if (!subject.mutant.empty()) header.facts["mutant"] = subject.mutant;
  if (world > 0) header.facts["world"] = std::to_string(world);
  reports.put_into(header);
  return header;
}

std::string names_of_outputs(const fs::path& folder) {
  return fs::exists(folder / "metrics.prom") ? "junit.xml and metrics.prom" : "junit.xml";
}

void tell_record(const std::string& folder, double seconds, const std::string& beside) {
  fmt::print("record: {}/run.jsonl ({} beside it), {:.1f} s\n", folder, beside, seconds);
}
void tell_record(const std::string& folder, double seconds) { tell_record(folder, seconds, names_of_outputs(folder)); }

namespace {

void write_metrics(const fs::path& folder, const record::Run& run) {
  if (const std::string text = metrics::to_prometheus(run); !text.empty())
    record::write_file(folder / "metrics.prom", text);
}

}  // namespace

void write_outputs(const fs::path& folder, const record::Run& run) {
  record::write_file(folder / "junit.xml", junit::to_junit(run));
  write_metrics(folder, run);
}

fs::path record_file(const fs::path& given) {
  std::error_code error;
  return fs::is_directory(given, error) ? given / "run.jsonl" : given;
}

record::Run read_record(const fs::path& given) {
  std::error_code error;
  const fs::path file = record_file(given);
  if (!fs::exists(file, error))
    throw NotFound(fmt::format("there is no record '{}'; give the run.jsonl of a run, or its folder", file.string()));
  return record::read(file);
}

std::optional<record::Run> close_record(record::Writer& writer, bool complete, double seconds) {
  std::map<std::string, record::RequirementTally> requirements;
  if (complete && writer.in_place())
    requirements = run::tallies_of(run::requirement_verdicts(run::with_missing(record::read(writer.path()))));
  if (complete) writer.complete(seconds, requirements);
  if (!writer.in_place()) return std::nullopt;
  record::Run run = record::read(writer.path());
  run.seconds = seconds;
  return run;
}

namespace {

std::string text_in(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  return text.str();
}

}  // namespace

namespace {

bool reports_were_begun = false;

}  // namespace

bool UnfinishedReports::were_begun() { return reports_were_begun; }

UnfinishedReports::UnfinishedReports(fs::path folder, record::Header header)
    : folder_(std::move(folder)), run_{.header = std::move(header)} {
  reports_were_begun = true;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw RuntimeFailure(fmt::format("cannot make folder '{}': {}", folder_.string(), error.message()));
  const FolderLock lock(folder_);
  if (!lock.held()) return;  // another run's: the record says so
  try {
    write_outputs(folder_, run_);
  } catch (const RuntimeFailure&) {
    // On a full disk, no reports are better than those of an earlier run.
    fs::remove(folder_ / "junit.xml", error);
    fs::remove(folder_ / "metrics.prom", error);
    throw;
  }
  written_ = junit::to_junit(run_);
}

void UnfinishedReports::planned(record::Header header) {
  run_.header = std::move(header);
  rewrite();
}

void UnfinishedReports::failed(const std::string& why) {
  run_.stopped = "the run failed: " + why;
  rewrite();
}

void UnfinishedReports::rewrite() {
  const FolderLock lock(folder_);
  if (!lock.held() || written_.empty() || text_in(folder_ / "junit.xml") != written_) return;
  try {
    write_outputs(folder_, run_);
    written_ = junit::to_junit(run_);
  } catch (const RuntimeFailure&) {
    // They say already that the run has not finished.
  }
}

void LiveMetrics::look(const record::Writer& writer, const std::function<record::Run()>& run) {
  const Clock::time_point now = Clock::now();
  if (now < due_ || !writer.in_place()) return;
  try {
    record::Run so_far = run();
    so_far.seconds = std::chrono::duration<double>(now - begun_).count();
    write_metrics(writer.path().parent_path(), so_far);
  } catch (const std::exception&) {
    // They say of an earlier moment that the run has not ended.
  }
  const Clock::time_point done = Clock::now();
  due_ = done + std::max<Clock::duration>(20 * (done - now), std::chrono::seconds(1));
}

void refuse_in_reports(const CommandLine& line, record::Header header, const std::string& why) {
  if (line.has("--list")) return;
  ReportOptions::as_given(line).put_into(header);
  for (const std::string& folder : line.single_values("--out")) {
    if (folder.empty() || !name_in_latest(folder).empty()) continue;
    try {
      UnfinishedReports(folder, header).failed(why);
    } catch (const RuntimeFailure&) {
      // What is wrong with the command line is the error to print.
    }
  }
}

}  // namespace plumbline::cli
