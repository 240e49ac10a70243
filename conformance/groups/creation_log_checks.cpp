// What a linter reads of a log in JSON Lines, and which logs it rejects.
#include <algorithm>

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

// ---- logs that are read ----

struct Written {
  const char* name;
  std::string text;
  const char* rule;
  int world;  // 0: as the log says
  Findings errors;
};

const std::vector<Written>& written_logs() {
  static const std::vector<Written> list{
      {"in_order_of_lines",
       R"({"rank":1,"ranks":[0,1]}
{"rank":0,"ranks":[0,1]}
{"rank":1,"ranks":[1]}
{"rank":0,"ranks":[1]}
{"rank":1,"ranks":[0]}
{"rank":0,"ranks":[0]})",
       "all_ranks",
       2,
       {}},
      {"in_order_of_numbers",
       R"({"rank":1,"sequence":9223372036854775807,"ranks":[0]}
{"rank":0,"sequence":4,"ranks":[1]}
{"rank":1,"sequence":9223372036854775806,"ranks":[1]}
{"rank":0,"sequence":3,"ranks":[0,1]}
{"rank":0,"sequence":70,"ranks":[0]}
{"rank":1,"sequence":0,"ranks":[0,1]})",
       "all_ranks",
       2,
       {}},
      {"swapped_by_numbers",
       R"({"rank":0,"sequence":0,"ranks":[0,1,2]}
{"rank":0,"sequence":2,"ranks":[0,1]}
{"rank":1,"sequence":2,"ranks":[0,1,2]}
{"rank":1,"sequence":0,"ranks":[0,1]}
{"rank":2,"sequence":0,"ranks":[0,1,2]}
{"rank":2,"sequence":2,"ranks":[0,1]})",
       "all_ranks",
       3,
       {{"order", 1, 0}}},
      {"blank_lines",
       "\n \t\r\n{\"rank\":0,\"ranks\":[0,1]}\r\n\n\n\t{\"rank\":1, \"ranks\" : [ 0 , 1 ] } "
       "\n{\"rank\":0,\"ranks\":[0]}\n\n",
       "all_ranks",
       2,
       {{"missing", 1, 1}}},
      {"without_last_end",
       "{\"rank\":0,\"ranks\":[0,1]}\n{\"rank\":2,\"ranks\":[0,1]}\n{\"rank\":1,\"ranks\":[0]}",
       "all_ranks",
       3,
       {{"order", 1, 0}}},
      {"null_and_other_fields",
       R"({"rank":0,"sequence":null,"mode":null,"ranks":[0,1],"time":0.5}
{"rank":1,"ranks":[0,1],"of":{"rank":9,"rank":8},"":[]})",
       "all_ranks",
       2,
       {}},
      {"names",
       R"({"rank":0,"ranks":[0,1],"mode":"DA\"T\u00c4"}
{"rank":1,"ranks":[0,1],"mode":"DA\"TÄ"}
{"rank":0,"ranks":[1,0],"mode":"DATA"}
{"rank":1,"ranks":[1,0],"mode":"data"})",
       "members_only",
       2,
       {{"mode", 1, 1}}},
      {"world_of_the_largest_rank",
       R"({"rank":0,"ranks":[0,1]}
{"rank":3,"ranks":[0]}
{"rank":1,"ranks":[0,1]})",
       "all_ranks",
       0,
       {{"order", 3, 0}, {"missing", 2, 0}}},
      {"world_without_others",
       R"({"rank":0,"ranks":[0,1]}
{"rank":1,"ranks":[0,1]})",
       "all_ranks",
       0,
       {}},
      {"world_of_the_largest_member", R"({"rank":0,"ranks":[0,2,1]})", "members_only", 0, {{"missing", 1, -1}}},
      {"member_outside", R"({"rank":0,"ranks":[0,2]})", "members_only", 2, {{"missing", 0, 0}, {"range", 0, 0}}},
      {"negative_member", R"({"rank":0,"ranks":[-1,0]})", "members_only", 2, {{"missing", 0, 0}, {"range", 0, 0}}},
      {"nothing_made", "\n", "all_ranks", 3, {}},
  };
  return list;
}

json question_of_text(const std::string& text, const std::string& rule, int world) {
  json args{{"log", text}, {"rule", rule}};
  if (world > 0) args["world_size"] = world;
  return args;
}

void logs_read(Context& context) {
  const Written& log = *std::ranges::find_if(
      written_logs(), [&](const Written& one) { return context.parameters().text("log") == one.name; });
  report_words(problem_of(context.adapter(), kLint, question_of_text(log.text, log.rule, log.world),
                          [&](const json& result) -> std::string {
                            if (result.at("valid") != log.errors.empty())
                              return fmt::format("valid is {}: {}", result["valid"].dump(),
                                                 result.at("findings").dump());
                            return not_equal(log.errors, findings_in(result, "error"));
                          }));
}

// A log, and how it is written.
struct Drawn {
  Log log;
  std::uint64_t seed;
  bool numbered, spaced;
};

std::string lines_of(const Drawn& drawn) {
  Random random(drawn.seed);
  std::vector<std::pair<int, std::string>> lines;  // where each stands, in the order of each rank unless numbered
  for (std::size_t rank = 0; rank < drawn.log.size(); ++rank)
    for (int n = 0, at = 0; const Made& made : drawn.log[rank]) {
      json line{{"ranks", made.ranks}, {"rank", rank}};
      if (drawn.numbered) line["sequence"] = 3 * n++ + random.between(0, 2);
      at = drawn.numbered ? random.between(0, 99) : at + random.between(0, 20);
      lines.emplace_back(at, drawn.spaced ? line.dump(random.between(0, 1) == 0 ? -1 : 0) : line.dump());
    }
  std::ranges::stable_sort(lines, {}, &std::pair<int, std::string>::first);
  std::string text;
  for (auto& [at, line] : lines) {
    std::ranges::replace(line, '\n', ' ');
    if (drawn.spaced && random.between(0, 2) == 0) text += random.one_of<std::string>({"\n", " \n", "\r\n", "\t\r\n"});
    text += line + (drawn.spaced && random.between(0, 1) == 0 ? "\r\n" : "\n");
  }
  return text;
}

void any_log(Context& context) {
  const std::string& form = context.parameters().text("form");
  const Property<Drawn> property{
      .draw =
          [&](Random& random) {
            Drawn drawn{.log = draw_log(random),
                        .seed = static_cast<std::uint64_t>(random.between(0, 1 << 20)),
                        .numbered = form == "numbered",
                        .spaced = form == "spaced"};
            while (drawn.log.size() < 3) drawn.log = draw_log(random);
            return drawn;
          },
      .problem = [&](const Drawn& drawn) -> std::string {
        const auto expected = first_difference_of(drawn.log);
        if (!expected) return {};
        const json args = question_of_text(lines_of(drawn), "all_ranks", static_cast<int>(drawn.log.size()));
        return problem_of(context.adapter(), kLint, args,
                          [&](const json& result) { return not_equal(*expected, findings_in(result, "error")); });
      },
      .smaller =
          [](const Drawn& drawn) {
            std::vector<Drawn> list;
            for (Log& log : smaller_logs(drawn.log)) {
              list.push_back(drawn);
              list.back().log = std::move(log);
            }
            return list;
          },
      .words = [](const Drawn& drawn) { return text_of(drawn.log); }};
  report_words(search(property, context.seed(), 100));
}

// ---- logs that are rejected ----

// A line that no log may have, and one like it that it may.
struct BadLine {
  const char* fault;
  std::string bad, good;
};

const std::vector<BadLine>& bad_lines() {
  const auto with_rank = [](const char* rank) { return fmt::format(R"({{"rank":{},"ranks":[0]}})", rank); };
  const auto with_ranks = [](const char* ranks) { return fmt::format(R"({{"rank":0,"ranks":{}}})", ranks); };
  const auto with_mode = [](const char* mode) { return fmt::format(R"({{"rank":0,"ranks":[0],"mode":{}}})", mode); };
  const auto numbered = [](const char* number) {
    return fmt::format(R"({{"rank":2,"ranks":[0],"sequence":{}}})", number);
  };
  static const std::vector<BadLine> list{
      {"no_json", R"({"rank":0,"ranks":[0])", with_rank("0")},
      {"two_objects", with_rank("0") + with_rank("0"), with_rank("0")},
      {"no_object", "[0]", with_rank("0")},
      {"number", "7", with_rank("0")},
      {"no_rank", R"({"ranks":[0]})", with_rank("0")},
      {"no_ranks", R"({"rank":0})", with_rank("0")},
      {"rank_minus_one", with_rank("-1"), with_rank("0")},
      {"rank_of_the_world", with_rank("3"), with_rank("1")},
      {"rank_past_32_bits", with_rank("4294967296"), with_rank("0")},
      {"rank_past_64_bits", with_rank("18446744073709551616"), with_rank("0")},
      {"rank_fraction", with_rank("0.5"), with_rank("0")},
      {"rank_text", with_rank("\"0\""), with_rank("0")},
      {"rank_null", with_rank("null"), with_rank("0")},
      {"ranks_number", with_ranks("0"), with_ranks("[0]")},
      {"ranks_object", with_ranks("{}"), with_ranks("[]")},
      {"member_fraction", with_ranks("[0,1.5]"), with_ranks("[0,1]")},
      {"member_text", with_ranks("[0,\"1\"]"), with_ranks("[0,1]")},
      {"member_past_32_bits", with_ranks("[0,4294967297]"), with_ranks("[0,1]")},
      {"member_below_32_bits", with_ranks("[0,-4294967297]"), with_ranks("[0,-1]")},
      {"mode_number", with_mode("7"), with_mode("\"7\"")},
      {"mode_list", with_mode("[\"A\"]"), with_mode("\"A\"")},
      {"sequence_minus_one", numbered("-1"), numbered("0")},
      {"sequence_fraction", numbered("1.5"), numbered("1")},
      {"sequence_text", numbered("\"1\""), numbered("1")},
      {"sequence_past_63_bits", numbered("9223372036854775808"), numbered("9223372036854775807")},
      {"sequence_twice", numbered("8"), numbered("9")},
      {"sequence_on_some_lines", R"({"rank":2,"ranks":[0]})", numbered("9")},
      {"key_twice", R"({"rank":0,"ranks":[0],"rank":0})", with_rank("0")},
  };
  return list;
}

// Twelve lines, two of them blank, of ranks 0 and 2; what comes after them is the thirteenth.
std::string lines_before() {
  std::string text;
  for (int i = 0; i < 5; ++i) text += "{\"rank\":0,\"ranks\":[0]}\n";
  text += "\n \r\n";
  for (int i = 4; i < 9; ++i) text += fmt::format("{{\"rank\":2,\"ranks\":[0],\"sequence\":{}}}\n", i);
  return text;
}

void logs_rejected(Context& context) {
  const BadLine& line = *std::ranges::find_if(
      bad_lines(), [&](const BadLine& one) { return context.parameters().text("fault") == one.fault; });
  const auto question = [](const std::string& thirteenth) {
    return question_of_text(lines_before() + thirteenth + "\n{\"rank\":0,\"ranks\":[0]}\n", "members_only", 3);
  };
  // Rank 2 makes a group of rank 0, rank 1 is in none.
  report_words(problem_of(context.adapter(), kLint, question(bad_lines().front().good), [](const json& result) {
    return not_equal({{"stranger", 2, 0}, {"absent", 1, -1}}, findings_in(result, "warning"));
  }));
  report_words(problem_of(context.adapter(), kLint, question(line.good), [](const json& result) {
    return result.at("valid").is_boolean() ? "" : "no verdict: " + result.dump();
  }));
  const Answer answer = answer_to(context.adapter(), kLint, question(line.bad));
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 160));
  if (answer.kind != "invalid_argument") report_words(fmt::format("refused as '{}': {}", answer.kind, answer.message));
  expect_named(answer.message, {"13"});
}

// What a list of creations may not have either.
void lists_rejected(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  const auto made = [](int rank, const json& sequence) {
    return json{{"rank", rank}, {"ranks", {0, 1}}, {"sequence", sequence}};
  };
  json creations{made(0, 4), made(1, 4), made(1, 5)};
  const auto question = [&](const json& last) {
    json args{{"world_size", 2}, {"creations", creations}};
    args["creations"].push_back(last);
    if (fault == "list_and_log" && last != made(0, 5)) args["log"] = "{\"rank\":0,\"ranks\":[0]}";
    return args;
  };
  report_words(problem_of(context.adapter(), kLint, question(made(0, 5)),
                          [](const json& result) { return first_difference(true, result.at("valid"), "valid"); }));
  const json bad = fault == "sequence_twice" ? made(0, 4) : fault == "sequence_on_some" ? made(0, nullptr) : made(0, 6);
  const json args = question(bad);
  const Answer answer = answer_to(context.adapter(), kLint, args);
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 160));
  if (!refuses_bad_value(answer, args)) report_words(fmt::format("refused as '{}': {}", answer.kind, answer.message));
}

suite::Check log_check(std::string id, std::string verifies, suite::Axis axis, std::function<void(Context&)> body,
                       const std::string& form = "log") {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {std::move(axis)},
          .operations = {kLint},
          .options = options_of({{kLint, "form", {form}}}),
          .body = std::move(body)};
}

}  // namespace

void add_creation_log_checks(suite::Suite& suite) {
  suite::Axis logs{.name = "log", .values = {}}, faults{.name = "fault", .values = {}};
  for (const Written& log : written_logs()) logs.values.emplace_back(log.name);
  for (const BadLine& line : bad_lines()) faults.values.emplace_back(line.fault);
  suite.add(log_check("groups.lint.logs_read", "GROUP-038@25ee", logs, logs_read));
  suite.add(log_check("groups.lint.any_log", "GROUP-038@25ee", {"form", {"plain", "numbered", "spaced"}}, any_log));
  suite.add(log_check("groups.lint.logs_rejected", "GROUP-042@42f3", faults, logs_rejected));
  suite.add(log_check("groups.lint.lists_rejected", "GROUP-042@42f3",
                      {"fault", {"sequence_twice", "sequence_on_some", "list_and_log"}}, lists_rejected, "creations"));
}

}  // namespace plumbline::conformance
