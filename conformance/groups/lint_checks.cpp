// What an adapter says of the group creations that ranks made.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr const char* kLint = "groups.lint";

struct Made {
  std::vector<int> ranks;
  std::string mode = {};
};
using Log = std::vector<std::vector<Made>>;  // by rank

json lint_question(const Log& log, const std::string& rule, const std::vector<std::string>& partial_modes = {}) {
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

// ---- faults that are named ----

struct Fault {
  std::string name;
  const char* rule;
  Log log;
  std::set<std::string> kinds;            // any of them
  std::optional<int> rank = {};           // whom the finding must name; nothing: any
  std::optional<int> sequence = {};       // likewise
  std::set<std::string> beside = {};      // kinds of errors that it may bring along; empty: any
  std::vector<std::string> partial = {};  // modes that may leave ranks out
};

const std::vector<int> kAll{0, 1, 2}, kFirstTwo{0, 1}, kLastTwo{1, 2}, kEnds{0, 2};

// Of three ranks that all make every group.
const std::vector<Fault>& differences() {
  const std::vector<Made> usual{{kAll}, {kFirstTwo}, {kLastTwo}, {kEnds}};
  const std::vector<Made> swapped{{kAll}, {kLastTwo}, {kFirstTwo}, {kEnds}};
  const std::vector<Made> shorter{{kAll}, {kFirstTwo}, {kLastTwo}};
  const std::vector<Made> other{{kAll}, {kFirstTwo}, {kLastTwo}, {{2}}};
  static const std::vector<Fault> list{
      {"order_on_rank_0", "all_ranks", {swapped, usual, usual}, {"order"}, 0, 1},
      {"order_on_rank_1", "all_ranks", {usual, swapped, usual}, {"order"}, 1, 1},
      {"order_on_rank_2", "all_ranks", {usual, usual, swapped}, {"order"}, 2, 1},
      {"other_group_on_rank_1", "all_ranks", {usual, other, usual}, {"order"}, 1, 3},
      {"missing_on_rank_0", "all_ranks", {shorter, usual, usual}, {"missing"}, 0, 3},
      {"missing_on_rank_2", "all_ranks", {usual, usual, shorter}, {"missing"}, 2, 3},
      {"two_odd_ranks", "all_ranks", {usual, swapped, usual, other, usual}, {"order"}, 1, 1},
      {"later_rank_differs_earlier", "all_ranks", {usual, shorter, usual, swapped, usual}, {"order"}, 3, 1},
  };
  return list;
}

// Each rank first makes a group with the next, and then with the one before.
Log ring_of(int ranks) {
  Log log;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> next{rank, (rank + 1) % ranks}, previous{rank, (rank + ranks - 1) % ranks};
    std::ranges::sort(next);
    std::ranges::sort(previous);
    log.push_back({{next}, {previous}});
  }
  return log;
}

// Calls that members alone make, and that wait for each other.
const std::vector<Fault>& waits() {
  static const std::vector<Fault> list{
      {"four_in_a_circle", "members_only", ring_of(4), {"cycle"}},
      {"five_in_a_circle", "members_only", ring_of(5), {"cycle"}},
      {"nine_in_a_circle", "members_only", ring_of(9), {"cycle"}},
      {"never_made_in_a_larger_world", "members_only", {{{{0, 3}}}, {}, {}, {}, {}}, {"missing"}, 3},
      {"two_in_a_circle", "members_only", {{{kFirstTwo}, {kAll}}, {{kAll}, {kFirstTwo}}, {{kAll}}}, {"cycle", "order"}},
      {"three_in_a_circle",
       "members_only",
       {{{kFirstTwo}, {kEnds}}, {{kLastTwo}, {kFirstTwo}}, {{kEnds}, {kLastTwo}}},
       {"cycle"}},
      {"never_made", "members_only", {{{kFirstTwo}}, {{kFirstTwo}, {kLastTwo}}, {}}, {"missing"}, 2},
  };
  return list;
}

// Lists and modes that are wrong in themselves; all ranks make them alike, but for the order of members.
const std::vector<Fault>& bad_lists() {
  const auto everywhere = [](const std::vector<Made>& made) { return Log(3, made); };
  static const std::vector<Fault> list{
      {"left_out", "all_ranks", everywhere({{kAll, "DATA"}, {kFirstTwo, "TENSOR"}}), {"cover"}, 2, {}, {"cover"}},
      {"left_out_beside_a_partial_mode",
       "all_ranks",
       everywhere({{kFirstTwo, "ENDS"}, {kFirstTwo, "TENSOR"}}),
       {"cover"},
       2,
       {},
       {"cover"},
       {"ENDS"}},
      {"other_name",
       "all_ranks",
       {{{kAll, "DATA"}, {kAll, "MODEL"}}, {{kAll, "MODEL"}, {kAll, "DATA"}}, {{kAll, "DATA"}, {kAll, "MODEL"}}},
       {"mode"},
       1,
       0},
      {"other_name_among_members",
       "members_only",
       {{{kAll, "DATA"}}, {{kAll, "DATA"}}, {{kAll, "MODEL"}}},
       {"mode"},
       2,
       0},
      {"member_order",
       "all_ranks",
       {{{kAll}, {kFirstTwo}}, {{kAll}, {{1, 0}}}, {{kAll}, {kFirstTwo}}},
       {"member_order"},
       1,
       1,
       {"member_order"}},
      {"member_order_among_members",
       "members_only",
       {{{kAll}, {kFirstTwo}}, {{kAll}, {{1, 0}}}, {{kAll}}},
       {"member_order"},
       1,
       1,
       {"member_order"}},
  };
  return list;
}

// Those that are the same fault whoever makes the groups.
std::vector<Fault> bad_lists_under(const std::string& rule) {
  const auto everywhere = [](const std::vector<Made>& made) { return Log(3, made); };
  const char* const who = rule == "all_ranks" ? "all_ranks" : "members_only";
  const auto row = [&](const std::string& name, const std::vector<Made>& made, const std::string& kind,
                       const std::string& beside, std::optional<int> rank = {}) {
    return Fault{.name = rule == "all_ranks" ? name : name + "_among_members",
                 .rule = who,
                 .log = everywhere(made),
                 .kinds = {kind},
                 .rank = rank,
                 .sequence = 1,
                 .beside = {kind, beside}};
  };
  return {row("rank_twice", {{kAll}, {{1, 2, 1}}}, "repeated", "repeated"),
          row("rank_outside", {{kAll}, {{2, 3}}}, "range", "missing"),
          row("negative_rank", {{kAll}, {{-1, 2}}}, "range", "missing"),
          row("empty", {{kAll}, {{}}}, "empty", "empty"),
          row("overlap", {{kFirstTwo, "DATA"}, {kLastTwo, "DATA"}}, "overlap", "cover", 1),
          row("overlap_by_one", {{{0, 1, 2}, "DATA"}, {{2}, "DATA"}}, "overlap", "overlap", 2)};
}

const std::vector<Fault>& all_bad_lists() {
  static const std::vector<Fault> list = [] {
    std::vector<Fault> all = bad_lists();
    for (const char* const rule : {"all_ranks", "members_only"})
      std::ranges::move(bad_lists_under(rule), std::back_inserter(all));
    return all;
  }();
  return list;
}

bool names(const json& finding, const Fault& fault) {
  const auto is = [&](const char* field, std::optional<int> value) { return !value || finding.at(field) == *value; };
  return finding.at("severity") == "error" && fault.kinds.contains(finding.at("kind").get<std::string>()) &&
         is("rank", fault.rank) && is("sequence", fault.sequence);
}

void judge_fault(Context& context, const std::vector<Fault>& faults) {
  const Fault& fault =
      *std::ranges::find_if(faults, [&](const Fault& one) { return context.parameters().text("fault") == one.name; });
  const json question = lint_question(fault.log, fault.rule, fault.partial);
  report_words(problem_of(context.adapter(), kLint, question, [&](const json& result) -> std::string {
    if (result.at("valid") != false) return "taken for valid";
    const json& findings = result.at("findings");
    for (const json& finding : findings) {
      if (finding.at("message").get<std::string>().empty()) return "a finding without a sentence: " + finding.dump();
      if (finding.at("severity") == "error" && !fault.beside.empty() &&
          !fault.beside.contains(finding.at("kind").get<std::string>()))
        return fmt::format("an error that is not there: {}", finding.dump());
    }
    if (std::ranges::none_of(findings, [&](const json& finding) { return names(finding, fault); }))
      return fmt::format("no finding of kind {}{}{} in {}", fmt::join(fault.kinds, " or "),
                         fault.rank ? fmt::format(", rank {}", *fault.rank) : "",
                         fault.sequence ? fmt::format(", creation {}", *fault.sequence) : "", findings.dump());
    return {};
  }));
}

void differences_named(Context& context) { judge_fault(context, differences()); }
void waits_named(Context& context) { judge_fault(context, waits()); }
void lists_named(Context& context) { judge_fault(context, all_bad_lists()); }

// ---- what is right ----

struct Right {
  const char* name;
  const char* rule;
  Log log;
  std::vector<std::string> partial_modes = {};
};
const std::vector<Right>& right_logs() {
  static const std::vector<Right> list{
      {"all_alike", "all_ranks", Log(3, {{kAll, "ALL"}, {kFirstTwo, "PAIR"}, {{2}, "PAIR"}})},
      {"descending", "all_ranks", Log(3, {{{2, 1, 0}, "ALL"}, {{2, 0}, "PAIR"}, {{1}, "PAIR"}})},
      {"one_list_twice", "all_ranks", Log(3, {{kAll, "MODEL"}, {kAll, "DATA"}})},
      {"made_again", "all_ranks", Log(3, {{kAll, "DATA"}, {kAll, "DATA"}})},
      {"ends_of_a_pipeline", "all_ranks", Log(3, {{kAll, "PIPELINE"}, {kEnds, "EMBEDDING"}}), {"EMBEDDING"}},
      {"own_groups_alone",
       "members_only",
       {{{kFirstTwo, "LOW"}}, {{kFirstTwo, "LOW"}, {kLastTwo, "HIGH"}}, {{kLastTwo, "HIGH"}}},
       {"LOW", "HIGH"}},
      {"strangers_between",
       "members_only",
       {{{{0, 1}}, {{0}}}, {{{1}}, {{0, 1}}}, {{{2}}, {{0, 1}}, {{2, 3}}}, {{{2, 3}}, {{3}}}}},
      {"a_chain", "members_only", {{{{0, 1}}}, {{{1, 2}}, {{0, 1}}}, {{{2, 3}}, {{1, 2}}}, {{{2, 3}}}}},
  };
  return list;
}

void right_logs_pass(Context& context) {
  const Right& right = *std::ranges::find_if(
      right_logs(), [&](const Right& one) { return context.parameters().text("log") == one.name; });
  report_words(problem_of(context.adapter(), kLint, lint_question(right.log, right.rule, right.partial_modes),
                          [](const json& result) -> std::string {
                            if (result.at("valid") != true) return "refused: " + result.at("findings").dump();
                            for (const json& finding : result.at("findings"))
                              if (finding.at("severity") == "error") return "valid, with an error: " + finding.dump();
                            return {};
                          }));
}

// ---- any sequences ----

// Whether blocking calls of members alone all complete, tried out step by step.
bool all_complete(const Log& log) {
  std::vector<std::size_t> at(log.size());
  const auto now = [&](std::size_t rank) -> const std::vector<int>* {
    while (at[rank] < log[rank].size() && !contains(log[rank][at[rank]].ranks, static_cast<int>(rank))) ++at[rank];
    return at[rank] < log[rank].size() ? &log[rank][at[rank]].ranks : nullptr;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < log.size(); ++rank) {
      const std::vector<int>* wanted = now(rank);
      if (wanted == nullptr) continue;
      const std::vector<int> list = *wanted;
      if (!std::ranges::all_of(list, [&](int member) {
            const auto* theirs = now(static_cast<std::size_t>(member));
            return theirs != nullptr && *theirs == list;
          }))
        continue;
      for (const int member : list) ++at[static_cast<std::size_t>(member)];
      moved = true;
    }
  }
  for (std::size_t rank = 0; rank < log.size(); ++rank)
    if (now(rank) != nullptr) return false;
  return true;
}

bool all_equal(const Log& log) {
  const auto lists = [](const std::vector<Made>& made) {
    std::vector<std::vector<int>> all;
    for (const Made& one : made) all.push_back(one.ranks);
    return all;
  };
  return std::ranges::all_of(log, [&](const auto& made) { return lists(made) == lists(log.front()); });
}

// Ranks that make some groups in one order, of which one may swap two, or leave one out.
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

void any_sequences(Context& context) {
  const std::string& rule = context.parameters().text("rule");
  const Property<Log> property{
      .draw = draw_log,
      .problem =
          [&](const Log& log) {
            const bool right = rule == "all_ranks" ? all_equal(log) : all_complete(log);
            return problem_of(context.adapter(), kLint, lint_question(log, rule),
                              [&](const json& result) { return first_difference(right, result.at("valid"), "valid"); });
          },
      .smaller = smaller_logs,
      .words = text_of};
  report_words(search(property, context.seed(), 300));
}

// ---- what is named in any sequences ----

// Kind, rank and creation of an error; -1 where it names none.
struct Named {
  std::string kind;
  int rank, sequence;
  auto operator<=>(const Named&) const = default;
};

std::set<Named> errors_in(const json& result) {
  const auto number = [](const json& value) { return value.is_null() ? -1 : value.get<int>(); };
  std::set<Named> errors;
  for (const json& finding : result.at("findings"))
    if (finding.at("severity") == "error")
      errors.insert({finding.at("kind"), number(finding.at("rank")), number(finding.at("sequence"))});
  return errors;
}

std::string text_of(const std::set<Named>& errors) {
  std::string text;
  for (const Named& error : errors)
    text +=
        fmt::format("{}{} of rank {}, creation {}", text.empty() ? "" : "; ", error.kind, error.rank, error.sequence);
  return text.empty() ? "no error" : text;
}

using JudgeErrors = std::function<std::string(const Log& log, const std::set<Named>& errors)>;

void judge_logs(Context& context, const std::string& rule, const std::function<Log(Random&)>& draw,
                const JudgeErrors& judge) {
  const Property<Log> property{.draw = draw,
                               .problem =
                                   [&](const Log& log) {
                                     return problem_of(
                                         context.adapter(), kLint, lint_question(log, rule),
                                         [&](const json& result) { return judge(log, errors_in(result)); });
                                   },
                               .smaller = smaller_logs,
                               .words = [](const Log& log) { return text_of(log); }};
  report_words(search(property, context.seed(), 300));
}

// All ranks make the same groups but one, the odd one, whose first difference alone is an error.
void any_difference(Context& context) {
  const auto draw = [](Random& random) {
    Log log = draw_log(random);
    while (log.size() < 3) log = draw_log(random);
    return log;
  };
  judge_logs(context, "all_ranks", draw, [](const Log& log, const std::set<Named>& errors) -> std::string {
    const auto list = [&](std::size_t rank, std::size_t n) {
      return n < log[rank].size() ? std::optional(log[rank][n].ranks) : std::nullopt;
    };
    std::set<Named> expected;
    for (std::size_t n = 0; n < 6 && expected.empty(); ++n)
      for (std::size_t rank = 0; rank < log.size(); ++rank) {
        std::size_t same = 0;
        for (std::size_t other = 0; other < log.size(); ++other) same += list(other, n) == list(rank, n) ? 1 : 0;
        if (same > 1) continue;
        // What is missing on all but one is made by that one alone.
        if (!list((rank + 1) % log.size(), n)) return {};
        expected.insert({list(rank, n) ? "order" : "missing", static_cast<int>(rank), static_cast<int>(n)});
      }
    if (errors == expected) return {};
    return fmt::format("expected {}, got {}", text_of(expected), text_of(errors));
  });
}

// Where the calls of members end: the creation at which each rank waits; nothing for one that has made all.
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

// Whether a rank waits, over others that wait, for itself.
bool is_in_cycle(const Log& log, const std::vector<std::optional<std::size_t>>& ends, std::size_t start) {
  std::set<std::size_t> reached;
  std::vector<std::size_t> next{start};
  while (!next.empty()) {
    const std::size_t rank = next.back();
    next.pop_back();
    if (!ends[rank]) continue;
    const std::vector<int>& ranks = log[rank][*ends[rank]].ranks;
    for (const int member : ranks) {
      const auto other = static_cast<std::size_t>(member);
      if (ends[other] && log[other][*ends[other]].ranks == ranks) continue;  // both wait for the same group
      if (other == start) return true;
      if (reached.insert(other).second) next.push_back(other);
    }
  }
  return false;
}

// Each rank that is stuck waits for one that has made all, which is named, or is led by others into a cycle.
void any_waits(Context& context) {
  judge_logs(context, "members_only", draw_log, [](const Log& log, const std::set<Named>& errors) -> std::string {
    const auto ends = ends_of(log);
    const auto is_over = [&](int rank) { return !ends[static_cast<std::size_t>(rank)]; };
    std::set<int> absent;
    bool cycle = false;
    for (const Named& error : errors) {
      const auto rank = static_cast<std::size_t>(error.rank);
      if (error.rank < 0) return fmt::format("{}: a wait names no rank", text_of(errors));
      if (error.kind == "missing" && error.sequence < 0) {
        if (!is_over(error.rank)) return fmt::format("{}: rank {} has not made all", text_of(errors), error.rank);
        absent.insert(error.rank);
        continue;
      }
      if (!ends[rank] || error.sequence != static_cast<int>(*ends[rank]))
        return fmt::format("{}: rank {} does not wait in creation {}", text_of(errors), error.rank, error.sequence);
      if (error.kind == "cycle" && !is_in_cycle(log, ends, rank))
        return fmt::format("{}: rank {} does not wait for itself", text_of(errors), error.rank);
      cycle = cycle || error.kind == "cycle";
    }
    bool all_wait_for_absent = true;
    std::set<int> awaited;
    for (std::size_t rank = 0; rank < log.size(); ++rank) {
      if (!ends[rank]) continue;
      std::vector<int> gone = log[rank][*ends[rank]].ranks;
      std::erase_if(gone, [&](int member) { return !is_over(member); });
      all_wait_for_absent = all_wait_for_absent && !gone.empty();
      awaited.insert(gone.begin(), gone.end());
      if (!gone.empty() && std::ranges::none_of(gone, [&](int member) { return absent.contains(member); }))
        return fmt::format("{}: rank {} waits for [{}], of which none is named", text_of(errors), rank,
                           fmt::join(gone, " "));
    }
    for (const int rank : absent)
      if (!awaited.contains(rank)) return fmt::format("{}: nobody waits for rank {}", text_of(errors), rank);
    if (awaited.empty() && !all_wait_for_absent && !cycle) return text_of(errors) + ": no cycle is named";
    return {};
  });
}

// Lists that all ranks make alike, wrong in themselves or beside others of their mode.
Log draw_bad_lists(Random& random) {
  const int world = random.between(2, 5);
  std::vector<Made> made;
  for (int i = random.between(1, 5); i > 0; --i) {
    Made one{.ranks = {}, .mode = random.one_of<std::string>({"", "DATA", "TENSOR"})};
    for (int rank = 0; rank < world; ++rank)
      if (random.between(0, 2) > 0) one.ranks.push_back(rank);
    if (random.between(0, 5) == 0) one.ranks.push_back(random.one_of<int>({-1, 0, world - 1, world}));
    if (random.between(0, 9) == 0) one.ranks.clear();
    made.push_back(one);
  }
  return Log(static_cast<std::size_t>(world), made);
}

void any_lists(Context& context) {
  judge_logs(context, "all_ranks", draw_bad_lists, [](const Log& log, const std::set<Named>& errors) -> std::string {
    const int world = static_cast<int>(log.size());
    const std::vector<Made>& made = log.front();
    std::set<std::pair<std::string, int>> expected, got;  // kinds and creations, each list at its first
    std::set<Named> overlaps;                             // all that there are
    std::map<std::string, std::set<int>> covered;
    std::set<std::vector<int>> seen;
    for (std::size_t n = 0; n < made.size(); ++n) {
      const std::set<int> members(made[n].ranks.begin(), made[n].ranks.end());
      const auto sequence = static_cast<int>(n);
      if (!made[n].mode.empty()) covered[made[n].mode].insert(members.begin(), members.end());
      for (std::size_t before = 0; before < n && !made[n].mode.empty(); ++before)
        if (const std::set<int> others(made[before].ranks.begin(), made[before].ranks.end());
            made[before].mode == made[n].mode && others != members)
          for (const int rank : members)
            if (others.contains(rank) && rank >= 0 && rank < world) overlaps.insert({"overlap", rank, sequence});
      if (!seen.insert(made[n].ranks).second) continue;
      if (members.empty()) expected.insert({"empty", sequence});
      if (members.size() != made[n].ranks.size()) expected.insert({"repeated", sequence});
      if (!members.empty() && (*members.begin() < 0 || *members.rbegin() >= world))
        expected.insert({"range", sequence});
    }
    bool overlap = false;
    std::map<int, int> uncovered, named;  // first ranks that a mode leaves out, and how many modes do
    for (const auto& [mode, ranks] : covered)
      for (int rank = 0; rank < world; ++rank)
        if (!ranks.contains(rank)) {
          ++uncovered[rank];
          break;
        }
    for (const Named& error : errors) {
      if (error.kind == "overlap") {
        overlap = true;
        if (!overlaps.contains(error)) return text_of(errors) + ": no such overlap";
      } else if (error.kind == "cover") {
        named[error.rank] = 1;
      } else {
        got.insert({error.kind, error.sequence});
      }
    }
    if (overlap == overlaps.empty()) return text_of(errors) + ": overlaps are " + text_of(overlaps);
    for (const auto& [rank, modes] : uncovered)
      if (!named.contains(rank)) return fmt::format("{}: a mode leaves rank {} out", text_of(errors), rank);
    if (named.size() != uncovered.size()) return text_of(errors) + ": no mode leaves that rank out";
    if (got == expected) return {};
    std::string words = text_of(errors) + "; the lists have:";
    for (const auto& [kind, sequence] : expected) words += fmt::format(" {} in creation {}", kind, sequence);
    return words;
  });
}

template <class Row>
suite::Axis axis_of(const char* name, const std::vector<Row>& rows) {
  suite::Axis axis{.name = name, .values = {}};
  for (const Row& row : rows) axis.values.emplace_back(row.name);
  return axis;
}

suite::Check lint_check(std::string id, std::string verifies, suite::Axis axis, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {std::move(axis)},
          .operations = {kLint},
          .body = std::move(body)};
}

}  // namespace

void add_lint_checks(suite::Suite& suite) {
  suite.add(
      lint_check("groups.lint.differences", "GROUP-030@65d4", axis_of("fault", differences()), differences_named));
  suite.add(lint_check("groups.lint.waits", "GROUP-031@9cd3", axis_of("fault", waits()), waits_named));
  suite.add(lint_check("groups.lint.lists", "GROUP-032@cb1b", axis_of("fault", all_bad_lists()), lists_named));
  suite.add(lint_check("groups.lint.right_logs", "GROUP-033@3740", axis_of("log", right_logs()), right_logs_pass));
  suite.add(lint_check("groups.lint.any_sequences", "GROUP-034@de3c", {"rule", {"all_ranks", "members_only"}},
                       any_sequences));
  suite.add(lint_check("groups.lint.any_difference", "GROUP-030@65d4", {"rule", {"all_ranks"}}, any_difference));
  suite.add(lint_check("groups.lint.any_waits", "GROUP-031@9cd3", {"rule", {"members_only"}}, any_waits));
  suite.add(lint_check("groups.lint.any_lists", "GROUP-032@cb1b", {"rule", {"all_ranks"}}, any_lists));
}

}  // namespace plumbline::conformance
