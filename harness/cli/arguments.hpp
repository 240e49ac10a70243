// harness/cli/arguments.hpp: values of options, and the files that they name.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {

/// Whether an error is of what the user gave: exit status 2.
[[nodiscard]] bool is_usage_error(const std::exception& error);

/// The parts between commas; of an empty text, one that is empty.
[[nodiscard]] std::vector<std::string> split(const std::string& text);

/// Text of strangers for a terminal: what would move its cursor is a question mark.
[[nodiscard]] std::string printable(std::string text);

/// Throws InvalidArgument, with the option, for anything but a whole number that an int holds.
[[nodiscard]] int whole_number(const std::string& option, const std::string& text);

/// Throws InvalidArgument, with the option, for anything but a finite number.
[[nodiscard]] double number(const std::string& option, const std::string& text);

/// What `body` returns. Its errors are thrown as InvalidArgument, after the option or file that they are about.
template <class Body>
auto on_behalf_of(const std::string& option, const Body& body) {
  const auto refuse = [&](const std::exception& error) -> InvalidArgument {
    return InvalidArgument((option.empty() ? "" : option + ": ") + error.what());
  };
  try {
    return body();
  } catch (const InvalidArgument& error) {
    throw refuse(error);
  } catch (const NotFound& error) {
    throw refuse(error);
  } catch (const OutOfRange& error) {
    throw refuse(error);
  } catch (const Unsupported& error) {
    throw refuse(error);
  }
}

/// The bytes of "25MiB", "25Mi", "64KiB", "64Ki", "1GiB", "100"; nothing for another text, a negative number, or one
/// that 63 bits do not hold.
[[nodiscard]] std::optional<std::int64_t> parse_bytes(const std::string& text);

/// Parses a size. Throws InvalidArgument, with the option, for text that is not a size in bytes.
[[nodiscard]] std::int64_t bytes_in(const std::string& option, const std::string& text);

/// The options of a command line by name, with the values that follow them or their '=', whether or not the whole can
/// be parsed.
class CommandLine {
 public:
  CommandLine(int argc, const char* const* argv);
  [[nodiscard]] bool has(std::string_view option) const { return values_.contains(option); }
  /// Empty where the option has no value.
  [[nodiscard]] std::vector<std::string> values(std::string_view option) const;
  /// The first of them each time that the option stands there: what follows may be an argument of the command.
  [[nodiscard]] std::vector<std::string> single_values(std::string_view option) const;
  /// The last of them; empty for an option without one.
  [[nodiscard]] std::string value(std::string_view option) const;

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> single_values_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

/// What is in a file. Throws NotFound, with the option, if it cannot be read.
[[nodiscard]] std::string read_text(const std::string& option, const std::string& name);

/// Files that a command reads, with the options that name them; an option that is not given names none.
using Inputs = std::vector<std::pair<std::string, std::filesystem::path>>;

/// Throws InvalidArgument where writing `file`, which --out means, would replace one of them.
void require_apart(const std::string& out, const std::filesystem::path& file, const Inputs& inputs);

/// The file that --out means: `out` itself, or `name` in it where it is a folder, which is made when it ends with '/'.
/// Throws as require_apart does.
[[nodiscard]] std::filesystem::path output_file(const std::string& out, const std::string& name, const Inputs& inputs);

/// Takes text piece by piece, to standard output or to a file that appears once it is whole.
class TextOutput {
 public:
  /// To standard output for an empty path. Throws RuntimeFailure.
  explicit TextOutput(std::filesystem::path file);
  TextOutput(const TextOutput&) = delete;
  TextOutput& operator=(const TextOutput&) = delete;
  ~TextOutput();

  /// Throws RuntimeFailure.
  void write(std::string_view text);
  /// Puts the file in its place. Throws RuntimeFailure.
  void finish();

 private:
  [[noreturn]] void refuse(int error) const;
  std::filesystem::path file_, fresh_;
  std::FILE* stream_ = nullptr;
};

}  // namespace plumbline::cli
