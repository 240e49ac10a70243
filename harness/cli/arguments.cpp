#include "harness/cli/arguments.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/support/control_characters.hpp"

namespace plumbline::cli {

namespace fs = std::filesystem;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text + ',');
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

bool is_usage_error(const std::exception& error) {
  return dynamic_cast<const InvalidArgument*>(&error) != nullptr || dynamic_cast<const NotFound*>(&error) != nullptr ||
         dynamic_cast<const OutOfRange*>(&error) != nullptr || dynamic_cast<const Unsupported*>(&error) != nullptr;
}

std::string printable(std::string text) {
  std::ranges::replace(text, '\t', ' ');
  return without_controls(text, '?');
}

int whole_number(const std::string& option, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    throw InvalidArgument(fmt::format("{}: '{}' is more than an int holds", option, text));
  if (error != std::errc{} || end != text.data() + text.size())
    throw InvalidArgument(fmt::format("{}: '{}' is not a whole number", option, text));
  return value;
}

double number(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    throw InvalidArgument(fmt::format("{}: '{}' is not a number", option, text));
  return value;
}

std::optional<std::int64_t> parse_bytes(const std::string& text) {
  std::int64_t number = -1, unit = 1, bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string suffix(end, text.data() + text.size());
  if (suffix == "Ki" || suffix == "KiB") unit = 1 << 10;
  if (suffix == "Mi" || suffix == "MiB") unit = 1 << 20;
  if (suffix == "Gi" || suffix == "GiB") unit = 1 << 30;
  const bool whole = error == std::errc{} && number >= 0 && (unit > 1 || suffix.empty());
  if (!whole || __builtin_mul_overflow(number, unit, &bytes)) return std::nullopt;
  return bytes;
}

std::int64_t bytes_in(const std::string& option, const std::string& text) {
  if (const auto bytes = parse_bytes(text)) return *bytes;
  throw InvalidArgument(
      fmt::format("{}: '{}' is not a size in bytes; give one such as 100, 64Ki, 64KiB or 25MiB", option, text));
}

CommandLine::CommandLine(int argc, const char* const* argv) {
  std::string open;           // the option that the next text may be the value of
  bool awaits_value = false;  // it has none yet
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--") return;
    if (!text.starts_with("--")) {
      if (!open.empty()) values_[open].push_back(text);
      if (awaits_value) single_values_[open].push_back(text);
      awaits_value = false;
      continue;
    }
    const std::size_t equals = text.find('=');
    open = text.substr(0, equals);
    awaits_value = equals == std::string::npos;
    std::vector<std::string>& values = values_[open];
    if (awaits_value) continue;
    values.push_back(text.substr(equals + 1));
    single_values_[open].push_back(values.back());
  }
}

std::vector<std::string> CommandLine::values(std::string_view option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> CommandLine::single_values(std::string_view option) const {
  const auto found = single_values_.find(option);
  return found == single_values_.end() ? std::vector<std::string>() : found->second;
}

std::string CommandLine::value(std::string_view option) const {
  const std::vector<std::string> all = values(option);
  return all.empty() ? "" : all.back();
}

std::string read_text(const std::string& option, const std::string& name) {
  std::error_code error;
  std::ifstream stream(name, std::ios::binary);
  std::ostringstream text;
  const bool folder = fs::is_directory(name, error);
  if (!stream || folder)
    throw NotFound(fmt::format("{}: cannot read '{}': {}", option, name,
                               folder                    ? "it is a folder"
                               : fs::exists(name, error) ? "it is not ours to read"
                                                         : "there is no such file"));
  text << stream.rdbuf();  // of an empty file, nothing
  return text.str();
}

void require_apart(const std::string& out, const fs::path& file, const Inputs& inputs) {
  std::error_code error;
  for (const auto& [option, input] : inputs)
    if (fs::equivalent(file, input, error))
      throw InvalidArgument(fmt::format("--out '{}': it would replace '{}', which {} reads; give another file", out,
                                        input.string(), option));
}

fs::path output_file(const std::string& out, const std::string& name, const Inputs& inputs) {
  fs::path file = out;
  std::error_code error;
  if (out.ends_with('/') || fs::is_directory(file, error)) {
    fs::create_directories(file, error);  // writing says why there is none
    file /= name;
  }
  require_apart(out, file, inputs);
  return file;
}

TextOutput::TextOutput(fs::path file) : file_(std::move(file)), stream_(stdout) {
  if (file_.empty()) return;
  fresh_ = file_.string() + ".new";
  stream_ = std::fopen(fresh_.c_str(), "wbe");
  if (stream_ == nullptr) refuse(errno);
}

TextOutput::~TextOutput() {
  if (stream_ == nullptr || stream_ == stdout) return;
  std::error_code error;
  std::fclose(stream_);
  fs::remove(fresh_, error);
}

void TextOutput::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stream_) != text.size()) refuse(errno);
}

void TextOutput::finish() {
  if (stream_ == stdout) return;  // flushed, and looked at, when the program ends
  const bool whole = std::fflush(stream_) == 0;
  const int unflushed = errno;
  if (!whole) refuse(unflushed);
  // A full disk may show only here.
  const bool closed = std::fclose(std::exchange(stream_, nullptr)) == 0;
  if (closed && std::rename(fresh_.c_str(), file_.c_str()) == 0) return;
  const int error = errno;
  std::remove(fresh_.c_str());
  refuse(error);
}

void TextOutput::refuse(int error) const {
  throw RuntimeFailure(fmt::format("cannot write {}: {}",
                                   file_.empty() ? "to standard output" : fmt::format("'{}'", file_.string()),
                                   std::strerror(error)));
}

}  // namespace plumbline::cli
