#include "harness/subject/job/job_ends.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <regex>
#include <system_error>

#include <fmt/format.h>

namespace plumbline::subject {

std::size_t cause_among(const std::vector<ProcessEnd>& failed) {
  constexpr auto kSameTime = std::chrono::milliseconds(20);  // of two ends so near their order says nothing
  const auto first = std::ranges::min_element(failed, {}, &ProcessEnd::at);
  const auto is_killed = [&](const ProcessEnd& end) {
    return end.killed_by().value_or(SIGABRT) != SIGABRT && end.at - first->at < kSameTime;
  };
  const auto killed = is_killed(*first) ? first : std::ranges::find_if(failed, is_killed);
  return static_cast<std::size_t>((killed == failed.end() ? first : killed) - failed.begin());
}

bool are_unsupported(const RankEnds& ends) {
  return std::ranges::all_of(ends, [](const auto& end) { return !end || end->by_exit(kUnsupportedStatus); });
}

bool are_absent(const RankEnds& ends) {
  return std::ranges::all_of(
      ends, [](const auto& end) { return end && (end->by_exit(kNotFound) || end->by_exit(kCannotExecute)); });
}

bool are_errors(const RankEnds& ends) {
  return std::ranges::all_of(ends, [](const auto& end) {
    return end && !end->is_success() && !end->killed_by() && !end->by_exit(kUnsupportedStatus);
  });
}

std::string missing_script(const std::string& command) {
  static const std::regex elsewhere(R"((^|[;&|(\s])(cd|pushd|ssh|docker|podman|srun|singularity|apptainer)\s)");
  static const std::regex script(R"((^|\s)(["']?)([\w./+@%-]+\.(py|sh|bash|jl|lua|rb|pl|js|R))\2(?=\s|;|$))");
  if (std::regex_search(command, elsewhere)) return {};
  for (auto word = std::sregex_iterator(command.begin(), command.end(), script); word != std::sregex_iterator();
       ++word) {
    const std::string name = (*word)[3];
    std::error_code error;
    if (!name.starts_with('-') && !std::filesystem::exists(name, error))
      return fmt::format("there is no file '{}'; ", name);
  }
  return {};
}

std::string written_words(const std::string& name, const std::string& wrote) {
  return wrote.empty() ? fmt::format("{} wrote nothing", name) : fmt::format("{} last wrote: {}", name, wrote);
}

std::string words_of(const std::vector<EndedRank>& ranks) {
  std::string text;
  for (const EndedRank& rank : ranks) text += fmt::format("; {} {}", rank.name, rank.words);
  return text;
}

std::string words_of(const std::vector<HungRank>& ranks) {
  std::string text;
  for (const HungRank& rank : ranks)
    if (rank.recorded)
      text += fmt::format("; {} {}", rank.name,
                          rank.recorded->empty() ? "recorded nothing" : "last recorded " + *rank.recorded);
  for (const HungRank& rank : ranks)
    if (rank.frames)
      text += fmt::format("; {} {}; {}", rank.name, rank.frames->empty() ? "gave no stack" : "stood in " + *rank.frames,
                          written_words(rank.name, rank.wrote));
  return text;
}

}  // namespace plumbline::subject
