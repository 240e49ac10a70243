// Recorded programs are ordered and compute the same before the pass and after it; and which of Paddle's own results
// race.
#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/pass/answers.hpp"
#include "conformance/pass/executing.hpp"
#include "conformance/pass/race_checks.hpp"
#include "conformance/pass/recorded_programs.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/race_check.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using program::Program;
using program::Rings;
using suite::Context;
using suite::Door;

namespace {

template <class Judge>
void judge_recorded(Context& context, const Judge& judge) {
  const json record = recorded("pass", context.parameters().text("programs"));
  for (const json& one : record.at("cases")) {
    if (is_refused_by_all(one)) continue;
    if (const std::string problem = judge(one, record); !problem.empty())
      report_words(one.at("case").get<std::string>() + ": " + problem);
  }
}

// ---- order ----

std::string race_in(const Program& program, const char* when) {
  const auto races = find_races(program);
  return races.empty() ? "" : fmt::format("'{}' races {} the pass: {}", races[0].variable, when, races[0].why);
}

void stay_ordered(Context& context) {
  judge_recorded(context, [&](const json& one, const json& record) {
    const json args = question_of_recorded(one, record, "plumbline");
    if (std::string words = race_in(program::program_of_json(args.at("program")), "before"); !words.empty())
      return words;
    return problem_of(context.adapter(), kPass, args, [&](const json& result) {
      const json after = program_at(args, result, "final");
      const std::string lost = problem_of_lost_ops(args.at("program"), after);
      return lost.empty() ? race_in(program::program_of_json(after), "after") : lost;
    });
  });
}

// ---- what Paddle's pass leaves ----

struct Left {
  std::set<std::string> variables;  // that race
  std::string why;
};

// All that race, of those that it answers.
const std::map<std::string, Left>& left_by_paddle() {
  static const std::map<std::string, Left> list{
      {"higher_dp2",
       {{"grad/grad/linear_0.b_0@GRAD", "grad/grad/linear_0.w_0@GRAD@RENAME@block0@0",
         "grad/grad/linear_0.w_0@GRAD@RENAME@block0@1", "grad/grad/linear_1.b_0@GRAD",
         "grad/grad/linear_1.w_0@GRAD@RENAME@block0@0", "grad/grad/linear_1.w_0@GRAD@RENAME@block0@1"},
        "its reductions leave the calculation stream, are not grouped, and nobody waits for them"}},
      {"triple_grad_in_sub_block",
       {{"linear_0.b_0@GRAD", "linear_0.w_0@GRAD", "linear_1.b_0@GRAD", "linear_1.w_0@GRAD", "linear_2.b_0@GRAD",
         "linear_2.w_0@GRAD"},
        "the same, for an op of another block"}},
      {"reader_forward_role",
       {{"linear_2.b_0@GRAD", "linear_2.w_0@GRAD", "linear_3.b_0@GRAD", "linear_3.w_0@GRAD", "linear_4.b_0@GRAD",
         "linear_4.w_0@GRAD"},
        "dependencies end at the last op of the forward, which stands in the backward"}}};
  return list;
}

json final_of_recorded(const json& one, const json& record) {
  json told{{"final", expanded_program(one.at("final"), record)}, {"stages", json::object()}};
  const json stages = one.value("stages", json::object());
  for (const auto& [name, stage] : stages.items()) told["stages"][name] = expanded_program(stage, record);
  return program_at(question_of_recorded(one, record, "paddle"), told, "final");
}

void races_of_paddle(Context& context) {
  judge_recorded(context, [&](const json& one, const json& record) {
    const json args{{"program", final_of_recorded(one, record)}, {"rings", one.at("rings")}};
    const auto left = left_by_paddle().find(one.at("case").get<std::string>());
    return problem_of(context.adapter(), kRaces, args, [&](const json& result) -> std::string {
      std::set<std::string> raced, expected;
      for (const json& race : result.at("races")) raced.insert(race.at("variable").get<std::string>());
      if (left != left_by_paddle().end()) expected = left->second.variables;
      if (raced == expected) return {};
      return fmt::format("[{}] race, it is [{}]{}", fmt::join(raced, ", "), fmt::join(expected, ", "),
                         expected.empty() ? "" : ": " + left->second.why);
    });
  });
}

// ---- runs ----

// Programs with more elements differ from smaller ones in sizes alone.
constexpr std::int64_t kMostElements = 200'000;

std::int64_t elements_of(const Program& program) {
  std::int64_t sum = 0;
  for (const auto& [name, variable] : program.variables) {
    std::int64_t elements = 1;
    for (const std::int64_t dimension : variable.shape) elements *= std::max<std::int64_t>(dimension, 1);
    sum += elements;
  }
  return sum;
}

// Whether factors are powers of two and no type loses bits of what is scaled by them.
bool is_exact(const Program& program, const Rings& rings) {
  return std::ranges::all_of(rings, [](const auto& ring) { return std::has_single_bit(ring.second.size()); }) &&
         std::ranges::none_of(program.variables,
                              [](const auto& one) { return one.second.dtype == program::DataType::f16; });
}

int rank_of(const json& args) {
  const json rank = args.at("options").value("global_rank", json(0));
  return rank.is_number_integer() ? std::max(rank.get<int>(), 0) : 0;
}

void compute_the_same(Context& context) {
  judge_recorded(context, [&](const json& one, const json& record) -> std::string {
    const json args = question_of_recorded(one, record, "plumbline");
    const Program before = program::program_of_json(args.at("program"));
    if (is_computed_elsewhere(args.at("program")) || elements_of(before) > kMostElements) return {};
    const Rings rings = program::rings_of_json(args.at("rings"));
    return problem_of(context.adapter(), kPass, args, [&](const json& result) {
      const Program after = program::program_of_json(program_at(args, result, "final"));
      return difference_in_runs(
          before, after, rings,
          {.ranks = world_size_of(before, rings), .rank = rank_of(args), .bit_for_bit = is_exact(before, rings)});
    });
  });
}

}  // namespace

void add_recorded_run_checks(suite::Suite& suite) {
  const suite::Axis answered{"programs", files_of_answered()};
  suite::Axis all = answered;
  all.values.emplace_back("refused");
  const auto add = [&](const char* name, const char* requirement, const suite::Axis& programs, const char* operation,
                       void (*body)(Context&)) {
    suite.add({.id = std::string("pass.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {programs},
               .operations = {operation},
               .limit = std::chrono::seconds(120),
               .body = body});
  };
  add("races.recorded", "PASS-089@3f8c", all, kPass, stay_ordered);
  add("races.recorded_by_paddle", "PASS-090@5392", answered, kRaces, races_of_paddle);
  add("runs.recorded", "PASS-091@fa79", all, kPass, compute_the_same);
}

}  // namespace plumbline::conformance
