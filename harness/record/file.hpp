// harness/record/file.hpp: run.jsonl, written line by line so that a killed run loses at most what was under way.
#pragma once

#include <filesystem>
#include <string>

#include "harness/record/result.hpp"

namespace plumbline::record {

/// Appends lines to a record. Each write reaches the file before it returns.
class Writer {
 public:
  /// Creates `folder` and begins folder/run.jsonl anew with the header. Throws RuntimeFailure where it cannot be written.
  Writer(const std::filesystem::path& folder, const Header& header);
  /// Continues the record that is in `folder`, after cutting a torn last line; appends a `resumed` line. Throws
  /// RuntimeFailure.
  static Writer resume(const std::filesystem::path& folder);
  ~Writer();
  Writer(Writer&& other) noexcept;
  Writer& operator=(Writer&&) = delete;

  /// Throw RuntimeFailure, naming the file and why (no space left on device).
  void write(const Result& result) { append(result); }
  void write(const Measurement& measurement) { append(measurement); }
  void write(const Step& step) { append(step); }
  /// Anything else worth keeping: {"type":"note", …}.
  void note(const std::string& text);
  void complete(double seconds);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit Writer(std::filesystem::path path) : path_(std::move(path)) {}
  void append(const nlohmann::json& line);
  [[noreturn]] void refuse(const char* what, int error) const;
  std::filesystem::path path_;
  int file_ = -1;
};

/// Reads a record; a torn or missing end is accepted. Throws InvalidArgument naming file and line for anything else that
/// is wrong, RuntimeFailure when the file cannot be read.
[[nodiscard]] Run read(const std::filesystem::path& file);

/// Writes a whole file, replacing it at once. Throws RuntimeFailure.
void write_file(const std::filesystem::path& file, const std::string& text);

}  // namespace plumbline::record
