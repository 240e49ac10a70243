// harness/record/file.hpp: run.jsonl, written line by line so that a killed run loses at most what was under way.
#pragma once

#include <filesystem>
#include <string>

#include "harness/record/result.hpp"

namespace plumbline::record {

/// Appends lines to a record. Each write reaches the file before it returns.
class Writer {
 public:
  /// Creates `folder` and begins a new record with the header, which takes the place of folder/run.jsonl when it has
  /// its first result, measurement or step: a run that does not come to that leaves the record that was there. Throws
  /// RuntimeFailure where it cannot be written, or another run is writing there.
  Writer(const std::filesystem::path& folder, const Header& header);
  /// Continues the record that is in `folder`, after cutting a torn last line; appends a `resumed` line. Throws
  /// RuntimeFailure.
  static Writer resume(const std::filesystem::path& folder);
  ~Writer();
  Writer(Writer&& other) noexcept;
  Writer& operator=(Writer&&) = delete;

  /// Throw RuntimeFailure, naming the file and why (no space left on device).
  void write(const Result& result) { append_content(result); }
  void write(const Measurement& measurement) { append_content(measurement); }
  void write(const Step& step) { append_content(step); }
  /// What the subject says of itself, {"capabilities", "environment"}: each of its groups does, and the first is kept.
  void subject(const nlohmann::json& description);
  /// Anything else worth keeping: {"type":"note", …}.
  void note(const std::string& text);
  /// The run ends here on purpose, and why.
  void stopped(const std::string& why);
  /// The end of a run that came to it, with what its requirements came to.
  void complete(double seconds, const std::map<std::string, RequirementTally>& requirements = {});

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Whether path() is this run's.
  [[nodiscard]] bool in_place() const { return fresh_.empty(); }

 private:
  explicit Writer(const std::filesystem::path& folder);
  void append(const nlohmann::json& line);
  void append_content(const nlohmann::json& line);
  [[noreturn]] void refuse(const char* what, int error) const;
  std::filesystem::path path_;
  std::filesystem::path fresh_;  // where it is written until it takes its place
  int folder_ = -1;              // locked while this run writes
  int file_ = -1;
  bool described_ = false;  // subject() was called
};

/// Reads a record; a torn or missing end is accepted. Throws InvalidArgument naming file and line for anything else
/// that is wrong, RuntimeFailure when the file cannot be read.
[[nodiscard]] Run read(const std::filesystem::path& file);

/// Writes a whole file, replacing it at once. Throws RuntimeFailure.
void write_file(const std::filesystem::path& file, const std::string& text);

}  // namespace plumbline::record
