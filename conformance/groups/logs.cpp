#include "conformance/groups/logs.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/groups/worlds.hpp"

namespace plumbline::conformance {

using nlohmann::json;

json lint_question(const Log& log, const std::string& rule, const std::vector<std::string>& partial_modes) {
  json args{{"world_size", log.size()}, {"rule", rule}, {"creations", json::array()}};
  for (std::size_t rank = 0; rank < log.size(); ++rank)
    for (const Made& made : log[rank]) {
      json line{{"rank", rank}, {"ranks", made.ranks}};
      if (!made.mode.empty()) line["mode"] = made.mode;
      args["creations"].push_back(line);
    }
  if (!partial_modes.empty()) args["partial_modes"] = partial_modes;
  return args;
}

std::vector<std::optional<std::size_t>> ends_of(const Log& log) {
  std::vector<std::size_t> at(log.size());
  const auto is_over = [&](std::size_t rank) {
    while (at[rank] < log[rank].size() && !contains(log[rank][at[rank]].ranks, static_cast<int>(rank))) ++at[rank];
    return at[rank] == log[rank].size();
  };
  const auto is_at = [&](int member, const std::vector<int>& ranks) {
    const auto rank = static_cast<std::size_t>(member);
    return !is_over(rank) && log[rank][at[rank]].ranks == ranks;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < log.size(); ++rank) {
      if (is_over(rank)) continue;
      const std::vector<int> ranks = log[rank][at[rank]].ranks;
      if (!std::ranges::all_of(ranks, [&](int member) { return is_at(member, ranks); })) continue;
      for (const int member : ranks) ++at[static_cast<std::size_t>(member)];
      moved = true;
    }
  }
  std::vector<std::optional<std::size_t>> ends;
  for (std::size_t rank = 0; rank < log.size(); ++rank)
    ends.push_back(is_over(rank) ? std::nullopt : std::optional(at[rank]));
  return ends;
}

bool all_complete(const Log& log) {
  return std::ranges::none_of(ends_of(log), [](const auto& end) { return end.has_value(); });
}

bool all_equal(const Log& log) {
  const auto lists = [](const std::vector<Made>& made) {
    std::vector<std::vector<int>> all;
    for (const Made& one : made) all.push_back(one.ranks);
    return all;
  };
  return std::ranges::all_of(log, [&](const auto& made) { return lists(made) == lists(log.front()); });
}

Log draw_log(Random& random) {
  const int world = random.between(2, 5);
  std::vector<Made> common;
  for (int i = random.between(1, 5); i > 0; --i) {
    std::vector<int> ranks;
    for (int rank = 0; rank < world; ++rank)
      if (random.between(0, 1) == 1) ranks.push_back(rank);
    if (!ranks.empty()) common.push_back({.ranks = ranks});
  }
  Log log(static_cast<std::size_t>(world), common);
  auto& odd = log[static_cast<std::size_t>(random.between(0, world - 1))];
  const int what = random.between(0, 2);
  if (what == 1) odd = random.shuffled(odd);
  if (what == 2 && !odd.empty()) odd.erase(odd.begin() + random.between(0, static_cast<int>(odd.size()) - 1));
  return log;
}

std::vector<Log> smaller_logs(const Log& log) {
  std::vector<Log> list;
  for (std::size_t rank = 0; rank < log.size(); ++rank)
    for (std::size_t i = 0; i < log[rank].size(); ++i) {
      list.push_back(log);
      list.back()[rank].erase(list.back()[rank].begin() + static_cast<std::ptrdiff_t>(i));
    }
  return list;
}

std::string text_of(const Log& log) {
  std::string text;
  for (std::size_t rank = 0; rank < log.size(); ++rank) {
    text += fmt::format("{}rank {}:", rank == 0 ? "" : ", ", rank);
    for (const Made& made : log[rank]) text += fmt::format(" [{}]", fmt::join(made.ranks, " "));
  }
  return text;
}

Findings findings_in(const json& result, const std::string& severity) {
  const auto number = [](const json& value) { return value.is_null() ? -1 : value.get<int>(); };
  Findings found;
  for (const json& finding : result.at("findings"))
    if (finding.at("severity") == severity)
      found.insert({finding.at("kind"), number(finding.at("rank")), number(finding.at("sequence"))});
  return found;
}

std::string text_of(const Findings& findings) {
  std::string text;
  for (const Named& one : findings)
    text += fmt::format("{}{} of rank {}, creation {}", text.empty() ? "" : "; ", one.kind, one.rank, one.sequence);
  return text.empty() ? "nothing" : text;
}

std::string not_equal(const Findings& expected, const Findings& got) {
  return got == expected ? "" : fmt::format("expected {}, got {}", text_of(expected), text_of(got));
}

std::optional<Findings> first_difference_of(const Log& log) {
  const auto list = [&](std::size_t rank, std::size_t n) {
    return n < log[rank].size() ? std::optional(log[rank][n].ranks) : std::nullopt;
  };
  Findings expected;
  for (std::size_t n = 0; n < 6 && expected.empty(); ++n)
    for (std::size_t rank = 0; rank < log.size(); ++rank) {
      std::size_t same = 0;
      for (std::size_t other = 0; other < log.size(); ++other) same += list(other, n) == list(rank, n) ? 1 : 0;
      if (same > 1) continue;
      // What is missing on all but one is made by that one alone.
      if (!list((rank + 1) % log.size(), n)) return {};
      expected.insert({list(rank, n) ? "order" : "missing", static_cast<int>(rank), static_cast<int>(n)});
    }
  return expected;
}

}  // namespace plumbline::conformance
