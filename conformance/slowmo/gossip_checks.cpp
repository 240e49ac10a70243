// Push-sum between nodes: estimates, weights, what is conserved; and what the ranks of a node have of it.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/slowmo/slowmo_training.hpp"

namespace plumbline::conformance {

using slowmo::BaseAlgorithm;
using slowmo::SlowMoSteps;
using suite::Context;

namespace {

const SlowMoSteps& steps_of(Context& context) { return context.steps().of<SlowMoSteps>(); }

// Node 0 sends to node 1, others to node 0 and to the next one in turn: node 0 hears from many.
std::vector<std::vector<int>> hub_rows(int nodes) {
  std::vector<std::vector<int>> rows{{1 % nodes}};
  for (int node = 1; node < nodes; ++node) {
    rows.push_back({0});
    if ((node + 1) % nodes != 0) rows.back().push_back(node + 1);
  }
  return rows;
}
std::vector<std::vector<int>> ring_rows(int nodes) {
  std::vector<std::vector<int>> rows;
  for (int node = 0; node < nodes; ++node) rows.push_back({(node + 1) % nodes});
  return rows;
}

// One peer a round: what a node keeps, of each of `rows`, entry by entry in turn.
std::function<std::vector<SlowMoValues>(int)> matrix_of(const std::vector<std::vector<int>>& rows, bool skewed) {
  return [rows, skewed](int round) {
    std::vector<SlowMoValues> matrix(rows.size(), SlowMoValues(rows.size()));
    for (std::size_t node = 0; node < rows.size(); ++node) {
      const double kept = skewed ? 1.0 / static_cast<double>(2 + node % 3) : 0.5;
      const auto to = static_cast<std::size_t>(rows[node][static_cast<std::size_t>(round) % rows[node].size()]);
      matrix[node][node] += kept;
      matrix[to][node] += 1 - kept;
    }
    return matrix;
  };
}

struct Gossip {
  SlowMoTraining training;
  ExpectedSlowMoRun run;
};

// SGP over a graph of that name: "ring" is regular and lazy, "hub" is not, "skewed" is a ring with other shares.
Gossip gossip_over(const std::string& graph, int ranks, int ranks_per_node) {
  const int nodes = ranks / ranks_per_node;
  const auto rows = graph == "hub" ? hub_rows(nodes) : ring_rows(nodes);
  Gossip gossip;
  slowmo::Options& options = gossip.training.options;
  options.ranks_per_node = ranks_per_node;
  options.base = BaseAlgorithm::sgp;
  options.slow_momentum = 0;
  if (nodes > 1) options.graph = gossip::Graph(rows, 1, slowmo::Convention::plumbline, graph != "hub");
  if (graph == "skewed") options.mixing.kind = gossip::MixingKind::skewed;
  gossip.run = {.ranks = ranks, .ranks_per_node = ranks_per_node};
  if (nodes > 1) gossip.run.mixing = matrix_of(rows, graph == "skewed");
  return gossip;
}

Gossip gossip_in(Context& context) {
  const auto& parameters = context.parameters();
  return gossip_over(parameters.text("graph"), context.size(),
                     parameters.has("node") ? static_cast<int>(parameters.number("node")) : 1);
}

void estimates(Context& context) {
  const Gossip gossip = gossip_in(context);
  EXPECT_EQ(problem_of_run(context.world(), gossip.training, gossip.run, steps_of(context)), "") << "SLOWMO-020";
}

// The sum over the nodes changes by the gradients' steps alone.
void conserves(Context& context) {
  const Gossip gossip = gossip_in(context);
  const SlowMoRankResult trained = train_with_slowmo(context.world(), gossip.training, steps_of(context));
  for (std::size_t step = 0; step < trained.steps.size(); ++step) {
    double weight = trained.steps[step].weight;
    context.world().all_reduce({&weight, 1, comm::DType::f64}, {&weight, 1, comm::DType::f64}, comm::ReduceOp::sum);
    EXPECT_NEAR(weight, context.size(), 1e-12 * context.size()) << "SLOWMO-021: the sum of weights after step " << step;
    SlowMoValues seen = step == 0 ? initial_values(gossip.training) : trained.steps[step - 1].estimate();
    SlowMoValues before = step == 0 ? seen : trained.steps[step - 1].parameters;
    const SlowMoValues gradients = gradients_at(seen, context.rank(), static_cast<int>(step));
    SlowMoValues lost(before.size());
    for (std::size_t i = 0; i < lost.size(); ++i)
      lost[i] = trained.steps[step].parameters[i] - (before[i] - gossip.training.rate(0) * gradients[i]);
    const comm::Buffer sum{lost.data(), static_cast<std::int64_t>(lost.size()), comm::DType::f64};
    context.world().all_reduce(sum, sum, comm::ReduceOp::sum);
    EXPECT_EQ(difference_of(SlowMoValues(lost.size()), lost, 1e-12 * context.size()), "")
        << "SLOWMO-021: after step " << step;
  }
}

void inside_nodes(Context& context) {
  const Gossip gossip = gossip_in(context);
  EXPECT_EQ(problem_of_run(context.world(), gossip.training, gossip.run, steps_of(context)), "") << "SLOWMO-022";
}

void exact_average(Context& context) {
  Gossip gossip = gossip_in(context);
  slowmo::Options& options = gossip.training.options;
  const std::string& how = context.parameters().text("average");
  options.slow_momentum = 0.5;
  options.slow_frequency = 3;
  options.memory_efficient = how == "efficient";
  options.sgp_average_params = how == "whole";
  gossip.run.slow_every = 3;
  gossip.run.beta = 0.5;
  gossip.run.averages_at_slow_steps = how != "none";
  EXPECT_EQ(problem_of_run(context.world(), gossip.training, gossip.run, steps_of(context)), "") << "SLOWMO-023";
}

void complete_graph_averages(Context& context) {
  const int nodes = context.size();
  SlowMoTraining training;
  training.options.base = BaseAlgorithm::sgp;
  training.options.slow_momentum = 0;
  training.options.push_sum = context.parameters().text("algorithm") == "push_sum";
  if (nodes > 1) training.options.graph = gossip::Graph({.kind = gossip::GraphKind::complete, .nodes = nodes});
  const ExpectedSlowMoRun run{.ranks = nodes, .average_every = 1};
  EXPECT_EQ(problem_of_run(context.world(), training, run, steps_of(context)), "") << "SLOWMO-024";
}

void evaluation_does_not_gossip(Context& context) {
  Gossip gossip = gossip_in(context);
  gossip.training.evaluates_behind = [](int step) { return step % 2 == 1; };
  EXPECT_EQ(problem_of_run(context.world(), gossip.training, gossip.run, steps_of(context)), "") << "SLOWMO-025";
}

// One round under way at most, and what is under way is added: what overlaps mixes the same mass.
void overlaps(Context& context) {
  Gossip gossip = gossip_in(context);
  gossip.training.options.overlap = gossip.training.options.accepts_stale = true;
  gossip.training.options.synch_freq = static_cast<int>(context.parameters().number("lag"));
  gossip.training.evaluates_behind = [&](int step) { return step + 1 == gossip.training.steps; };
  const SlowMoRankResult trained = train_with_slowmo(context.world(), gossip.training, steps_of(context));
  double weight = trained.steps.back().weight;
  context.world().all_reduce({&weight, 1, comm::DType::f64}, {&weight, 1, comm::DType::f64}, comm::ReduceOp::sum);
  EXPECT_NEAR(weight, context.size(), 1e-12 * context.size()) << "SLOWMO-026: the sum of weights when all is added";
  double apart = 0;
  for (const double value : trained.steps.back().estimate()) apart = std::max(apart, std::abs(value));
  EXPECT_LT(apart, 10.0) << "SLOWMO-026: parameters leave all bounds";
}

}  // namespace

void add_slowmo_gossip_checks(suite::Suite& suite) {
  const suite::Axis graph{"graph", {"ring", "hub", "skewed"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds = {1, 2, 3, 4}) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("slowmo.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .applies =
                   [](const suite::Parameters& parameters) {
                     return !parameters.has("node") || parameters.world() % parameters.number("node") == 0;
                   },
               .body = body});
  };
  add("gossip.estimates", "SLOWMO-020@4e9e", {graph}, estimates);
  add("gossip.conserves", "SLOWMO-021@8c91", {graph}, conserves, {2, 3, 4});
  add("gossip.inside_nodes", "SLOWMO-022@bd24", {graph, {"node", {"1", "2"}}}, inside_nodes, {4, 6});
  add("gossip.exact_average", "SLOWMO-023@ecc0", {graph, {"average", {"efficient", "whole", "none"}}}, exact_average,
      {2, 3});
  add("gossip.complete_graph_averages", "SLOWMO-024@dabb", {{"algorithm", {"push_sum", "push_pull"}}},
      complete_graph_averages, {1, 2, 3, 5});
  add("gossip.evaluation_does_not_gossip", "SLOWMO-025@73bd", {graph}, evaluation_does_not_gossip, {2, 3});
  add("gossip.overlaps", "SLOWMO-026@0561", {graph, {"lag", {"0", "2"}}}, overlaps, {2, 3});
}

}  // namespace plumbline::conformance
