// What the default may not change: the parameters that a program ends with, whatever the program.

#include <fmt/format.h>

#include "conformance/pass/answers.hpp"
#include "conformance/pass/evaluate.hpp"
#include "conformance/pass/oddities.hpp"
#include "conformance/pass/pass_checks.hpp"
#include "conformance/pass/question.hpp"
#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

std::string computes_the_same(const json& args, const json& result) {
  const Persistent before = evaluate(args.at("program"), args.at("rings"));
  return difference(before, evaluate(program_at(args, result, "final"), args.at("rings")));
}

std::string problem_of_values(suite::Adapter& adapter, const json& args) {
  return problem_of(adapter, kPass, args, [&](const json& result) { return computes_the_same(args, result); });
}

std::string problem_of_second_time(suite::Adapter& adapter, json args) {
  // What is nothing stays nothing: the first time must have kept the program's values.
  if (std::string problem = problem_of_values(adapter, args); !problem.empty()) return problem;
  return problem_of(adapter, kPass, args, [&](const json& result) -> std::string {
    args["program"] = program_at(args, result, "final");
    return problem_of(adapter, kPass, args, [&](const json& again) {
      return first_difference(args["program"].at("ops"), program_at(args, again, "final").at("ops"), "ops");
    });
  });
}

// ---- steps with something odd about them ----

struct OddStep {
  PassQuestion question;
  std::string oddity;
  int where = 0;  // a number that the oddity chooses by
  [[nodiscard]] json args() const {
    json args = question.args("plumbline");
    make_odd(args, oddity, where);
    return args;
  }
};

using Problem = std::string (*)(suite::Adapter& adapter, json args);

void judge_odd(Context& context, Problem problem) {
  constexpr int kTrials = 30;
  const std::string oddity = context.parameters().text("oddity");
  const Property<OddStep> property{
      .draw =
          [&](Random& random) {
            const std::string kind =
                random.one_of(std::vector<std::string>{"plain", "rings", "degrees", "touched", "types"});
            return OddStep{draw_step(kind, random), oddity, random.between(0, 1000)};
          },
      .problem = [&](const OddStep& step) { return problem(context.adapter(), step.args()); },
      .smaller =
          [](const OddStep& step) {
            std::vector<OddStep> list;
            for (PassQuestion& less : smaller_steps(step.question))
              list.push_back({std::move(less), step.oddity, step.where});
            return list;
          },
      .words =
          [](const OddStep& step) {
            return fmt::format("{} ({}), {}", step.oddity, step.where, step.question.words());
          }};
  report_words(search(property, context.seed(), kTrials));
}

void values_of_odd_steps(Context& context) {
  judge_odd(context, [](suite::Adapter& adapter, json args) { return problem_of_values(adapter, args); });
}

void second_time_of_odd_steps(Context& context) {
  judge_odd(context,
            [](suite::Adapter& adapter, json args) { return problem_of_second_time(adapter, std::move(args)); });
}

// ---- drawn ----

void judge_drawn(Context& context, Problem problem) {
  constexpr int kTrials = 30;
  const std::string kind = context.parameters().text("step");
  const Property<PassQuestion> property{
      .draw = [&](Random& random) { return draw_step(kind, random); },
      .problem = [&](const PassQuestion& question) { return problem(context.adapter(), question.args("plumbline")); },
      .smaller = smaller_steps,
      .words = [](const PassQuestion& question) { return question.words(); }};
  report_words(search(property, context.seed(), kTrials));
}

void values_of_steps(Context& context) {
  judge_drawn(context, [](suite::Adapter& adapter, json args) { return problem_of_values(adapter, args); });
}

void second_time_of_steps(Context& context) {
  judge_drawn(context,
              [](suite::Adapter& adapter, json args) { return problem_of_second_time(adapter, std::move(args)); });
}

}  // namespace

void add_pass_value_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, suite::Axis axis, void (*body)(Context&)) {
    suite.add({.id = std::string("pass.value.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {std::move(axis)},
               .operations = {kPass},
               .body = body});
  };
  const suite::Axis steps{"step",
                          {"plain", "types", "rings", "around_limit", "touched", "degrees", "many_rings", "higher",
                           "sharding", "unscaled", "forward"}};
  add("of_steps", "PASS-011@dc1d", steps, values_of_steps);
  add("of_odd_steps", "PASS-012@cac8", {"oddity", oddities()}, values_of_odd_steps);
  add("second_time", "PASS-013@db81", {"oddity", oddities()}, second_time_of_odd_steps);
  add("second_time_of_steps", "PASS-013@db81", steps, second_time_of_steps);
}

}  // namespace plumbline::conformance
