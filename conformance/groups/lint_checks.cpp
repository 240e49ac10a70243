// What an adapter says of the group creations that ranks made.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

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

// ---- what a finding says ----

// A log with a fault, and what the message of its finding has to hold beside other words.
struct Told {
  const char* name;
  const char* rule;
  Log log;
  Named finding;
  std::multiset<int> numbers;
  std::vector<const char*> names = {};
};

// Ranks of which each makes its creations `n` places later, by groups of its own before them.
Log delayed(Log log, const std::vector<std::size_t>& places) {
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    log[rank].insert(log[rank].begin(), places[rank], Made{.ranks = {static_cast<int>(rank)}});
  return log;
}

// Ranks that all make `usual`, but for some that make `odd`.
Log with_odd(int world, const std::vector<Made>& usual, const std::vector<int>& odd_ranks,
             const std::vector<Made>& odd) {
  Log log(static_cast<std::size_t>(world), usual);
  for (const int rank : odd_ranks) log[static_cast<std::size_t>(rank)] = odd;
  return log;
}

const std::vector<int> kPair{4, 6};

// Faults of every rank that makes all of what the others do.
std::vector<Told> told_of_all_ranks() {
  const std::vector<Made> all{{kAll}, {kAll}, {{1, 7}}};
  return {
      {"order",
       "all_ranks",
       with_odd(12, all, {3, 4, 6, 8}, {{kAll}, {kAll}, {{5, 9}}}),
       {"order", 3, 2},
       {5, 9, 0, 1, 7, 3}},
      {"missing",
       "all_ranks",
       with_odd(15, all, {0, 1, 2, 5, 6, 8}, {{kAll}, {kAll}}),
       {"missing", 0, 2},
       {2, 3, 1, 7, 5}},
      {"cover", "all_ranks", with_odd(9, {{kPair, "DATA"}}, {}, {}), {"cover", 0, -1}, {6}, {"DATA"}},
      {"absent", "all_ranks", with_odd(9, {{kPair}}, {}, {}), {"absent", 0, -1}, {6}},
      {"repeated", "all_ranks", with_odd(9, {{{5, 7, 5}}}, {}, {}), {"repeated", 0, 0}, {5, 7, 5}},
      {"range", "all_ranks", with_odd(9, {{{5, 17}}}, {}, {}), {"range", 0, 0}, {5, 17, 9}},
      {"overlap",
       "all_ranks",
       with_odd(9, {{{0}}, {{4, 6}, "DATA"}, {{2}}, {{4, 7}, "DATA"}}, {}, {}),
       {"overlap", 4, 3},
       {4, 6, 1, 4, 7},
       {"DATA"}},
  };
}

// Faults of members that make their groups alone.
std::vector<Told> told_of_members() {
  const Log two = delayed({{}, {}, {}, {}, {{kPair, "DATA"}}, {}, {{{6, 4}, "TENSOR"}}}, {0, 0, 0, 0, 2, 0, 1});
  const Log unnamed = delayed({{}, {}, {}, {}, {{kPair, "DATA"}}, {}, {{kPair}}}, {0, 0, 0, 0, 2, 0, 1});
  // Rank 4 makes its group with rank 6 first, and that of all three later; rank 6 the other way round.
  const Log crossed = delayed({{}, {}, {}, {}, {{kPair}, {{4, 6, 7}}}, {}, {{{4, 6, 7}}, {kPair}}, {{{4, 6, 7}}}},
                              {0, 0, 0, 0, 1, 0, 3});
  const Log never = delayed({{}, {}, {}, {}, {{kPair}}, {}, {{{6, 7}}}, {{{4, 7}}}}, {0, 0, 0, 0, 1, 0, 2});
  Log waiting(12), outside(9);
  for (int rank = 0; rank < 5; ++rank) {
    waiting[static_cast<std::size_t>(rank)] = {{{rank, 7}}};
    outside[static_cast<std::size_t>(rank)] = {{{rank, 17}}};
  }
  waiting = delayed(waiting, {2, 0, 0, 0, 0, 0, 0, 3});
  return {
      {"two_orders", "members_only", two, {"member_order", 6, 1}, {6, 4, 4, 2, 4, 6}},
      {"two_names", "members_only", two, {"mode", 6, 1}, {6, 4, 4, 2}, {"DATA", "TENSOR"}},
      {"no_name", "members_only", unnamed, {"mode", 6, 1}, {4, 6, 4, 2}, {"DATA"}},
      {"crossed", "members_only", crossed, {"order", 6, 3}, {4, 6, 7, 4, 1, 4, 6, 4}},
      {"crossed_back", "members_only", crossed, {"order", 4, 1}, {4, 6, 6, 3, 4, 6, 7, 2}},
      {"cycle", "members_only", crossed, {"cycle", 4, 1}, {4, 6}},
      {"never_made", "members_only", never, {"missing", 6, 2}, {6, 7, 4, 1, 4, 6}},
      {"absent_rank", "members_only", waiting, {"missing", 7, -1}, {3, 0, 2, 0, 7, 4}},
      {"rank_outside", "members_only", outside, {"missing", 0, 0}, {0, 17, 17, 9, 4}},
      {"strangers", "members_only", with_odd(9, {{kPair}}, {0, 2}, {}), {"stranger", 1, 0}, {4, 6, 4}},
  };
}

const std::vector<Told>& told_logs() {
  static const std::vector<Told> list = [] {
    std::vector<Told> all = told_of_all_ranks();
    std::ranges::move(told_of_members(), std::back_inserter(all));
    return all;
  }();
  return list;
}

std::multiset<int> numbers_in(const std::string& message) {
  constexpr const char* kDigits = "0123456789";
  std::multiset<int> numbers;
  for (std::size_t at = message.find_first_of(kDigits); at != std::string::npos;) {
    const std::size_t end = std::min(message.find_first_not_of(kDigits, at), message.size());
    numbers.insert(std::stoi(message.substr(at, std::min<std::size_t>(end - at, 9))));
    at = message.find_first_of(kDigits, end);
  }
  return numbers;
}

void findings_told(Context& context) {
  const Told& told = *std::ranges::find_if(
      told_logs(), [&](const Told& one) { return context.parameters().text("fault") == one.name; });
  report_words(
      problem_of(context.adapter(), kLint, lint_question(told.log, told.rule), [&](const json& result) -> std::string {
        for (const char* severity : {"error", "warning"})
          for (const json& finding : result.at("findings")) {
            if (findings_in({{"findings", {finding}}}, severity) != Findings{told.finding}) continue;
            const std::string message = finding.at("message");
            if (!std::ranges::includes(numbers_in(message), told.numbers))
              return fmt::format("expected the numbers {} in '{}'", fmt::join(told.numbers, ", "), message);
            for (const char* name : told.names)
              if (message.find(name) == std::string::npos) return fmt::format("expected {} in '{}'", name, message);
            return {};
          }
        return fmt::format("expected {}, got {}", text_of(Findings{told.finding}), result.at("findings").dump());
      }));
}

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
          .options = options_of({{kLint, "form", {"creations"}}}),
          .body = std::move(body)};
}

}  // namespace

void add_lint_checks(suite::Suite& suite) {
  suite.add(
      lint_check("groups.lint.differences", "GROUP-030@156b", axis_of("fault", differences()), differences_named));
  suite.add(lint_check("groups.lint.waits", "GROUP-031@74d5", axis_of("fault", waits()), waits_named));
  suite.add(lint_check("groups.lint.lists", "GROUP-032@827a", axis_of("fault", all_bad_lists()), lists_named));
  suite.add(lint_check("groups.lint.findings_told", "GROUP-043@c3eb", axis_of("fault", told_logs()), findings_told));
  suite.add(lint_check("groups.lint.right_logs", "GROUP-033@ee14", axis_of("log", right_logs()), right_logs_pass));
}

}  // namespace plumbline::conformance
