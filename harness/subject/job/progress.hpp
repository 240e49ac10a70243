// harness/subject/job/progress.hpp: how far a rank came that did not end: what it recorded last, and where it stood.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace plumbline::subject {

/// The first line of a regular file, printable, at most some hundred bytes; nothing where there is no such file.
[[nodiscard]] std::optional<std::string> start_of_file(const std::filesystem::path& file);

/// The tensor that a rank recorded last, "step3/grad/0.weight": by its file rank<R>.progress, else the last one of the
/// last step in its record. Empty where there is neither.
[[nodiscard]] std::string last_recorded(const std::filesystem::path& record, int rank);

/// The innermost frames of the main thread in what Python's faulthandler, gdb or our own handler wrote:
/// "reduce (train.py:31) < main (train.py:50)". Empty where the text has no stack.
[[nodiscard]] std::string innermost_frames(const std::string& text);

}  // namespace plumbline::subject
