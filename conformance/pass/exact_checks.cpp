// Small programs of every irregular form, and just what the pass makes of each: nothing that it could do is left, and
// nothing is added that orders nothing.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "conformance/pass/answers.hpp"
#include "conformance/pass/evaluate.hpp"
#include "conformance/pass/exact_steps.hpp"
#include "conformance/pass/program_text.hpp"
#include "conformance/pass/race_checks.hpp"
#include "conformance/support/asking.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/race_check.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using program::Program;
using program::Rings;
using suite::Context;
using suite::Door;

namespace {

const Rings& rings_of_steps() {
  static const Rings rings{{0, {0, 1, 2, 3}}, {11, {0, 1}}, {12, {0, 1}}, {13, {0, 1}}, {14, {0, 1, 2, 3}}, {15, {0}}};
  return rings;
}

// "$0" is the fused variable of the last group, "$1" that of the one before it.
std::string with_fused_names(std::string text) {
  for (const char group : {'0', '1', '2'})
    for (std::size_t at = 0; (at = text.find(std::string{'$', group}, at)) != std::string::npos;)
      text.replace(at, 2, fmt::format("coalesce_grad_{}_0", group));
  return text;
}

json args_of(const ExactStep& step, const std::string& convention) {
  json args{{"program", program::json_of(program_of_text(step.before))},
            {"rings", program::json_of(rings_of_steps())},
            {"options", json::object()},
            {"convention", convention}};
  if (step.with) step.with(args);
  return args;
}

// What holds whatever the pass does: values, and order.
std::string problem_of_change(const json& args, const json& after) {
  const json& rings = args.at("rings");
  if (std::string words = difference(evaluate(args.at("program"), rings), evaluate(after, rings)); !words.empty())
    return words;
  if (!find_races(program::program_of_json(args.at("program"))).empty()) return "the program races before the pass";
  const auto races = find_races(program::program_of_json(after));
  return races.empty() ? "" : "after the pass: " + races.front().why;
}

void judge_exact(Context& context, const ExactSteps& steps, const std::string& convention) {
  const ExactStep& step = steps.at(context.parameters().text("step"));
  const json args = args_of(step, convention);
  report_words(problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
    const json final = program_at(args, result, "final");
    const Program after = program::program_of_json(final);
    const Program expected = program_of_text(with_fused_names(step.after.empty() ? step.before : step.after));
    if (std::string words = difference_of_lines(expected, after); !words.empty()) return words;
    for (const auto& [name, variable] : after.variables)
      if (variable.placement) return fmt::format("'{}' lies on a mesh, and nothing did", name);
    if (std::string words = first_difference(step.told, result); !step.told.is_null() && !words.empty()) return words;
    return step.is_compared && convention == "plumbline" ? problem_of_change(args, final) : "";
  }));
}

void refused_as_paddle(Context& context) {
  const RefusedStep& step = refused_paddle().at(context.parameters().text("step"));
  const auto refusal = refusal_of(context.adapter(), args_of({.before = step.before, .with = step.with}, "paddle"));
  if (!refusal) return report_words("it is answered");
  if (refusal->stage != step.stage || refusal->exception != step.exception)
    report_words(fmt::format("it is refused at stage '{}' with class '{}', expected '{}' and '{}': {}", refusal->stage,
                             refusal->exception, step.stage, step.exception, refusal->message));
}

template <class Steps>
std::vector<std::string> names_of(const Steps& steps) {
  std::vector<std::string> names;
  for (const auto& [name, step] : steps) names.push_back(name);
  return names;
}

template <const ExactSteps& (*steps)()>
void exact(Context& context) {
  judge_exact(context, steps(), "plumbline");
}

template <const ExactSteps& (*steps)()>
void exact_as_paddle(Context& context) {
  judge_exact(context, steps(), "paddle");
}

}  // namespace

void add_exact_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> steps,
                       void (*body)(Context&), const char* convention = "plumbline") {
    suite.add({.id = std::string("pass.exact.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {{"step", std::move(steps)}},
               .operations = {kPass},
               .convention = convention,
               .body = body});
  };
  add("scalings", "PASS-095@80d2", names_of(exact_scalings()), exact<exact_scalings>);
  add("optimizers", "PASS-095@80d2", names_of(exact_optimizers()), exact<exact_optimizers>);
  add("waits", "PASS-095@80d2", names_of(exact_waits()), exact<exact_waits>);
  add("groups", "PASS-095@80d2", names_of(exact_groups()), exact<exact_groups>);
  add("paddle", "PASS-071@b47d", names_of(exact_paddle()), exact_as_paddle<exact_paddle>, "paddle");
  add("refused_paddle", "PASS-072@aaac", names_of(refused_paddle()), refused_as_paddle, "paddle");
}

}  // namespace plumbline::conformance
