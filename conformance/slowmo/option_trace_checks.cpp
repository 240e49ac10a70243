// Options of runs that average parameters, asked of an adapter: each as it is given, what a single node leaves out, an
// environment that is rejected, and parameters without gradients.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/slowmo/slowmo_training.hpp"
#include "conformance/slowmo/trace_runs.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr const char* kTrace = "slowmo.trace";

// That of the case's check.
std::string convention_of(const Context& context) { return context.parameters().text("convention"); }

// LocalSGD that averages every third step.
TracedRun third_step_run() {
  TracedRun run = traced_run(2, 1);
  run.options["localsgd_frequency"] = run.right.average_every = 3;
  return run;
}

// The question is refused as a bad value, and the message has these words.
void report_refusal(Context& context, const json& args, const std::vector<std::string>& words) {
  const Answer answer = answer_to(context.adapter(), kTrace, args);
  const std::string missing = missing_words(answer.message, words);
  if (!refuses_bad_value(answer, args))
    report_words(answer.is_refused() ? fmt::format("rejected as '{}': {}", answer.kind, answer.message)
                                     : "it must be rejected, and was answered");
  else if (!missing.empty())
    report_words(fmt::format("{} is not in the message '{}'", missing, answer.message));
}

// Numbers that are none of the defaults: the values after each step are those of a run with exactly these.
void options_as_given(Context& context) {
  const bool is_slow = context.parameters().text("slow") == "yes";
  TracedRun run = traced_run(3, 1);
  run.training.steps = 11;
  run.options.update({{"localsgd_frequency", 2},
                      {"slowmo_momentum", is_slow ? 0.25 : 0.0},
                      {"slowmo_lr", is_slow ? 0.75 : 1.0},
                      {"slowmo_frequency", 5},
                      {"memory_efficient", context.parameters().text("memory") == "efficient"},
                      {"num_shards", 2}});
  run.right.average_every = 2;
  if (is_slow) run.right.slow_every = 5, run.right.beta = 0.25, run.right.alpha = 0.75;
  report_words(problem_of_traced(context.adapter(), run));
}

// Nothing is exchanged between nodes, and nothing overlaps: there is one. Ranks start apart, and stay apart.
void single_node_of_fairscale(Context& context) {
  const std::string& base = context.parameters().text("base");
  json args{
      {"convention", "fairscale"}, {"world_size", 3},         {"nprocs_per_node", 3},       {"base", base},
      {"slowmo_momentum", 0},      {"localsgd_frequency", 1}, {"optimizer", {{"lr", 0.5}}}, {"ranks", json::array()},
      {"steps", {json::array()}}};
  for (int rank = 0; rank < 3; ++rank) {
    args["ranks"].push_back({{"init_params", {1.0 * rank, 8.0 - rank}}});
    args["steps"][0].push_back({{"grads", {0.0, 0.0}}});
  }
  report_words(problem_of(context.adapter(), kTrace, args, [](const json& result) -> std::string {
    for (int rank = 0; rank < 3; ++rank) {
      const json& row = row_at(result, 0, rank);
      const json expected{{"params", {1.0 * rank, 8.0 - rank}}};
      if (std::string words = first_difference(expected, row, fmt::format("rank {}", rank)); !words.empty())
        return words;
    }
    return {};
  }));
}

void options_out_of_bounds(Context& context) {
  const std::string& what = context.parameters().text("what");
  TracedRun run = third_step_run();
  report_words(problem_of_traced(context.adapter(), run));
  if (what == "begin") run.options["localsgd_begin"] = -1;
  report_refusal(context, traced_question(run), {"-1"});
}
void options_beyond_fairscale(Context& context) {
  TracedRun run = third_step_run();
  run.options["convention"] = "fairscale";
  report_words(problem_of_traced(context.adapter(), run));
  const bool begins = context.parameters().text("what") == "begin";
  if (begins)
    run.options["localsgd_begin"] = 17;
  else
    run.options["outer"] = "slowmo";
  report_refusal(context, traced_question(run), begins ? std::vector<std::string>{"17"} : std::vector<std::string>{});
}

// ---- the environment ----

void blocking_wait_of_the_environment(Context& context) {
  const std::string& value = context.parameters().text("value");
  TracedRun run = third_step_run();
  run.options.update({{"convention", convention_of(context)}, {"blocking_wait", "0"}});
  report_words(problem_of_traced(context.adapter(), run));
  if (value == "0") return;
  run.options["blocking_wait"] = value;
  report_refusal(context, traced_question(run), {"NCCL_BLOCKING_WAIT", value});
}

// ---- parameters without gradients ----

// Four parameters, which the first step leaves different on each rank. The backward before the average makes gradients
// for all of them, for some, or for none.
void averages_without_gradients(Context& context) {
  const std::string& gradients = context.parameters().text("gradients");
  const auto ranks = static_cast<int>(context.parameters().number("ranks"));
  const json unused = gradients == "all" ? json::array() : gradients == "none" ? json{0, 1, 2, 3} : json{1, 2};
  json args{{"convention", convention_of(context)},
            {"world_size", ranks},
            {"nprocs_per_node", 1},
            {"slowmo_momentum", 0},
            {"localsgd_frequency", 2},
            {"optimizer", {{"lr", 0.5}}},
            {"dims", {1, 1, 1}},
            {"ranks", json::array()},
            {"steps", {json::array(), json::array()}}};
  for (int rank = 0; rank < ranks; ++rank) {
    args["ranks"].push_back({{"init_params", {0.0, 0.0, 0.0, 3.0}}});
    args["steps"][0].push_back({{"grads_local", {-2.0 * rank, -20.0 * rank, -200.0 * rank, 2.0 * rank}}});
    args["steps"][1].push_back({{"grads_local", {0.0, 0.0, 0.0, 0.0}}, {"unused", unused}});
  }
  const double mean = (ranks - 1) / 2.0;
  const SlowMoValues expected{mean, 10 * mean, 100 * mean, 3 - mean};
  report_words(problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
    for (int rank = 0; rank < ranks; ++rank)
      if (std::string words =
              difference_of(expected, row_at(result, 1, rank).at("params").get<SlowMoValues>(), kTracedTolerance);
          !words.empty())
        return fmt::format("rank {} after an average: {}", rank, words);
    return {};
  }));
}

}  // namespace

void add_slowmo_option_trace_checks(suite::Suite& suite) {
  const auto add = [&](const std::string& name, const char* requirement, std::vector<suite::Axis> axes,
                       void (*body)(Context&), std::vector<AskedOption> options = {},
                       const char* convention = "plumbline") {
    options.insert(options.end(), {{kTrace, "optimizer.name", {"sgd"}}, {kTrace, "mixing", {"uniform"}}});
    suite.add({.id = "slowmo.trace." + name,
               .verifies = {requirement},
               .door = suite::Door::adapter,
               .axes = std::move(axes),
               .operations = {kTrace},
               .convention = convention,
               .options = options_of(std::move(options)),
               .body = body});
  };
  const AskedOption local{kTrace, "base", {"localsgd"}};
  const auto field = [](const char* name) { return AskedOption{kTrace, "fields", {name}}; };
  add("options_as_given", "SLOWMO-051@f9e2", {{"slow", {"yes", "no"}}, {"memory", {"efficient", "whole"}}},
      options_as_given, {local});
  add("single_node_of_fairscale", "SLOWMO-051@f9e2", {{"base", {"localsgd", "sgp"}}}, single_node_of_fairscale,
      {{kTrace, "base", {}, "base"}}, "fairscale");
  add("options_out_of_bounds", "SLOWMO-051@f9e2", {{"what", {"begin"}}}, options_out_of_bounds,
      {local, field("localsgd_begin")});
  add("options_beyond_fairscale", "SLOWMO-051@f9e2", {{"what", {"begin", "outer"}}}, options_beyond_fairscale,
      {local,
       {kTrace, "fields", {}, "what", {{"begin", {"localsgd_begin"}}}},
       {kTrace, "outer", {}, "what", {{"outer", {"slowmo"}}}}},
      "fairscale");
  for (const char* convention : {"plumbline", "fairscale"}) {
    const suite::Axis by{"convention", {convention}};
    const std::string suffix = convention == std::string_view("plumbline") ? "" : "_of_fairscale";
    add("blocking_wait" + suffix, "SLOWMO-114@c8f0", {by, {"value", {"0", "1", "2", "yes"}}},
        blocking_wait_of_the_environment, {local, field("blocking_wait")}, convention);
    add("without_gradients" + suffix, "SLOWMO-046@35f2",
        {by, {"gradients", {"all", "some", "none"}}, {"ranks", {"2", "3"}}}, averages_without_gradients,
        {local, field("steps.unused")}, convention);
  }
}

}  // namespace plumbline::conformance
