// What an adapter says of any creations that ranks make: its findings are those of the calls themselves.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/logs.hpp"
#include "conformance/groups/worlds.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

// ---- any sequences ----

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
      .words = [](const Log& log) { return text_of(log); }};
  report_words(search(property, context.seed(), 300));
}

// ---- what is named in any sequences ----

using JudgeLog = std::function<std::string(const Log& log, const json& result)>;
using JudgeErrors = std::function<std::string(const Log& log, const Findings& errors)>;

// Of a check of several requirements, the failure names the one that it is about.
void judge_logs(Context& context, const std::string& rule, const std::function<Log(Random&)>& draw,
                const JudgeLog& judge, const std::function<std::vector<Log>(const Log&)>& smaller = smaller_logs,
                const std::string& requirement = {}) {
  const Property<Log> property{.draw = draw,
                               .problem =
                                   [&](const Log& log) {
                                     return problem_of(context.adapter(), kLint, lint_question(log, rule),
                                                       [&](const json& result) { return judge(log, result); });
                                   },
                               .smaller = smaller,
                               .words = [](const Log& log) { return text_of(log); }};
  const std::string words = search(property, context.seed(), 300);
  report_words(words.empty() || requirement.empty() ? words : fmt::format("{}: {}", requirement, words));
}

JudgeLog of_errors(const JudgeErrors& judge) {
  return [judge](const Log& log, const json& result) { return judge(log, findings_in(result, "error")); };
}

Log draw_of_three_or_more(Random& random) {
  Log log = draw_log(random);
  while (log.size() < 3) log = draw_log(random);
  return log;
}

void any_difference(Context& context) {
  judge_logs(context, "all_ranks", draw_of_three_or_more, of_errors([](const Log& log, const Findings& errors) {
               const auto expected = first_difference_of(log);
               return expected ? not_equal(*expected, errors) : "";
             }));
}

// ---- waits ----

// Who waits for whom where the calls of members end.
class Waits {
 public:
  explicit Waits(const Log& log) : log_(log), ends_(ends_of(log)) {
    for (int rank = 0; rank < ranks(); ++rank) {
      std::set<int>&awaited = awaited_[rank], &absent = absent_[rank];
      for (int other = 0; other < ranks(); ++other)
        if (waits(rank) && contains(group(rank), other) && (!waits(other) || group(other) != group(rank)))
          (waits(other) ? awaited : absent).insert(other);
      reached_[rank] = awaited;
    }
    for (int over = 0; over < ranks(); ++over)
      for (auto& [rank, reached] : reached_)
        if (rank != over && reached.contains(over)) reached.insert(reached_[over].begin(), reached_[over].end());
  }
  [[nodiscard]] int ranks() const { return static_cast<int>(log_.size()); }
  [[nodiscard]] bool waits(int rank) const { return ends_[static_cast<std::size_t>(rank)].has_value(); }
  /// The creation in which a rank waits.
  [[nodiscard]] int at(int rank) const { return static_cast<int>(*ends_[static_cast<std::size_t>(rank)]); }
  /// For whom a rank waits that has made all.
  [[nodiscard]] const std::set<int>& absent(int rank) const { return absent_.at(rank); }
  /// Those for whom a rank waits that wait in another group, and those for whom they wait, and so on.
  [[nodiscard]] const std::set<int>& reached(int rank) const { return reached_.at(rank); }
  [[nodiscard]] bool is_awaited_as_absent(int rank) const {
    return std::ranges::any_of(absent_, [rank](const auto& entry) { return entry.second.contains(rank); });
  }
  /// Whether another rank waits for this one, which waits elsewhere, in a group that it makes later, or never.
  [[nodiscard]] bool is_awaited(int rank, bool makes_it_later) const {
    return std::ranges::any_of(awaited_, [&](const auto& entry) {
      return entry.second.contains(rank) && makes_later(rank, group(entry.first)) == makes_it_later;
    });
  }
  /// Whether `rank` waits for `other`, which waits elsewhere and makes that group later, or never.
  [[nodiscard]] bool awaits(int rank, int other, bool makes_it_later) const {
    return awaited_.at(rank).contains(other) && makes_later(other, group(rank)) == makes_it_later;
  }
  /// The ranks that reach a rank and are reached by it; none unless it waits for itself.
  [[nodiscard]] std::set<int> around(int rank) const {
    std::set<int> all;
    for (const int other : reached(rank))
      if (reached(other).contains(rank)) all.insert(other);
    return all;
  }

 private:
  [[nodiscard]] const std::vector<int>& group(int rank) const {
    return log_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(at(rank))].ranks;
  }
  [[nodiscard]] bool makes_later(int rank, const std::vector<int>& ranks) const {
    const auto& own = log_[static_cast<std::size_t>(rank)];
    return std::any_of(own.begin() + at(rank), own.end(), [&](const Made& made) { return made.ranks == ranks; });
  }

  const Log& log_;
  std::vector<std::optional<std::size_t>> ends_;
  std::map<int, std::set<int>> awaited_, absent_, reached_;
};

// An error about a rank of a cycle: where it waits, and whether it makes later, or never, what the rank before it waits
// for.
bool is_of_cycle(const Named& error) {
  return error.kind == "order" || (error.kind == "missing" && error.sequence >= 0);
}

// What is wrong with an error about a wait; "" where it is so.
std::string problem_of_wait(const Waits& waits, const Named& error) {
  const int rank = error.rank;
  if (rank < 0 || rank >= waits.ranks()) return "it names no rank";
  if (error.kind == "missing" && error.sequence < 0)
    return waits.is_awaited_as_absent(rank) ? "" : "nobody waits for a rank that has made all";
  if (!waits.waits(rank) || error.sequence != waits.at(rank)) return "the rank does not wait in that creation";
  if (error.kind == "cycle") return waits.reached(rank).contains(rank) ? "" : "the rank does not wait for itself";
  if (is_of_cycle(error))
    return waits.is_awaited(rank, error.kind == "order") ? "" : "nobody waits for that rank in such a group";
  return "there is no such error";
}

// The ranks that `start` leads to over ranks that are named, each as one that makes the group in which the one before
// it waits later, or never.
std::set<int> named_after(const Waits& waits, const Findings& errors, int start) {
  std::set<int> reached;
  std::vector<int> next{start};
  while (!next.empty()) {
    const int rank = next.back();
    next.pop_back();
    for (int other = 0; other < waits.ranks(); ++other)
      for (const char* kind : {"order", "missing"})
        if (waits.awaits(rank, other, kind == std::string_view("order")) &&
            errors.contains({kind, other, waits.at(other)}) && reached.insert(other).second)
          next.push_back(other);
  }
  return reached;
}

// How many errors there are of a kind about these ranks.
std::ptrdiff_t count_among(const std::set<int>& ranks, const Findings& errors, bool (*is_of_kind)(const Named&)) {
  return std::ranges::count_if(errors,
                               [&](const Named& error) { return is_of_kind(error) && ranks.contains(error.rank); });
}
bool is_cycle(const Named& error) { return error.kind == "cycle" && error.sequence >= 0; }

// "" where the errors about waits of which `is_judged` holds are so.
std::string problem_of_each(const Waits& waits, const Findings& errors, bool (*is_judged)(const Named&)) {
  for (const Named& error : errors)
    if (is_judged(error))
      if (auto words = problem_of_wait(waits, error); !words.empty())
        return fmt::format("{}: {} of rank {}: {}", text_of(errors), error.kind, error.rank, words);
  return {};
}

// Each rank of a cycle that is found is named, and a cycle has two ranks or more.
std::string problem_of_cycles(const Log& log, const Findings& errors) {
  const Waits waits(log);
  if (auto words = problem_of_each(waits, errors, is_of_cycle); !words.empty()) return words;
  for (int rank = 0; rank < waits.ranks(); ++rank) {
    const std::set<int> around = waits.around(rank);
    if (count_among(around, errors, is_of_cycle) < 2 * count_among(around, errors, is_cycle))
      return fmt::format("{}: of a cycle among the ranks [{}] less than two are said to wait", text_of(errors),
                         fmt::join(around, " "));
    if (waits.waits(rank) && errors.contains({"cycle", rank, waits.at(rank)}) &&
        !named_after(waits, errors, rank).contains(rank))
      return fmt::format("{}: of the cycle that rank {} waits in, not all ranks are named", text_of(errors), rank);
  }
  return {};
}

// Each rank that is stuck waits for one that has made all, which is named, or is led by others into a cycle, or to a
// rank that waits for such a one. No rank waits in two cycles.
std::string problem_of_waits(const Log& log, const Findings& errors) {
  const Waits waits(log);
  if (auto words = problem_of_each(waits, errors, [](const Named& error) { return !is_of_cycle(error); });
      !words.empty())
    return words;
  const auto is_named = [&](int rank) { return errors.contains({"missing", rank, -1}); };
  const auto in_cycle = [&](int rank) { return waits.waits(rank) && errors.contains({"cycle", rank, waits.at(rank)}); };
  for (int rank = 0; rank < waits.ranks(); ++rank) {
    if (!waits.waits(rank)) continue;
    const std::set<int>& absent = waits.absent(rank);
    if (!absent.empty() && std::ranges::none_of(absent, is_named))
      return fmt::format("{}: rank {} waits for [{}], of which none is named", text_of(errors), rank,
                         fmt::join(absent, " "));
    const auto leads_to_absent = [&](int other) { return !waits.absent(other).empty(); };
    if (absent.empty() && std::ranges::none_of(waits.reached(rank), leads_to_absent) &&
        std::ranges::none_of(waits.reached(rank), in_cycle))
      return fmt::format("{}: rank {} is led into a cycle, and none is named there", text_of(errors), rank);
    const std::set<int> around = waits.around(rank);
    if (const auto cycles = count_among(around, errors, is_cycle); 2 * cycles > std::ssize(around))
      return fmt::format("{}: {} cycles among the ranks [{}]", text_of(errors), cycles, fmt::join(around, " "));
  }
  return {};
}

// Each rank makes some groups in an order of its own, and may leave one out.
Log draw_tangled(Random& random) {
  const int world = random.between(2, 7);
  std::vector<Made> common;
  for (int i = random.between(2, 6); i > 0; --i) {
    std::vector<int> ranks;
    for (int rank = 0; rank < world; ++rank)
      if (random.between(0, 2) == 0) ranks.push_back(rank);
    if (!ranks.empty()) common.push_back({.ranks = ranks});
  }
  Log log(static_cast<std::size_t>(world), common);
  for (auto& own : log) {
    if (random.between(0, 1) == 0) own = random.shuffled(own);
    if (random.between(0, 5) == 0 && !own.empty())
      own.erase(own.begin() + random.between(0, static_cast<int>(own.size()) - 1));
  }
  return log;
}

void any_waits(Context& context) {
  const auto draw = [](Random& random) { return random.between(0, 2) == 0 ? draw_log(random) : draw_tangled(random); };
  judge_logs(context, "members_only", draw, of_errors(problem_of_waits), smaller_logs, "GROUP-031");
  judge_logs(context, "members_only", draw, of_errors(problem_of_cycles), smaller_logs, "GROUP-039");
}

// ---- groups that ranks make together, under other names or in other orders of members ----

Log draw_meetings(Random& random) {
  const int world = random.between(2, 5);
  std::vector<Made> common;
  for (int i = random.between(1, 6); i > 0; --i) {
    Made one{.ranks = {}, .mode = random.one_of<std::string>({"", "DATA", "TENSOR"})};
    for (int rank = 0; rank < world; ++rank)
      if (random.between(0, 3) > 0) one.ranks.push_back(rank);
    if (!one.ranks.empty()) common.push_back(one);
  }
  Log log(static_cast<std::size_t>(world), common);
  for (auto& own : log)
    for (Made& made : own) {
      if (random.between(0, 3) == 0) made.mode = random.one_of<std::string>({"", "DATA", "TENSOR", "MODEL"});
      if (random.between(0, 3) == 0) made.ranks = random.shuffled(made.ranks);
    }
  return log;
}
std::vector<Log> fewer_meetings(const Log& log) {
  std::vector<Log> list;
  for (std::size_t n = 0; n < log.front().size(); ++n) {
    list.push_back(log);
    for (auto& own : list.back()) own.erase(own.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return list;
}

// What a rank makes otherwise than the first does, or than the first that gives a name: by finding, what one finding
// is to be of.
struct Otherwise {
  bool is_error;
  std::string fault;
};
std::map<Named, Otherwise> differences_in(const Log& log, bool members_alone) {
  std::map<Named, Otherwise> all;
  for (std::size_t n = 0; n < log.front().size(); ++n) {
    std::vector<std::size_t> makers;
    for (std::size_t rank = 0; rank < log.size(); ++rank)
      if (!members_alone || contains(log[rank][n].ranks, static_cast<int>(rank))) makers.push_back(rank);
    const auto made = [&](std::size_t rank) -> const Made& { return log[rank][n]; };
    const auto is_named = [&](std::size_t rank) { return !made(rank).mode.empty(); };
    const auto named = std::ranges::find_if(makers, is_named);
    for (const std::size_t rank : makers) {
      const auto [own, mode] = made(rank);
      const auto& usual = made(makers.front()).ranks;
      if (own != usual)
        all[{"member_order", static_cast<int>(rank), static_cast<int>(n)}] = {
            true, fmt::format("[{}] for [{}]", fmt::join(own, " "), fmt::join(usual, " "))};
      if (named != makers.end() && mode != made(*named).mode)
        all[{"mode", static_cast<int>(rank), static_cast<int>(n)}] = {
            !mode.empty(), fmt::format("'{}' for '{}'", mode, made(*named).mode)};
    }
  }
  return all;
}

bool is_of_meeting(const Named& one) { return one.kind == "member_order" || one.kind == "mode"; }

// What is found as an error, or as a warning, is such a difference, and each of them is found.
std::string problem_of_meetings(const std::map<Named, Otherwise>& differences, const json& result, bool are_errors) {
  std::set<std::string> found;
  for (const Named& one : findings_in(result, are_errors ? "error" : "warning")) {
    if (!is_of_meeting(one)) continue;
    const auto difference = differences.find(one);
    if (difference == differences.end() || difference->second.is_error != are_errors)
      return fmt::format("{} {} of rank {}, creation {}: there is no such difference", are_errors ? "error" : "warning",
                         one.kind, one.rank, one.sequence);
    found.insert(difference->second.fault);
  }
  for (const auto& [one, difference] : differences)
    if (difference.is_error == are_errors && !found.contains(difference.fault))
      return fmt::format("{} is not found", difference.fault);
  return {};
}

std::string problem_of_repeats(const std::map<Named, Otherwise>& differences, const json& result) {
  std::map<std::string, int> times;  // by fault
  for (const auto& [one, difference] : differences) times[difference.fault] = 0;
  for (const char* severity : {"error", "warning"})
    for (const Named& one : findings_in(result, severity))
      if (const auto difference = differences.find(one); is_of_meeting(one) && difference != differences.end())
        ++times[difference->second.fault];
  for (const auto& [fault, count] : times)
    if (count != 1) return fmt::format("{} is found {} times", fault, count);
  return {};
}

void any_meetings(Context& context) {
  const std::string& rule = context.parameters().text("rule");
  const bool members_alone = rule == "members_only";
  const auto judge = [&](const char* requirement, const JudgeLog& of_log) {
    judge_logs(context, rule, draw_meetings, of_log, fewer_meetings, requirement);
  };
  judge("GROUP-032", [&](const Log& log, const json& result) {
    return problem_of_meetings(differences_in(log, members_alone), result, true);
  });
  judge("GROUP-040", [&](const Log& log, const json& result) {
    return problem_of_meetings(differences_in(log, members_alone), result, false);
  });
  judge("GROUP-041", [&](const Log& log, const json& result) {
    return problem_of_repeats(differences_in(log, members_alone), result);
  });
}

// ---- warnings ----

// Members make their groups in one order; of those outside a group none makes it, some do, or all. Some rank may be in
// no group.
Log draw_strangers(Random& random, bool all_make_all) {
  const int world = random.between(2, 6);
  Log log(static_cast<std::size_t>(world));
  for (int i = random.between(1, 4); i > 0; --i) {
    Made made;
    for (int rank = 0; rank < world; ++rank)
      if (random.between(0, 2) == 0) made.ranks.push_back(rank);
    if (made.ranks.empty()) made.ranks.push_back(random.between(0, world - 1));
    const int strangers = all_make_all ? 2 : random.between(0, 2);
    for (int rank = 0; rank < world; ++rank)
      if (contains(made.ranks, rank) || strangers == 2 || (strangers == 1 && random.between(0, 1) == 0))
        log[static_cast<std::size_t>(rank)].push_back(made);
  }
  return log;
}

Findings warnings_of(const Log& log, bool members_alone) {
  const int world = static_cast<int>(log.size());
  Findings warnings;
  std::set<int> listed;
  std::map<std::vector<int>, std::map<int, int>> outside;  // by group: who makes it, and first as which creation
  for (int rank = 0; rank < world; ++rank)
    for (int n = 0; const Made& made : log[static_cast<std::size_t>(rank)]) {
      listed.insert(made.ranks.begin(), made.ranks.end());
      if (!contains(made.ranks, rank)) outside[made.ranks].emplace(rank, n);
      ++n;
    }
  for (const auto& [ranks, makers] : outside)
    if (members_alone && std::ssize(makers) < world - std::ssize(ranks))
      warnings.insert({"stranger", makers.begin()->first, makers.begin()->second});
  for (int rank = 0; rank < world && !listed.empty(); ++rank)
    if (!listed.contains(rank)) {
      warnings.insert({"absent", rank, -1});
      break;
    }
  return warnings;
}

void any_warnings(Context& context) {
  const std::string& rule = context.parameters().text("rule");
  const bool members_alone = rule == "members_only";
  const auto draw = [&](Random& random) { return draw_strangers(random, !members_alone); };
  judge_logs(context, rule, draw, [&](const Log& log, const json& result) -> std::string {
    if (members_alone ? !all_complete(log) : !all_equal(log)) return {};  // a smaller one, of which others judge
    if (result.at("valid") != true) return "refused: " + result.at("findings").dump();
    return not_equal(warnings_of(log, members_alone), findings_in(result, "warning"));
  });
}

// ---- lists ----

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
  judge_logs(context, "all_ranks", draw_bad_lists, of_errors([](const Log& log, const Findings& errors) -> std::string {
               const int world = static_cast<int>(log.size());
               const std::vector<Made>& made = log.front();
               std::set<std::pair<std::string, int>> expected, got;  // kinds and creations, each list at its first
               Findings overlaps;                                    // all that there are
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
                       if (others.contains(rank) && rank >= 0 && rank < world)
                         overlaps.insert({"overlap", rank, sequence});
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
             }));
}

}  // namespace

void add_lint_property_checks(suite::Suite& suite) {
  const suite::Axis all_ranks{"rule", {"all_ranks"}}, members_only{"rule", {"members_only"}},
      both{"rule", {"all_ranks", "members_only"}};
  const auto add = [&](const char* id, std::vector<std::string> verifies, const suite::Axis& rules,
                       std::function<void(Context&)> body) {
    suite.add({.id = std::string("groups.lint.") + id,
               .verifies = std::move(verifies),
               .door = suite::Door::adapter,
               .axes = {rules},
               .operations = {kLint},
               .options = options_of({{kLint, "form", {"creations"}}}),
               .body = std::move(body)});
  };
  add("any_sequences", {"GROUP-034@0a09"}, both, any_sequences);
  add("any_difference", {"GROUP-030@156b"}, all_ranks, any_difference);
  add("any_waits", {"GROUP-031@74d5", "GROUP-039@95f7"}, members_only, any_waits);
  add("any_meetings", {"GROUP-032@827a", "GROUP-040@6869", "GROUP-041@88f1"}, both, any_meetings);
  add("any_warnings", {"GROUP-040@6869"}, both, any_warnings);
  add("any_lists", {"GROUP-032@827a"}, all_ranks, any_lists);
}

}  // namespace plumbline::conformance
