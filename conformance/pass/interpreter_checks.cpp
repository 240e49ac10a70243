// Programs are run before and after the pass: nothing that is trained may change.
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/pass/answers.hpp"
#include "conformance/pass/executing.hpp"
#include "conformance/pass/race_checks.hpp"
#include "conformance/pass/random_programs.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/program/pass.hpp"
#include "reference/program/program_json.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using program::Execution;
using program::Program;
using suite::Context;
using suite::Door;

namespace {

bool is_power_of_two(int number) { return (number & (number - 1)) == 0; }

// ---- an adapter's pass, run by us ----

constexpr int kSteps = 40;

void pass_keeps_values(Context& context) {
  const std::string kind = context.parameters().text("steps");
  const auto problem = [&](const DrawnStep& step) {
    const Program before = step.program();
    const json args{{"program", program::json_of(before)},
                    {"rings", program::json_of(step.rings())},
                    {"max_fuse_numel", step.limit}};
    return problem_of(context.adapter(), kPass, args, [&](const json& result) {
      const json& final = result.at("final");
      const Program after = final.contains("same_as") ? before : program::program_of_json(final);
      // A third is no float32: only with powers of two does it not matter where a factor stands.
      return difference_in_runs(before, after, step.rings(),
                                {.ranks = step.ranks, .bit_for_bit = is_power_of_two(step.ranks)});
    });
  };
  report_words(search<DrawnStep>({.draw = [&](Random& random) { return draw_training_step(kind, random); },
                                  .problem = problem,
                                  .smaller = smaller_training_steps,
                                  .words = [](const DrawnStep& step) { return words_of(step.program()); }},
                                 context.seed(), kSteps));
}

// ---- the reference's pass, run over a backend ----

DrawnStep step_named(const std::string& kind, int ranks) {
  DrawnStep step;
  step.ranks = ranks;
  step.optimizer = "momentum";
  for (int i = 0; i < 4; ++i) step.layers.push_back({.has_bias = i % 2 == 0});
  if (kind == "tensor_parallel") step.layers[1].tensor_parallel = step.layers[2].tensor_parallel = true;
  if (kind == "averaged")
    for (DrawnLayer& layer : step.layers) layer.is_averaged = true;
  if (kind == "two_degrees") step.layers[0].over_half = step.layers[3].over_half = true;
  if (kind == "groups") step.limit = 20;
  return step;
}

double tolerance_of(Context& context) {
  // Where sums of parts and sums of the whole may add in another order, up to the rounding of a few float32.
  return context.capabilities().has(comm::Capability::rank_order) && is_power_of_two(context.size()) ? 0 : 1e-5;
}

Execution run_over(Context& context, const Program& program, const program::Rings& rings) {
  const program::Rings mine = program::rings_of_rank(rings, context.rank(), context.size());
  return execute(program, mine, context.world());
}

void equal_over_a_backend(Context& context) {
  const DrawnStep step = step_named(context.parameters().text("step"), context.size());
  const Program before = step.program();
  program::PassOptions options;
  options.max_fuse_numel = step.limit;
  const program::PassResult result = apply_data_parallel_pass(before, step.rings(), options);
  EXPECT_NE(result.program, before) << "PASS-086: there was nothing to do";
  EXPECT_EQ(difference_of(before, run_over(context, before, step.rings()),
                          run_over(context, result.program, step.rings()), tolerance_of(context)),
            "")
      << "PASS-086: before the pass and after it";
}

// The same of an adapter's pass.
void outside_pass_over_ranks(Context& context) {
  const int ranks = static_cast<int>(context.parameters().number("ranks"));
  const DrawnStep step = step_named(context.parameters().text("step"), ranks);
  const Program before = step.program();
  const json args{
      {"program", program::json_of(before)}, {"rings", program::json_of(step.rings())}, {"max_fuse_numel", step.limit}};
  report_words(problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
    const json& final = result.at("final");
    if (final.contains("same_as")) return "there is nothing that it does";
    return difference_in_runs(before, program::program_of_json(final), step.rings(),
                              {.ranks = ranks, .bit_for_bit = is_power_of_two(ranks)});
  }));
}

// What a step must give, computed without a program: each rank's own gradients, then their mean over the ranks.
void gradients_are_means(Context& context) {
  const DrawnStep step = step_named("plain", context.size());
  DrawnStep alone = step;
  for (DrawnLayer& layer : alone.layers) layer.is_reduced = false, layer.has_bias = false;
  DrawnStep together = step;
  for (DrawnLayer& layer : together.layers) layer.has_bias = false;
  const Execution mine = run_over(context, alone.program(), alone.rings());
  const Execution mean = run_over(context, together.program(), together.rings());
  for (const auto& [parameter, gradient] : mine.gradients) {
    std::vector<double> sum = gradient;
    const comm::Buffer values{sum.data(), static_cast<std::int64_t>(sum.size()), comm::DType::f64, {}};
    context.world().all_reduce(values, values, comm::ReduceOp::sum);
    for (std::size_t i = 0; i < sum.size(); ++i)
      EXPECT_NEAR(mean.gradients.at(parameter)[i], sum[i] / context.size(), 1e-6)
          << "PASS-087: gradient of " << parameter << ", element " << i;
  }
}

// The gradients of a program that ranks run, and the means of what they compute alone: the first that differs.
std::string difference_from_means(const Program& alone, const Program& together, const program::Rings& rings,
                                  int ranks) {
  std::string problem;
  comm::run_ranks(ranks,
                  [&](comm::Communicator& world) {
                    const program::Rings mine = program::rings_of_rank(rings, world.rank(), ranks);
                    const Execution own = execute(alone, mine, world), got = execute(together, mine, world);
                    for (const auto& [parameter, gradient] : own.gradients) {
                      std::vector<double> sum = gradient;
                      world.all_reduce(comm::Buffer::of(sum), comm::Buffer::of(sum), comm::ReduceOp::sum);
                      const std::vector<double>& found = got.gradients.at(parameter);
                      for (std::size_t i = 0; i < sum.size() && world.rank() == 0 && problem.empty(); ++i)
                        if (!(std::abs(found.at(i) - sum[i] / ranks) <= 1e-6))
                          problem = fmt::format("the gradient of {}, element {}, is {}; the mean is {}", parameter, i,
                                                found[i], sum[i] / ranks);
                    }
                  },
                  {.timeout = std::chrono::seconds(5), .cores = 1});  // ranks that wait let others run
  return problem;
}

// An adapter's pass, run by us: what it leaves gives means.
void passed_gradients_are_means(Context& context) {
  const auto ranks = static_cast<int>(context.parameters().number("ranks"));
  DrawnStep together = step_named(context.parameters().text("step"), ranks);
  for (DrawnLayer& layer : together.layers) layer.has_bias = false;
  DrawnStep alone = together;
  for (DrawnLayer& layer : alone.layers) layer.is_reduced = false;
  const json args{{"program", program::json_of(together.program())},
                  {"rings", program::json_of(together.rings())},
                  {"max_fuse_numel", together.limit}};
  report_words(problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
    const json& final = result.at("final");
    if (final.contains("same_as")) return "there is nothing that it does";
    return difference_from_means(alone.program(), program::program_of_json(final), together.rings(), ranks);
  }));
}

// Members of a fused variable get the sums of what was in them, and lie apart.
void members_get_their_sums(Context& context) {
  const auto count = static_cast<int>(context.parameters().number("members"));
  Program program;
  std::vector<std::string> members;
  const auto op = [](std::string type, program::Slots in, program::Slots out) {
    return program::Op{.type = std::move(type), .inputs = std::move(in), .outputs = std::move(out), .role = 1};
  };
  for (int i = 0; i < count; ++i) members.push_back("g" + std::to_string(i));
  program.ops.push_back(op("coalesce_tensor", {{"Input", members}}, {{"Output", members}, {"FusedOutput", {"all"}}}));
  program.ops.back().attributes = {{"copy_data", false}, {"use_align", true}};
  for (int i = 0; i < count; ++i) {
    program.variables[members[static_cast<std::size_t>(i)]] = {.shape = {3 + 61LL * i}};
    program.ops.push_back(op("fill_constant", {}, {{"Out", {members[static_cast<std::size_t>(i)]}}}));
    program.ops.back().attributes = {{"value", static_cast<double>(i + 1)}};
  }
  program.variables["all"] = {.shape = {}};
  program.ops.push_back(op("all_reduce", {{"x", {"all"}}}, {{"out", {"all"}}}));
  program.ops.back().ring = 12;
  program.ops.back().reduction = context.parameters().text("op") == "avg" ? comm::ReduceOp::avg : comm::ReduceOp::sum;
  const program::Rings rings = step_named("plain", context.size()).rings();
  const Execution run = run_over(context, program, rings);
  const double times = context.parameters().text("op") == "avg" ? 1 : context.size();
  for (int i = 0; i < count; ++i)
    for (const double value : run.variables.at(members[static_cast<std::size_t>(i)]))
      ASSERT_EQ(value, times * (i + 1)) << "PASS-088: member " << i;
}

}  // namespace

void add_interpreter_checks(suite::Suite& suite) {
  suite.add({.id = "pass.runs.pass_keeps_values",
             .verifies = {"PASS-085@b87c"},
             .door = Door::adapter,
             .axes = {{"steps", kinds_of_steps()}},
             .operations = {kPass},
             .limit = std::chrono::seconds(120),
             .body = pass_keeps_values});
  suite.add(
      {.id = "pass.runs.equal_over_a_backend",
       .verifies = {"PASS-086@7829"},
       .axes = {{"step", {"plain", "groups", "tensor_parallel", "averaged", "two_degrees"}}, suite::worlds({2, 3, 4})},
       .body = equal_over_a_backend});
  suite.add({.id = "pass.runs.outside_pass_over_ranks",
             .verifies = {"PASS-086@7829"},
             .door = Door::adapter,
             .axes = {{"step", {"plain", "groups", "tensor_parallel", "averaged", "two_degrees"}},
                      {"ranks", {"2", "3", "4"}}},
             .operations = {kPass},
             .body = outside_pass_over_ranks});
  suite.add({.id = "pass.runs.gradients_are_means",
             .verifies = {"PASS-087@6568"},
             .axes = {suite::worlds({1, 2, 3, 4})},
             .body = gradients_are_means});
  suite.add({.id = "pass.runs.passed_gradients_are_means",
             .verifies = {"PASS-087@6568"},
             .door = Door::adapter,
             .axes = {{"step", {"plain", "groups"}}, {"ranks", {"2", "3"}}},
             .operations = {kPass},
             .body = passed_gradients_are_means});
  suite.add({.id = "pass.runs.members_get_their_sums",
             .verifies = {"PASS-088@8224"},
             .axes = {{"members", {"2", "5"}}, {"op", {"sum", "avg"}}, suite::worlds({1, 2, 3})},
             .body = members_get_their_sums});
}

}  // namespace plumbline::conformance
