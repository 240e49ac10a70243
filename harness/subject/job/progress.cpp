#include "harness/subject/job/progress.hpp"

#include <charconv>
#include <fstream>
#include <regex>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "reference/adapter/protocol.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/record/training_record.hpp"

namespace plumbline::subject {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestStart = 300;
constexpr int kFramesShown = 3;

// The step of a tensor, "step3/loss"; -1 for other names.
int step_of_name(std::string_view name) {
  if (!name.starts_with("step")) return -1;
  int step = -1;
  std::from_chars(name.data() + 4, name.data() + name.size(), step);
  return step;
}

std::string last_in_record(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  try {
    const job::SafetensorsReader reader(file);
    std::pair<int, std::uint64_t> last{-1, 0};
    std::string found;
    for (const auto& [name, info] : reader.tensors())
      if (const std::pair place{step_of_name(name), info.begin}; found.empty() || place >= last) {
        last = place;
        found = name;
      }
    return found;
  } catch (const Error&) {
    return "a file that is no whole record";
  }
}

// The lines after the last one that matches, "Current thread 0x… (most recent call first):".
std::optional<std::string> after_last(const std::string& text, const std::regex& heading) {
  std::optional<std::string> rest;
  for (auto found = std::sregex_iterator(text.begin(), text.end(), heading); found != std::sregex_iterator(); ++found)
    rest = text.substr(static_cast<std::size_t>(found->position() + found->length()));
  return rest;
}

// The frames that directly follow, as `shown` has them.
std::string frames_of(const std::string& rest, const std::regex& frame, const char* shown) {
  std::istringstream lines(rest);
  std::string frames;
  int count = 0;
  std::smatch match;
  for (std::string line; count < kFramesShown && std::getline(lines, line);) {
    if (!std::regex_search(line, match, frame)) {
      if (count > 0) break;
      continue;
    }
    frames += (count++ == 0 ? "" : " < ") + match.format(shown);
  }
  return adapter::printable(frames);
}

}  // namespace

std::optional<std::string> start_of_file(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  std::ifstream stream(file);
  std::string block(kLongestStart, '\0');
  stream.read(block.data(), static_cast<std::streamsize>(block.size()));
  block.resize(static_cast<std::size_t>(stream.gcount()));
  return adapter::printable(block.substr(0, block.find('\n')));
}

std::string last_recorded(const fs::path& record, int rank) {
  if (const auto line = start_of_file(record / fmt::format("rank{}.progress", rank)); line && !line->empty())
    return *line;
  return last_in_record(job::record_file(record, rank));
}

std::string innermost_frames(const std::string& text) {
  static const std::regex python_heading(R"(\(most recent call first\):[^\n]*\n)");
  static const std::regex python_frame("File \"(?:[^\"]*/)?([^\"/]*)\", line ([0-9]+) in (.*)$");
  static const std::regex gdb_heading(R"((^|\n)Thread 1 [^\n]*\n)");
  static const std::regex gdb_frame(R"(^#[0-9]+ +(?:0x[0-9a-f]+ in )?([^ (]+))");
  static const std::regex own_heading(R"(stands here, thread [0-9]+\n)");
  static const std::regex own_frame(R"(^(?:[^ ]*/)?([^ /]+\(.*))");
  if (const auto rest = after_last(text, python_heading)) return frames_of(*rest, python_frame, "$3 ($1:$2)");
  if (const auto rest = after_last(text, gdb_heading)) return frames_of(*rest, gdb_frame, "$1");
  if (const auto rest = after_last(text, own_heading)) return frames_of(*rest, own_frame, "$1");
  return {};
}

}  // namespace plumbline::subject
