// What an adapter says of schedules that it rejects: the numbers and names that a reader needs to find the fault.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

constexpr const char* kSaidSimulate = "schedules.simulate";
constexpr const char* kSaidLower = "schedules.lower";
constexpr const char* kSaidLoad = "schedules.load_csv";
constexpr const char* kSaidCheck = "schedules.check";

using SaidRows = std::vector<std::string>;

json placed_rows(const char* field, const SaidRows& rows, const std::vector<int>& stages) {
  return {{field, rows}, {"stage_to_rank", stages}, {"num_stages", stages.size()}};
}

// What a message lacks, or "".
using WhatIsMissing = std::function<std::string(const std::string& message)>;

// "" when the question is refused as a bad value, with a message that lacks nothing.
std::string problem_of_said(suite::Adapter& adapter, const std::string& op, const json& args,
                            const WhatIsMissing& missing_in) {
  const Answer answer = answer_to(adapter, op, args);
  if (!answer.is_refused()) return "answered: " + answer.result.dump().substr(0, 160);
  if (!refuses_bad_value(answer, args)) return fmt::format("refused as '{}': {}", answer.kind, answer.message);
  const std::string missing = missing_in(answer.message);
  return missing.empty() ? "" : fmt::format("{} is not in the message '{}'", missing, answer.message);
}

// Each of the lists has one number or more that say the same; which one does, and in what order, is the adapter's.
std::string missing_numbers_of(const std::string& message, const std::vector<std::vector<std::int64_t>>& lists) {
  const std::vector<std::int64_t> found = numbers_in(message);
  for (const std::vector<std::int64_t>& same : lists)
    if (std::ranges::find_first_of(found, same) == found.end()) return fmt::format("{}", fmt::join(same, " or "));
  return "";
}

// What a row with messages has of computations: cells of a stage, a letter and a micro-batch.
std::string computations_in_row(const std::string& row) {
  static const std::regex computation("(^|,)([0-9]+[FBIW][0-9]+)(?=,|$)");
  std::string found;
  for (std::sregex_iterator one(row.begin(), row.end(), computation), end; one != end; ++one)
    found += (found.empty() ? "" : ",") + (*one)[2].str();
  return found;
}

// Of rows that were lowered: those that were asked about, with messages between.
std::string problem_of_lowered(const json& result, const SaidRows& asked) {
  const json& rows = result.at("send_recv");
  if (rows.size() != asked.size()) return fmt::format("{} rows, asked were {}", rows.size(), asked.size());
  for (std::size_t rank = 0; rank < asked.size(); ++rank) {
    const std::string got = computations_in_row(rows[rank].get<std::string>());
    if (got != asked[rank]) return fmt::format("row {} computes {}, asked was {}", rank, got, asked[rank]);
  }
  return "";
}

// Ranks in a row, the last of which turns the micro-batches round; or a right order.
SaidRows rows_of_chain(int ranks, bool is_right) {
  SaidRows rows;
  for (int rank = 0; rank < ranks; ++rank)
    rows.push_back(rank + 1 == ranks && !is_right ? fmt::format("{0}F0,{0}F1,{0}B1,{0}B0", rank)
                                                  : fmt::format("{0}F0,{0}B0,{0}F1,{0}B1", rank));
  return rows;
}

// All ranks wait: the last one for the rank before it in its second forward, others in their first backward.
std::string missing_waiter(const std::string& message, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    if (has_word(message, std::to_string(rank)) &&
        has_word(message, fmt::format("{}{}", rank, rank + 1 == ranks ? "F1" : "B0")))
      return "";
  return "a rank that waits, with its computation,";
}

void said_who_waits(Context& context) {
  const bool simulates = context.parameters().text("by") == "simulate";
  const int ranks = static_cast<int>(context.parameters().number("ranks"));
  std::vector<int> stages;
  for (int rank = 0; rank < ranks; ++rank) stages.push_back(rank);
  const auto question = [&](bool is_right) {
    json args = placed_rows(simulates ? "ranks" : "compute_only", rows_of_chain(ranks, is_right), stages);
    if (simulates) args["durations"] = {{"F", 1}, {"B", 2}};
    return args;
  };
  const std::string op = simulates ? kSaidSimulate : kSaidLower;
  report_words(problem_of(context.adapter(), op, question(true), [&](const json& result) -> std::string {
    if (!simulates) return problem_of_lowered(result, rows_of_chain(ranks, true));
    if (result.at("start_times").size() != stages.size()) return "another number of rows of times";
    const auto got = result.at("makespan").get<double>();
    return got == 6.0 * ranks ? "" : fmt::format("the makespan is {}, it must be {}", got, 6.0 * ranks);
  }));
  report_words(problem_of_said(context.adapter(), op, question(false),
                               [&](const std::string& message) { return missing_waiter(message, ranks); }));
}

// Of a problem with a cycle: ranks 1 and 2 wait for each other, and others do not take part.
std::string problem_of_cycle(const json& cycle) {
  std::vector<int> ranks;
  for (const json& place : cycle) {
    ranks.push_back(place.at("rank").get<int>());
    const std::string action = place.at("action");
    if (!action.starts_with(std::to_string(ranks.back())))
      return fmt::format("rank {} has no {}", ranks.back(), action);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks == std::vector{1, 2} ? "" : "the cycle has ranks " + json(ranks).dump();
}

// Ranks 1 and 2 wait for each other, rank 0 for rank 1.
void said_of_cycles(Context& context) {
  const bool is_right = context.parameters().text("rows") == "right";
  json args = placed_rows(
      "ranks", {"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1", is_right ? "2F0,2B0,2F1,2B1" : "2F0,2F1,2B1,2B0"}, {0, 1, 2});
  args["microbatches"] = 2;
  report_words(problem_of(context.adapter(), kSaidCheck, args, [&](const json& result) -> std::string {
    if (result.at("valid") != is_right) return "valid is " + result["valid"].dump();
    if (is_right) return result.at("peak_activations") == json{2, 1, 1} ? "" : result["peak_activations"].dump();
    std::string words = "no problem has a cycle";
    for (const json& problem : result.at("problems")) {
      if (problem.at("message").get<std::string>().find('\n') != std::string::npos)
        return "a message has several lines";
      if (!problem.contains("cycle") || !problem["cycle"].is_array() || problem["cycle"].empty()) continue;
      words = problem_of_cycle(problem["cycle"]);
      if (!words.empty()) break;
    }
    return words;
  }));
}

void said_of_cells(Context& context) {
  const std::string& cell = context.parameters().text("cell");
  const auto question = [](const SaidRows& rows) { return json{{"csv", rows}, {"pp", 2}, {"microbatches", 1}}; };
  report_words(problem_of(context.adapter(), kSaidLoad, question({"0F0,0B0", "1F0,1B0"}), [](const json& result) {
    return first_difference(json{0, 1}, result.at("result").at("stage_to_rank"), "stage_to_rank");
  }));
  if (cell == "right") return;
  report_words(problem_of_said(context.adapter(), kSaidLoad, question({"0F0,0B0", fmt::format("1F0,,{},1B0", cell)}),
                               [](const std::string& message) { return missing_numbers_of(message, {{2}, {3}}); }));
}

// A stage that there is not, of 3, in the fifth cell of an otherwise right row: what is concerned are the rank, 4 or 5
// as the place is counted, and the last stage or the number of stages.
void said_in_numbers(Context& context) {
  const bool is_of_0 = context.parameters().text("fault") == "stage_beyond_of_0";
  const std::vector<int> stages{0, 1, 1};
  const SaidRows right{"0F0,0F1,0B0,0B1", "1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1"};
  report_words(problem_of(context.adapter(), kSaidLower, placed_rows("compute_only", right, stages),
                          [&](const json& result) { return problem_of_lowered(result, right); }));
  const SaidRows wrong{is_of_0 ? "0F0,0F1,0B0,0B1,7F0" : right[0],
                       is_of_0 ? right[1] : "1F0,2F0,1F1,2F1,7F0,2B0,1B0,2B1,1B1"};
  report_words(problem_of_said(
      context.adapter(), kSaidLower, placed_rows("compute_only", wrong, stages),
      [&](const std::string& message) { return missing_numbers_of(message, {{is_of_0 ? 0 : 1}, {4, 5}, {2, 3}}); }));
}

}  // namespace

void add_schedule_error_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<std::string> operations, OperationsOfCase asks = {}) {
    suite.add({.id = std::string("schedules.said.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = std::move(operations),
               .asks = std::move(asks),
               .body = body});
  };
  add("who_waits", "SCHED-127@2a91", {{"by", {"simulate", "lower"}}, {"ranks", {"2", "3", "20"}}}, said_who_waits,
      {kSaidSimulate, kSaidLower}, operations_by("by", {{"simulate", {kSaidSimulate}}, {"lower", {kSaidLower}}}));
  add("cycles", "SCHED-130@9ced", {{"rows", {"right", "wrong"}}}, said_of_cycles, {kSaidCheck});
  add("cells", "SCHED-134@1fbf", {{"cell", {"right", "0X0", "F0", "0F", "0F-1", "0f0", "(0F0;0B0)"}}}, said_of_cells,
      {kSaidLoad});
  add("in_numbers", "SCHED-138@1dcf", {{"fault", {"stage_beyond", "stage_beyond_of_0"}}}, said_in_numbers,
      {kSaidLower});
}

}  // namespace plumbline::conformance
