// Training that averages parameters, asked of an adapter step by step: what ranks have after each step, by the papers'
// formulas.
//
// Model   A question has all gradients of a run: those that each rank computes at the parameters which a right run
//         gives its forward pass. Who has others after a step is found there, and not where its own gradients differ.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/slowmo/slowmo_training.hpp"
#include "conformance/slowmo/trace_runs.hpp"
#include "conformance/support/asking.hpp"
#include "reference/comm/dtype.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;
using suite::Parameters;

namespace {

constexpr const char* kSteps = "slowmo.trace";

int axis_number(const Context& context, const char* name, int otherwise = 1) {
  return context.parameters().has(name) ? static_cast<int>(context.parameters().number(name)) : otherwise;
}
bool is_efficient(const Context& context) { return context.parameters().text("memory") == "efficient"; }

TracedRun averaging_run(const Context& context, int every, int ranks_per_node = 1) {
  TracedRun run = traced_run(axis_number(context, "ranks"), ranks_per_node);
  run.options["localsgd_frequency"] = run.right.average_every = every;
  return run;
}

// With slow momentum 0.5 and slow learning rate 0.75.
TracedRun slow_run(const Context& context, int slow_every, int average_every, int ranks_per_node = 1) {
  TracedRun run = averaging_run(context, average_every, ranks_per_node);
  run.options.update({{"slowmo_momentum", 0.5}, {"slowmo_lr", 0.75}, {"slowmo_frequency", slow_every}});
  if (context.parameters().has("memory")) run.options["memory_efficient"] = is_efficient(context);
  run.right.slow_every = slow_every;
  run.right.beta = 0.5;
  run.right.alpha = 0.75;
  return run;
}

void report_run(Context& context, const TracedRun& run) { report_words(problem_of_traced(context.adapter(), run)); }

// ---- averages ----

// Plain data-parallel SGD: one model, and the mean of all ranks' gradients.
void trace_equals_synchronous(Context& context) {
  const TracedRun run = averaging_run(context, 1, axis_number(context, "node"));
  std::vector<SlowMoValues> models;
  SlowMoValues model = initial_values(run.training);
  for (int step = 0; step < run.training.steps; ++step) {
    SlowMoValues next = model;
    for (int rank = 0; rank < run.right.ranks; ++rank) {
      const SlowMoValues gradients = gradients_at(model, rank, step);
      for (std::size_t i = 0; i < next.size(); ++i) next[i] -= run.training.rate(step) * gradients[i] / run.right.ranks;
    }
    models.push_back(model = next);
  }
  report_words(problem_of(context.adapter(), kSteps, traced_question(run), [&](const json& result) -> std::string {
    for (std::size_t step = 0; step < models.size(); ++step)
      for (int rank = 0; rank < run.right.ranks; ++rank) {
        const auto got = row_at(result, step, rank).at("params").get<SlowMoValues>();
        if (std::string words = difference_of(models[step], got, kTracedTolerance); !words.empty())
          return fmt::format("step {}, rank {}: {}", step, rank, words);
      }
    return {};
  }));
}

void trace_average_of_many(Context& context) {
  TracedRun run = averaging_run(context, 2);
  if (context.parameters().text("tensors") == "many") {
    run.training.sizes = {4, 2, 2, 1};
    run.options["dims"] = {2, 2, 1};
    run.options["double_tail"] = true;
  }
  report_run(context, run);
}

// No average in all steps: what the optimizer takes is the node's mean.
void trace_gradients_of_nodes(Context& context) {
  TracedRun run = averaging_run(context, 100, axis_number(context, "node"));
  run.right.average_every = 0;
  run.judges_optimizer = true;
  report_run(context, run);
}

void trace_post_local(Context& context) {
  const int begin = axis_number(context, "begin");
  TracedRun run = averaging_run(context, 3);
  run.training.steps = 10;
  run.options["localsgd_begin"] = begin;
  run.right.average_every = 0;
  run.right.averages = [begin](int step) { return step < begin || (step - begin + 1) % 3 == 0; };
  report_run(context, run);
}

// ---- slow steps ----

void trace_periods(Context& context) {
  const int every = axis_number(context, "every");
  TracedRun run = slow_run(context, 3, every);
  run.training.steps = 12;
  run.judge_row = [every](const json& row, int step, int) -> std::string {
    const json& plan = row.at("plan");
    const bool is_slow = (step + 1) % 3 == 0, is_local = (step + 1) % every == 0;
    // A step that is both averages once; whether its plan has the other one, too, is nobody's concern.
    if (plan.at("slowmo") == is_slow && (is_slow || plan.at("localsgd") == is_local)) return {};
    return fmt::format("step {} has the plan {}", step, plan.dump());
  };
  report_run(context, run);
}

void trace_slow_in_nodes(Context& context) {
  report_run(context, slow_run(context, 2, 2, axis_number(context, "node")));
}

void trace_starts(Context& context) {
  TracedRun run = slow_run(context, 3, 3);
  run.training.starts_apart = context.parameters().text("start") == "apart";
  report_run(context, run);
}

// Whoever begins slow buffers with what ranks have after the first step keeps ranks apart at the end of a slow step.
void trace_begins(Context& context) {
  TracedRun run = slow_run(context, 2, 2);
  run.options["init_first"] = context.parameters().text("made") == "before";
  run.judge_step = [](const json& rows, int step) -> std::string {
    for (std::size_t rank = 1; (step + 1) % 2 == 0 && rank < rows.size(); ++rank)
      if (rows.at(rank).at("params") != rows.at(0).at("params"))
        return fmt::format("ranks 0 and {} differ after slow step {}", rank, step);
    return {};
  };
  report_run(context, run);
}

void trace_shards_do_not_matter(Context& context) {
  TracedRun sharded = slow_run(context, 2, 2), whole = sharded;
  sharded.options["num_shards"] = axis_number(context, "shards");
  whole.options["memory_efficient"] = false;
  report_run(context, sharded);
  report_run(context, whole);
}

// Rank r of the first K keeps the elements from r ceil(E / K) on.
void trace_shards_are_kept(Context& context) {
  TracedRun run = slow_run(context, 2, 2);
  const int given = axis_number(context, "shards");
  run.options["num_shards"] = given;
  const auto elements = static_cast<std::int64_t>(initial_values(run.training).size());
  const std::int64_t shards = std::min(given, run.right.ranks), length = (elements + shards - 1) / shards;
  run.judge_row = [=](const json& row, int step, int rank) -> std::string {
    if ((step + 1) % 2 != 0) return {};
    const std::int64_t begin = std::min(rank * length, elements), end = std::min(begin + length, elements);
    const auto size = static_cast<std::size_t>(rank < shards ? end - begin : 0);
    if (!row.contains("slow") && size == 0) return {};
    const json& slow = row.at("slow");
    if (slow.at("old_params").size() != size || slow.at("momentum").size() != size)
      return fmt::format("step {}, rank {}: it keeps {} and {} elements, it must keep {}", step, rank,
                         slow["old_params"].size(), slow["momentum"].size(), size);
    if (size == 0 || (slow.at("start") == begin && slow.at("end") == end)) return {};
    return fmt::format("step {}, rank {}: it keeps elements {} to {}, it must keep {} to {}", step, rank,
                       slow["start"].dump(), slow["end"].dump(), begin, end);
  };
  report_run(context, run);
}

// The run ends in its second step, a slow one, whose rate is 0, and takes a rate of 0 in the first.
void trace_rate_of_0(Context& context) {
  const bool is_slow = context.parameters().text("step") == "slow";
  TracedRun run = slow_run(context, 2, 2);
  run.training.rate = [=](int step) { return step == (is_slow ? 1 : 0) ? 0.0 : 0.25; };
  if (!is_slow) return report_run(context, run);
  run.training.steps = 2;
  report_words(problem_of(context.adapter(), kSteps, traced_question(run), [&](const json& result) -> std::string {
    if (result.at("steps").size() != 2)
      return fmt::format("{} steps; the second one must be rejected", result["steps"].size());
    for (int rank = 0; rank < run.right.ranks; ++rank) {
      const json& row = row_at(result, 1, rank);
      if (!row.contains("error") || row.at("error").at("kind") != "invalid_argument" || row.contains("params"))
        return fmt::format("rank {}: a slow step with learning rate 0 is not rejected", rank);
      if (row_at(result, 0, rank).contains("error")) return "the first step is rejected, which is not a slow one";
    }
    return {};
  }));
}

// ---- outer optimizers ----

using OuterStep = std::function<void(double& x, double mean, double& memory)>;

// The numbers of the papers' rules: momentum, learning rate, and what a slow step makes of x and the mean.
struct OuterNamed {
  double momentum = 0, rate = 1;
  OuterStep step;
};

const OuterNamed& outer_named(const std::string& name) {
  static const std::map<std::string, OuterNamed> all{
      {"bmuf", {0.5, 0.75, [](double& x, double mean, double& u) { x -= u = 0.5 * u + 0.75 * (x - mean); }}},
      {"lookahead", {0.5, 0.25, [](double& x, double mean, double&) { x += 0.25 * (mean - x); }}},
      {"localsgd", {0.5, 0.75, [](double& x, double mean, double&) { x = mean; }}},
      {"diloco", {0.5, 0.75, [](double& x, double mean, double& u) {
                    const double gradient = x - mean;
                    u = 0.5 * u + gradient;
                    x -= 0.75 * (gradient + 0.5 * u);
                  }}}};
  return all.at(name);
}

TracedRun outer_run(const Context& context, const std::string& rule) {
  TracedRun run = slow_run(context, 2, 2);
  run.training.steps = 9;
  run.options["outer"] = rule;
  if (rule != "slowmo") run.right.outer = outer_named(rule).step;
  return run;
}

void trace_outer(Context& context) {
  const std::string& rule = context.parameters().text("rule");
  TracedRun run = outer_run(context, rule);
  run.options.update({{"slowmo_momentum", outer_named(rule).momentum}, {"slowmo_lr", outer_named(rule).rate}});
  run.training.rate = [](int step) { return step < 4 ? 0.25 : 0.125; };
  report_run(context, run);
}

// Each of two rules comes to what the other's formula says.
void trace_coincides(Context& context) {
  const std::string& what = context.parameters().text("what");
  TracedRun run = outer_run(context, "slowmo");
  const auto set = [&](double beta, double alpha) {
    run.options.update({{"slowmo_momentum", beta}, {"slowmo_lr", alpha}});
  };
  if (what == "local_sgd" || what == "synchronous_sgd") {
    const int every = what == "local_sgd" ? 2 : 1;
    run.options.update({{"slowmo_frequency", every}, {"localsgd_frequency", every}});
    set(0, 1);
    run.right.slow_every = 0;
    run.right.average_every = every;
  }
  if (what == "lookahead") set(0, 0.25), run.right.outer = outer_named("lookahead").step;
  if (what == "bmuf") set(0.5, 0.75), run.right.outer = outer_named("bmuf").step;
  if (what == "diloco") {
    run = outer_run(context, "diloco");
    set(0, 1);
    run.right.outer = outer_named("localsgd").step;
  }
  report_run(context, run);
}

// SlowMo's momentum is of differences over the rate of their time, block momentum of the differences themselves.
void trace_rates_that_change(Context& context) {
  const std::string& rule = context.parameters().text("rule");
  TracedRun run = outer_run(context, rule);
  run.options.update({{"slowmo_momentum", 0.5}, {"slowmo_lr", 0.75}});
  if (context.parameters().text("rate") == "changes")
    run.training.rate = [](int step) { return step < 4 ? 0.25 : 0.125; };
  report_run(context, run);
}

// ---- gossip ----

// Over a graph of that name: "ring" keeps weights 1, "hub" does not, "skewed" is a ring with other shares.
TracedRun gossip_run(const Context& context, int ranks_per_node = 1) {
  TracedRun run = traced_run(axis_number(context, "ranks"), ranks_per_node);
  const std::string& graph = context.parameters().text("graph");
  const int nodes = run.right.ranks / ranks_per_node;
  const PeerRows rows = graph == "hub" ? hub_of(nodes) : ring_of(nodes);
  run.options.update({{"base", "sgp"}, {"phone_book", rows}, {"regular", graph != "hub"}});
  run.options["mixing"] = graph == "skewed" ? "skew" : "uniform";
  run.right.mixing = shares_of(rows, graph == "skewed");
  return run;
}

void trace_estimates(Context& context) { report_run(context, gossip_run(context, axis_number(context, "node"))); }

// Over the first ranks of the nodes.
SlowMoValues sum_over_nodes(const json& rows, int node, const std::function<SlowMoValues(const json& row)>& values_of) {
  SlowMoValues sum;
  for (std::size_t rank = 0; rank < rows.size(); rank += static_cast<std::size_t>(node)) {
    const SlowMoValues values = values_of(rows.at(rank));
    sum.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
  }
  return sum;
}
SlowMoValues weight_in(const json& row) { return {row.at("ps_weight").get<double>()}; }

// By the answers alone: no element's sum over the nodes changes but by what optimizers do, and weights sum to the
// number of nodes.
void trace_conserves(Context& context) {
  const int node = axis_number(context, "node");
  TracedRun run = gossip_run(context, node);
  run.judge_step = [nodes = static_cast<double>(run.right.ranks / node), node](const json& rows,
                                                                               int step) -> std::string {
    if (std::string words = difference_of({nodes}, sum_over_nodes(rows, node, weight_in), 1e-6); !words.empty())
      return fmt::format("the sum of weights after step {}: {}", step, words);
    const SlowMoValues before = sum_over_nodes(
        rows, node, [](const json& row) { return row.at("params_after_optimizer").get<SlowMoValues>(); });
    const std::string words = difference_of(before, sum_over_nodes(rows, node, numerators_of), kTracedTolerance);
    return words.empty() ? words : fmt::format("gossip of step {} changes a sum: {}", step, words);
  };
  report_run(context, run);
}

// Whether a slow step averages, with slow buffers in shards or whole, or applies momentum to each node's estimate.
void trace_slow_gossip(Context& context) {
  const std::string& how = context.parameters().text("average");
  TracedRun run = gossip_run(context);
  run.options.update({{"slowmo_momentum", 0.5},
                      {"slowmo_frequency", 3},
                      {"memory_efficient", how == "efficient"},
                      {"sgp_average_params", how == "whole"}});
  run.right.slow_every = 3;
  run.right.beta = 0.5;
  run.right.averages_at_slow_steps = how != "none";
  run.judge_row = [averages = how != "none"](const json& row, int step, int rank) -> std::string {
    if ((step + 1) % 3 != 0 || !averages || row.at("ps_weight") == 1.0) return {};
    return fmt::format("step {}, rank {}: the weight is {} after an average", step, rank, row["ps_weight"].dump());
  };
  report_run(context, run);
}

void trace_complete_graph(Context& context) {
  TracedRun run = traced_run(axis_number(context, "ranks"), 1);
  run.options.update(
      {{"base", "sgp"}, {"graph", "complete"}, {"push_sum", context.parameters().text("algorithm") == "push_sum"}});
  run.options["peers_per_itr"] = run.right.ranks - 1;
  run.right.average_every = 1;
  report_run(context, run);
}

void trace_evaluates(Context& context) {
  TracedRun run = gossip_run(context);
  run.options["evaluate_after"] = {1, 3, 4};
  run.judge_row = [](const json& row, int step, int rank) -> std::string {
    if (step != 1 && step != 3 && step != 4) return {};
    const auto seen = row.at("params_in_evaluation").get<SlowMoValues>();
    const std::string words = difference_of(estimate_of(row), seen, kTracedTolerance);
    return words.empty() ? words : fmt::format("evaluation after step {}, rank {}: {}", step, rank, words);
  };
  report_run(context, run);
}

// What gossip that lags comes to: a round takes from each node what it sends when it begins, before a forward pass, and
// gives it `lag` steps later, after a backward pass.
std::vector<TracedState> lagging_states(const TracedRun& run, int lag, std::vector<std::vector<SlowMoValues>>& all) {
  const auto nodes = static_cast<std::size_t>(run.right.ranks);
  TracedState now{std::vector<SlowMoValues>(nodes, initial_values(run.training)), SlowMoValues(nodes, 1.0)};
  const std::size_t elements = now.numerators.front().size();
  std::vector<SlowMoValues> coming(nodes, SlowMoValues(elements));
  SlowMoValues weights(nodes);
  std::vector<TracedState> states;
  for (int step = 0, round = 0; step < run.training.steps; ++step) {
    if (step % (lag + 1) == 0) {
      const auto shares = run.right.mixing(round++);
      for (std::size_t from = 0; from < nodes; ++from)
        for (std::size_t to = 0; to < nodes; ++to) {
          if (from == to) continue;
          weights[to] += shares[to][from] * now.weights[from];
          for (std::size_t i = 0; i < elements; ++i) coming[to][i] += shares[to][from] * now.numerators[from][i];
        }
      for (std::size_t node = 0; node < nodes; ++node) {
        now.weights[node] *= shares[node][node];
        for (double& value : now.numerators[node]) value *= shares[node][node];
      }
    }
    std::vector<SlowMoValues>& gradients = all.emplace_back();
    for (std::size_t node = 0; node < nodes; ++node) {
      SlowMoValues seen = now.numerators[node];
      for (double& value : seen) value /= now.weights[node];
      gradients.push_back(gradients_at(seen, static_cast<int>(node), step));
      for (std::size_t i = 0; i < elements; ++i)
        now.numerators[node][i] -= run.training.rate(step) * gradients.back()[i];
    }
    for (std::size_t node = 0; node < nodes && step % (lag + 1) == lag; ++node) {
      now.weights[node] += std::exchange(weights[node], 0);
      for (std::size_t i = 0; i < elements; ++i) now.numerators[node][i] += std::exchange(coming[node][i], 0);
    }
    states.push_back(now);
  }
  return states;
}

TracedRun lagging_run_of(const Context& context) {
  TracedRun run = gossip_run(context);
  const int lag = axis_number(context, "lag");
  run.options.update({{"overlap", true}, {"accepts_stale", true}, {"synch_freq", lag}});
  run.states = lagging_states(run, lag, run.gradients);
  return run;
}

void trace_lags(Context& context) { report_run(context, lagging_run_of(context)); }

// An evaluation after the last step adds what is under way: nothing of the mass is missing.
void trace_drains(Context& context) {
  TracedRun run = lagging_run_of(context);
  const int last = run.training.steps - 1;
  run.options["evaluate_after"] = {last};
  run.states.pop_back();
  run.judge_step = [&run, last](const json& rows, int step) -> std::string {
    if (step != last) return {};
    const auto nodes = static_cast<double>(rows.size());
    if (std::string words = difference_of({nodes}, sum_over_nodes(rows, 1, weight_in), 1e-6); !words.empty())
      return "the sum of weights: " + words;
    SlowMoValues mass = initial_values(run.training);
    for (double& value : mass) value *= nodes;
    for (std::size_t at = 0; at < run.gradients.size(); ++at)
      for (const SlowMoValues& gradient : run.gradients[at])
        for (std::size_t i = 0; i < mass.size(); ++i) mass[i] -= run.training.rate(static_cast<int>(at)) * gradient[i];
    const std::string words = difference_of(mass, sum_over_nodes(rows, 1, numerators_of), kTracedTolerance);
    return words.empty() ? words : "the sum of numerators: " + words;
  };
  report_run(context, run);
}

// ---- halves and buffers ----

constexpr int kHalfElements = 6;

// What a rank's optimizer makes of 1 in a coarse step, which a half holds, and what a fine one adds, which it loses.
double coarse_half(int rank, int ranks, int element) { return 1 + ranks * (rank + 1) * (element + 1) * 0x1p-6; }
double lost_of_half(int rank) { return 0x1p-14 * (rank + 1); }

json question_of_halves(int ranks, const std::string& masters, const json& options) {
  constexpr double kRate = 0.25;
  json args{{"convention", "plumbline"}, {"world_size", ranks},          {"nprocs_per_node", 1}, {"slowmo_momentum", 0},
            {"localsgd_frequency", 2},   {"optimizer", {{"lr", kRate}}}, {"fp16", masters}};
  args.update(options);
  args["steps"] = {json::array(), json::array()};
  for (int rank = 0; rank < ranks; ++rank) {
    args["ranks"].push_back({{"init_params", std::vector<double>(kHalfElements, 1.0)}});
    json coarse = json::array(), fine = json::array();
    for (int element = 0; element < kHalfElements; ++element) {
      coarse.push_back((1 - coarse_half(rank, ranks, element)) / kRate);
      fine.push_back(-lost_of_half(rank) / kRate);
    }
    args["steps"][0].push_back({{"grads", coarse}});
    args["steps"][1].push_back({{"grads", fine}});
  }
  return args;
}

bool is_rounded_half(double half, double master) {
  return half == static_cast<double>(comm::to_float(comm::to_float16(static_cast<float>(master))));
}

void trace_halves_keep_errors(Context& context) {
  const int ranks = axis_number(context, "ranks");
  const json args = question_of_halves(ranks, context.parameters().text("masters"), json::object());
  report_words(problem_of(context.adapter(), kSteps, args, [&](const json& result) -> std::string {
    for (int rank = 0; rank < ranks; ++rank) {
      const json& row = row_at(result, 1, rank);
      const auto halves = row.at("params").get<SlowMoValues>(), masters = row.at("fp32").get<SlowMoValues>();
      for (int i = 0; i < kHalfElements; ++i) {
        const double half = halves.at(static_cast<std::size_t>(i)), master = masters.at(static_cast<std::size_t>(i));
        const double mean = 1 + ranks * (ranks + 1) / 2.0 * (i + 1) * 0x1p-6;  // of (rank + 1)
        if (!(std::abs(half - mean) <= 0x1p-9))
          return fmt::format("rank {}: half {} is {}, the mean is {}", rank, i, half, mean);
        if (master - half != lost_of_half(rank))
          return fmt::format("rank {}: master weight {} is {} above the average, its half had lost {}", rank, i,
                             master - half, lost_of_half(rank));
      }
    }
    return {};
  }));
}

void trace_halves_follow(Context& context) {
  const int ranks = axis_number(context, "ranks");
  json options{{"base", context.parameters().text("base")}};
  if (options["base"] == "sgp") options["phone_book"] = ring_of(ranks), options["regular"] = true;
  const json args = question_of_halves(ranks, context.parameters().text("masters"), options);
  report_words(problem_of(context.adapter(), kSteps, args, [&](const json& result) -> std::string {
    for (std::size_t step = 0; step < 2; ++step)
      for (int rank = 0; rank < ranks; ++rank) {
        const json& row = row_at(result, step, rank);
        const auto halves = row.at("params").get<SlowMoValues>(), masters = row.at("fp32").get<SlowMoValues>();
        if (masters.size() != kHalfElements || halves.size() != kHalfElements) return "values are missing";
        for (std::size_t i = 0; i < masters.size(); ++i)
          if (!is_rounded_half(halves[i], masters[i]) || !(masters[i] > 1))
            return fmt::format("step {}, rank {}: half {} is {}, its master weight {}", step, rank, i, halves[i],
                               masters[i]);
      }
    return {};
  }));
}

// All ranks have what is nearly the largest half: a sum of two is beyond it.
void trace_large_halves(Context& context) {
  const int ranks = axis_number(context, "ranks");
  const double value = context.parameters().text("value") == "largest" ? 60000 : 1.5;
  json args = question_of_halves(ranks, "flat", {{"localsgd_frequency", 1}});
  for (json& rank : args["ranks"]) rank["init_params"] = std::vector<double>(kHalfElements, value);
  for (json& step : args["steps"])
    for (json& rank : step) rank["grads"] = std::vector<double>(kHalfElements, 0.0);
  report_words(problem_of(context.adapter(), kSteps, args, [&](const json& result) -> std::string {
    for (std::size_t step = 0; step < 2; ++step)
      for (int rank = 0; rank < ranks; ++rank) {
        const auto got = row_at(result, step, rank).at("params").get<SlowMoValues>();
        if (got.size() != kHalfElements) return "values are missing";
        for (const double one : got)  // an odd number of ranks rounds once
          if (!(std::abs(one - value) <= value * 0x1p-10))
            return fmt::format("step {}, rank {}: the average of {} is {}", step, rank, value, one);
      }
    return {};
  }));
}

void trace_buffers(Context& context) {
  const bool broadcasts = context.parameters().text("broadcast") == "yes";
  TracedRun run = averaging_run(context, 2);
  run.options["broadcast_buffers"] = broadcasts;
  run.buffer = [](int step, int rank) { return SlowMoValues{10.0 * step + rank, 0.5 * rank - step}; };
  run.judge_row = [&run, broadcasts](const json& row, int step, int rank) -> std::string {
    const SlowMoValues expected = run.buffer(step, broadcasts ? 0 : rank);
    const auto got = row.at("buffer_after_forward").get<SlowMoValues>();
    return got == expected ? "" : fmt::format("step {}, rank {}: the buffer is {}", step, rank, json(got).dump());
  };
  report_run(context, run);
}

// ---- resuming, options ----

// Saved before a step, loaded and continued: parameters, weights and slow buffers after each step are the same.
TracedRun run_to_resume(Context& context) {
  const std::string& base = context.parameters().text("base");
  TracedRun run = base == "localsgd" ? slow_run(context, 3, 2) : gossip_run_on_hub(axis_number(context, "ranks"));
  if (base == "sgp_slow") run.options.update({{"slowmo_momentum", 0.5}, {"slowmo_frequency", 3}});
  run.training.steps = 8;
  if (base == "sgp_slow") run.right.slow_every = 3, run.right.beta = 0.5;
  return run;
}
// The same rows as without what `changes` asks for, and what `judge` finds in one.
void report_resumed(Context& context, const json& changes,
                    const std::function<std::string(const json&, int, int)>& judge) {
  TracedRun run = run_to_resume(context);
  const json args = traced_question(run);
  const Answer whole = answer_to(context.adapter(), kSteps, args);
  if (whole.is_refused()) return report_words("refused: " + whole.message);
  run.options.update(changes);
  run.options["resume_at"] = axis_number(context, "before");
  if (judge) run.judge_row = judge;
  run.judge_step = [&](const json& rows, int step) {
    json expected = json::array();
    for (const json& row : whole.result.at("steps").at(static_cast<std::size_t>(step))) {
      json& kept = expected.emplace_back(json{{"params", row.at("params")}});
      for (const char* field : {"ps_weight", "slow"})
        if (row.contains(field)) kept[field] = row[field];
    }
    return first_difference(expected, rows, fmt::format("step {} of the resumed run", step));
  };
  report_run(context, run);
}

void trace_resumes(Context& context) { report_resumed(context, json::object(), {}); }
void trace_resumes_in_evaluation(Context& context) { report_resumed(context, {{"resume_in_evaluation", true}}, {}); }

// A rank whose state has the entry rejects it without it, or with a number below zero, and goes on.
void judge_bad_state(Context& context, const char* fault, const char* kind) {
  const std::string& entry = context.parameters().text("entry");
  const int before = axis_number(context, "before");
  bool is_rejected = false;
  report_resumed(context, {{"bad_state", {{fault, entry}}}}, [&](const json& row, int step, int rank) -> std::string {
    if (step != before) return {};
    const json& rejected = row.at("rejected");
    if (rejected.is_null()) return {};
    is_rejected = true;
    if (rejected.is_object() && rejected.at("kind") == kind) return {};
    return fmt::format("rank {}: the state is {}", rank, rejected.dump());
  });
  if (!is_rejected) report_words("no rank rejects a state with that fault in " + entry);
}
void trace_state_lacks(Context& context) { judge_bad_state(context, "lacks", "not_found"); }
void trace_state_below_zero(Context& context) { judge_bad_state(context, "below_zero", "invalid_argument"); }

// Two values an element of its shard, of 4 or of 8 bytes.
void trace_reports(Context& context) {
  TracedRun run = run_to_resume(context);
  run.judge_row = [](const json& row, int step, int rank) -> std::string {
    const std::string where = fmt::format("step {}, rank {}: ", step, rank);
    if (row.at("steps_done") != step + 1) return where + row["steps_done"].dump() + " steps are reported";
    if (row.at("trains") != true) return where + "it is not in training";
    if (!row.contains("slow")) return {};
    const auto elements = row["slow"].at("end").get<std::int64_t>() - row["slow"].at("start").get<std::int64_t>();
    const auto bytes = row.at("slow_bytes").get<std::int64_t>();
    if (bytes == 2 * elements * 4 || bytes == 2 * elements * 8) return {};
    return fmt::format("{}{} bytes of slow buffers of {} elements", where, bytes, elements);
  };
  report_run(context, run);
}

// What is wrong with the options of a run that is otherwise right.
const std::vector<std::pair<std::string, json>>& bad_slowmo_options() {
  static const std::vector<std::pair<std::string, json>> all{
      {"node_of_none", {{"nprocs_per_node", 0}}},
      {"node_below_none", {{"nprocs_per_node", -1}}},
      {"world_no_multiple", {{"nprocs_per_node", 2}}},
      {"slow_frequency", {{"slowmo_frequency", 0}}},
      {"slow_frequency_below", {{"slowmo_frequency", -1}}},
      {"local_sgd_frequency", {{"localsgd_frequency", 0}}},
      {"local_sgd_frequency_below", {{"localsgd_frequency", -1}}},
      {"shards", {{"num_shards", 0}}},
      {"shards_below", {{"num_shards", -1}}},
      {"momentum", {{"slowmo_momentum", "nan"}}},
      {"infinite_momentum", {{"slowmo_momentum", "-inf"}}},
      {"learning_rate", {{"slowmo_lr", "inf"}}},
      {"learning_rate_no_number", {{"slowmo_lr", "nan"}}},
      {"lag", {{"synch_freq", -1}}},
      {"overlap", {{"overlap", true}}}};
  return all;
}

TracedRun run_of_three(const Context&) {
  TracedRun run = traced_run(3, 1);
  run.options.update({{"slowmo_momentum", 0.5}, {"slowmo_frequency", 2}, {"localsgd_frequency", 2}});
  run.right.average_every = run.right.slow_every = 2;
  run.right.beta = 0.5;
  return run;
}

void trace_refuses(Context& context) {
  TracedRun run = run_of_three(context);
  report_run(context, run);
  for (const auto& [fault, options] : bad_slowmo_options())
    if (fault == context.parameters().text("fault")) {
      run.options.update(options);
      report_words(problem_of_refusal_beside_answers(context.adapter(), kSteps, traced_question(run)));
    }
}

void trace_takes(Context& context) {
  const std::string& what = context.parameters().text("what");
  TracedRun run = run_of_three(context);
  const auto without_slow_steps = [&] { run.options["slowmo_momentum"] = run.right.beta = run.right.slow_every = 0; };
  if (what == "negative_momentum") run.options["slowmo_momentum"] = run.right.beta = -0.5;
  if (what == "frequency_that_is_not_used") without_slow_steps(), run.options["slowmo_frequency"] = 0;
  if (what == "shards_that_are_not_used") run.options.update({{"num_shards", 0}, {"memory_efficient", false}});
  if (what == "more_shards_than_ranks") run.options["num_shards"] = 1000;
  if (what == "lag_without_overlap") run.options["synch_freq"] = 7;
  if (what == "frequency_of_another_base") {
    without_slow_steps();
    run.options.update({{"base", "sgp"}, {"localsgd_frequency", 0}, {"phone_book", ring_of(3)}, {"regular", true}});
    run.right.average_every = 0;
    run.right.mixing = shares_of(ring_of(3), false);
  }
  report_run(context, run);
}

// Whether there is a warning; its words are nobody's concern.
void trace_warns(Context& context) {
  const std::string& what = context.parameters().text("what");
  const bool one_node = what.starts_with("one_node");
  TracedRun run = traced_run(2, one_node ? 2 : 1);
  run.options.update({{"localsgd_frequency", 3}, {"slowmo_frequency", what == "frequencies" ? 4 : 6}});
  run.options["slowmo_momentum"] = what == "one_node" ? 0.0 : 0.5;
  if (what == "no_base") run.options["base"] = "none";
  run.training.steps = 2;  // none of them averages
  run.judge_result = [is_warned = what != "nothing"](const json& result) -> std::string {
    const auto warnings = result.at("warnings").get<std::vector<std::string>>();
    return warnings.empty() != is_warned ? "" : fmt::format("there are {} warnings", warnings.size());
  };
  report_run(context, run);
}

void trace_one_node(Context& context) {
  const int ranks = axis_number(context, "ranks");
  TracedRun run = traced_run(ranks, ranks);
  run.options.update({{"localsgd_frequency", 1}, {"base", context.parameters().text("base")}});
  run.judge_row = [](const json& row, int step, int) -> std::string {
    const json& plan = row.at("plan");
    const bool is_off = plan.at("localsgd") == false && plan.at("gossip") == false && row.value("ps_weight", 1.0) == 1;
    return is_off ? "" : fmt::format("step {} has the plan {}", step, plan.dump());
  };
  report_run(context, run);
}

// Nothing is said that has a default.
void trace_defaults(Context& context) {
  TracedRun run = traced_run(axis_number(context, "ranks"), 1);
  run.options = {{"convention", "plumbline"}};
  run.training.steps = 49;
  run.buffer = [](int step, int rank) { return SlowMoValues{10.0 * step + rank}; };
  run.right.average_every = 3;
  run.right.slow_every = 48;
  run.right.beta = 0.5;
  run.judge_row = [&run](const json& row, int step, int rank) -> std::string {
    if (row.at("buffer_after_forward").get<SlowMoValues>() != run.buffer(step, 0))
      return fmt::format("step {}, rank {}: the buffer is not rank 0's", step, rank);
    if (step != 47) return {};
    const std::size_t length = row.at("params").size() / static_cast<std::size_t>(run.right.ranks);
    return row.at("slow").at("momentum").size() == length ? "" : fmt::format("rank {} has another shard", rank);
  };
  report_run(context, run);
}

// The flags of each step, for all ranks the same.
void trace_plans(Context& context) {
  const std::string& base = context.parameters().text("base");
  const bool is_slow = context.parameters().text("slow") == "yes", is_sgp = base == "sgp";
  const std::string& how = context.parameters().text("average");
  TracedRun run = traced_run(3, 1);
  run.training.steps = 13;
  run.options.update({{"base", base},
                      {"slowmo_momentum", is_slow ? 0.5 : 0.0},
                      {"slowmo_frequency", 4},
                      {"localsgd_frequency", 3},
                      {"memory_efficient", how == "efficient"},
                      {"sgp_average_params", how == "whole"}});
  if (is_sgp) run.options.update({{"phone_book", hub_of(3)}, {"regular", false}});
  if (is_sgp) run.right.mixing = shares_of(hub_of(3), false);
  if (base == "localsgd") run.right.average_every = 3;
  if (is_slow) run.right.slow_every = 4, run.right.beta = 0.5;
  run.right.averages_at_slow_steps = !is_sgp || how != "none";
  run.judge_row = [&](const json& row, int step, int rank) -> std::string {
    const bool slow = is_slow && step % 4 == 3, averages = slow && run.right.averages_at_slow_steps;
    json expected{{"slowmo", slow}, {"gossip", is_sgp && !averages}};
    // A slow step averages instead: whether its plan still has the other average says nothing of what is communicated.
    if (!averages) expected["localsgd"] = base == "localsgd" && step % 3 == 2;
    return first_difference(expected, row.at("plan"), fmt::format("plan of step {}, rank {}", step, rank));
  };
  report_run(context, run);
}

// ---- sums along a ring ----

// A number with all of a float's bits, which differs by rank and element.
float rough_number(int rank, std::int64_t element) {
  return static_cast<float>((element * 7919 + (rank + 1) * 104'729) % 1'000'003) * 0x1.8p-20F +
         static_cast<float>(rank);
}

// Gloo's ring: chunks of 2 ceil(n / 2N) elements, each added from the rank before the chunk's own backwards; every
// rank's part is divided first.
float sum_of_ring(std::int64_t element, std::int64_t count, int ranks) {
  const std::int64_t half_chunk = (count + 2 * ranks - 1) / (2 * ranks), chunk = element / (2 * half_chunk);
  float sum = 0;
  for (int step = 1; step <= ranks; ++step) {
    const float part =
        rough_number(static_cast<int>((chunk + ranks - step) % ranks), element) / static_cast<float>(ranks);
    sum = step == 1 ? part : sum + part;
  }
  return sum;
}

void trace_order_of_the_ring(Context& context) {
  const int ranks = axis_number(context, "ranks"), count = axis_number(context, "elements");
  json args{{"convention", "fairscale"}, {"world_size", ranks},     {"nprocs_per_node", 1},       {"base", "localsgd"},
            {"slowmo_momentum", 0},      {"slowmo_lr", 1},          {"memory_efficient", false},  {"num_shards", 1},
            {"slowmo_frequency", 2},     {"localsgd_frequency", 1}, {"optimizer", {{"lr", 1.0}}}, {"mixing", "uniform"},
            {"arithmetic", "separate"},  {"ranks", json::array()},  {"steps", {json::array()}}};
  for (int rank = 0; rank < ranks; ++rank) {
    args["ranks"].push_back({{"init_params", std::vector<double>(static_cast<std::size_t>(count), 0.0)}});
    json gradients = json::array();
    for (int element = 0; element < count; ++element)
      gradients.push_back(-static_cast<double>(rough_number(rank, element)));
    args["steps"][0].push_back({{"grads", std::move(gradients)}});
  }
  report_words(problem_of(context.adapter(), kSteps, args, [&](const json& result) -> std::string {
    for (int rank = 0; rank < ranks; ++rank) {
      const json& got = row_at(result, 0, rank).at("params");
      for (int element = 0; element < count; ++element)
        if (const float right = sum_of_ring(element, count, ranks);
            static_cast<float>(got.at(static_cast<std::size_t>(element)).get<double>()) != right)
          return fmt::format("rank {}: element {} is {}, it must be {}", rank, element,
                             got[static_cast<std::size_t>(element)].dump(), right);
    }
    return {};
  }));
}

// ---- a schedule of averages ----

constexpr const char* kScheduleOfAverages = "slowmo.average";

json question_of_levels(const json& levels, int ranks, int warmup, int calls) {
  json args{{"world_size", ranks}, {"warmup", warmup}, {"levels", levels}, {"calls", calls}};
  for (int rank = 0; rank < ranks; ++rank) args["values"].push_back({1.0 * rank, 10.0 * rank});
  return args;
}

// Every rank's value is its own; what it has become says with whom it was averaged.
void averages_by_level(Context& context) {
  const int ranks = axis_number(context, "ranks"), warmup = axis_number(context, "warmup"), calls = warmup + 9;
  const bool two_levels = context.parameters().text("levels") == "two";
  const int longest = two_levels ? 4 : 3;
  json levels = json::array();
  if (two_levels) levels.push_back({{"period", 2}, {"group_size", 2}});
  levels.push_back({{"period", longest}, {"group_size", ranks}});
  const json args = question_of_levels(levels, ranks, warmup, calls);
  report_words(problem_of(context.adapter(), kScheduleOfAverages, args, [&](const json& result) -> std::string {
    if (result.at("calls").size() != static_cast<std::size_t>(calls)) return "another number of calls";
    for (int call = 0; call < calls; ++call) {
      const int since = call - warmup;
      const bool all = since >= 0 && since % longest == 0, pairs = two_levels && since >= 0 && since % 2 == 0;
      const json& row = result.at("calls").at(static_cast<std::size_t>(call));
      if (row.at("level") != (all ? json(two_levels ? 1 : 0) : pairs ? json(0) : json(nullptr)))
        return fmt::format("call {} averages level {}", call, row["level"].dump());
      for (int rank = 0; rank < ranks; ++rank) {
        const double mean = all ? (ranks - 1) / 2.0 : pairs ? rank / 2 * 2 + 0.5 : rank;
        const auto got = row.at("values").at(static_cast<std::size_t>(rank)).get<SlowMoValues>();
        if (std::string words = difference_of({mean, 10 * mean}, got, 1e-6); !words.empty())
          return fmt::format("call {}, rank {}: {}", call, rank, words);
      }
    }
    return {};
  }));
}

const std::vector<std::pair<std::string, json>>& bad_levels() {
  const auto levels = [](std::array<int, 6> at) {
    return json{{{"period", at[0]}, {"group_size", at[1]}},
                {{"period", at[2]}, {"group_size", at[3]}},
                {{"period", at[4]}, {"group_size", at[5]}}};
  };
  static const std::vector<std::pair<std::string, json>> all{
      {"no_levels", {{"levels", json::array()}}},
      {"warmup", {{"warmup", -1}}},
      {"period_0", {{"levels", levels({0, 1, 2, 2, 3, 6})}}},
      {"period_stays", {{"levels", levels({1, 1, 1, 2, 3, 6})}}},
      {"period_falls", {{"levels", levels({1, 1, 2, 2, 1, 6})}}},
      {"group_0", {{"levels", levels({1, 0, 2, 2, 3, 6})}}},
      {"group_below_0", {{"levels", levels({1, -1, 2, 2, 3, 6})}}},
      {"group_stays", {{"levels", levels({1, 1, 2, 1, 3, 6})}}},
      {"group_falls", {{"levels", levels({1, 4, 2, 2, 3, 6})}}},
      {"group_no_multiple", {{"levels", levels({1, 1, 2, 5, 3, 6})}}},
      {"part_of_the_world", {{"levels", levels({1, 1, 2, 2, 3, 4})}}},
      {"beyond_the_world", {{"levels", levels({1, 1, 2, 2, 3, 12})}}}};
  return all;
}

void averages_refused(Context& context) {
  const json right{
      {{"period", 1}, {"group_size", 1}}, {{"period", 2}, {"group_size", 2}}, {{"period", 3}, {"group_size", 6}}};
  json args = question_of_levels(right, 6, 0, 4);
  report_words(problem_of(context.adapter(), kScheduleOfAverages, args, [](const json& result) -> std::string {
    for (std::size_t call = 0; call < 4; ++call) {
      const double mean = call == 0 || call == 3 ? 2.5 : call == 2 ? 0.5 : 0;
      const auto got = result.at("calls").at(call).at("values").at(0).get<SlowMoValues>();
      if (std::string words = difference_of({mean, 10 * mean}, got, 1e-6); !words.empty())
        return fmt::format("call {}: {}", call, words);
    }
    return {};
  }));
  for (const auto& [fault, changes] : bad_levels())
    if (fault == context.parameters().text("fault")) {
      args.update(changes);
      report_words(problem_of_refusal_beside_answers(context.adapter(), kScheduleOfAverages, args));
    }
}

std::vector<std::string> slowmo_fault_names(const std::vector<std::pair<std::string, json>>& list) {
  std::vector<std::string> names;
  for (const auto& [name, value] : list) names.push_back(name);
  return names;
}

bool divides_its_ranks(const Parameters& parameters) {
  return !parameters.has("node") || !parameters.has("ranks") ||
         parameters.number("ranks") % parameters.number("node") == 0;
}

// Checks that ask slowmo.trace, of the base algorithm, mixing, graph and form of halves that they name.
struct AskedTrace {
  const char* name;
  const char* requirement;
  std::vector<suite::Axis> axes;
  void (*body)(Context&);
  std::vector<AskedOption> options = {};  // beside the optimizer
  const char* convention = "plumbline";
};

void add_traces(suite::Suite& suite, const std::vector<AskedTrace>& checks) {
  for (const AskedTrace& one : checks) {
    std::vector<AskedOption> options = one.options;
    options.push_back({kSteps, "optimizer.name", {"sgd"}});
    suite.add({.id = std::string("slowmo.trace.") + one.name,
               .verifies = {one.requirement},
               .door = Door::adapter,
               .axes = one.axes,
               .applies = divides_its_ranks,
               .operations = {kSteps},
               .convention = one.convention,
               .options = options_of(std::move(options)),
               .body = one.body});
  }
}

void add_averaging_traces(suite::Suite& suite) {
  const suite::Axis memory{"memory", {"efficient", "whole"}}, ranks{"ranks", {"2", "3"}};
  const std::vector<AskedOption> local{{kSteps, "base", {"localsgd"}}, {kSteps, "mixing", {"uniform"}}};
  const auto with = [&](AskedOption more) {
    std::vector<AskedOption> options = local;
    options.push_back(std::move(more));
    return options;
  };
  const auto field = [](const char* name) { return AskedOption{kSteps, "fields", {name}}; };
  const AskedOption lag{kSteps, "fields", {}, "fault", {{"lag", {"synch_freq"}}}};
  const AskedOption masters{kSteps, "fp16", {}, "masters"}, half{kSteps, "fp16", {"flat"}};
  const suite::Axis nodes{"node", {"1", "2", "3"}}, worlds{"ranks", {"3", "4", "6"}};
  const std::vector<AskedOption> base{{kSteps, "base", {}, "base"}, {kSteps, "mixing", {"uniform"}}};
  add_traces(
      suite,
      {{"equals_synchronous", "SLOWMO-011@2a0f", {nodes, worlds}, trace_equals_synchronous, local},
       {"periods", "SLOWMO-012@f92f", {{"every", {"1", "2", "3"}}, memory, ranks}, trace_periods, local},
       {"slow_in_nodes", "SLOWMO-014@7dd6", {nodes, memory, worlds}, trace_slow_in_nodes, local},
       {"shards_do_not_matter",
        "SLOWMO-015@98f5",
        {{"shards", {"1", "2", "5", "32"}}, {"ranks", {"2", "3", "5"}}},
        trace_shards_do_not_matter,
        local},
       {"shards_are_kept",
        "SLOWMO-016@891f",
        {{"shards", {"1", "2", "5", "32"}}, {"ranks", {"2", "3", "5"}}},
        trace_shards_are_kept,
        local},
       {"starts_together", "SLOWMO-017@db3e", {{"start", {"together", "apart"}}, memory, ranks}, trace_starts, local},
       {"begins_before_the_first_step",
        "SLOWMO-018@2949",
        {{"made", {"before", "in_time"}}, memory, ranks},
        trace_begins,
        local},
       {"gradients_are_complete", "SLOWMO-019@c74c", {nodes, worlds}, trace_gradients_of_nodes, local},
       {"halves_keep_errors",
        "SLOWMO-030@0519",
        {{"masters", {"flat", "list"}}, {"ranks", {"2", "3", "4"}}},
        trace_halves_keep_errors,
        with(masters)},
       {"buffers_of_rank_0", "SLOWMO-032@1b2c", {{"broadcast", {"yes", "no"}}, ranks}, trace_buffers, local},
       {"options_refused",
        "SLOWMO-035@1a22",
        {{"fault", slowmo_fault_names(bad_slowmo_options())}},
        trace_refuses,
        with(lag)},
       {"one_node", "SLOWMO-038@cdec", {{"base", {"localsgd", "sgp"}}, ranks}, trace_one_node, base},
       {"rate_of_0", "SLOWMO-039@2f24", {{"step", {"slow", "usual"}}, memory, ranks}, trace_rate_of_0, local},
       {"post_local",
        "SLOWMO-043@5582",
        {{"begin", {"0", "1", "4"}}, ranks},
        trace_post_local,
        with(field("localsgd_begin"))},
       {"every_parameter", "SLOWMO-045@d4ee", {{"tensors", {"one", "many"}}, ranks}, trace_average_of_many, local},
       {"order_of_the_ring",
        "SLOWMO-056@ce99",
        {{"elements", {"5", "12", "100"}}, {"ranks", {"3", "4"}}},
        trace_order_of_the_ring,
        with({kSteps, "arithmetic", {"separate"}}),
        "fairscale"},
       {"large_halves", "SLOWMO-057@e06b", {{"value", {"largest", "usual"}}, ranks}, trace_large_halves, with(half)},
       {"defaults", "SLOWMO-115@811f", {{"ranks", {"2", "3", "4"}}}, trace_defaults, local}});
  const std::vector<std::string> rules{"bmuf", "lookahead", "localsgd", "diloco"};
  add_traces(suite, {{"outer_as_published",
                      "SLOWMO-040@60c9",
                      {{"rule", rules}, ranks},
                      trace_outer,
                      with({kSteps, "outer", {}, "rule"})},
                     {"coincides",
                      "SLOWMO-041@f7c6",
                      {{"what", {"local_sgd", "synchronous_sgd", "lookahead", "bmuf", "diloco"}}, ranks},
                      trace_coincides,
                      with({kSteps, "outer", {"slowmo"}, "what", {{"diloco", {"diloco"}}}})},
                     {"rates_that_change",
                      "SLOWMO-042@ec9d",
                      {{"rule", {"slowmo", "bmuf"}}, {"rate", {"changes", "stays"}}, ranks},
                      trace_rates_that_change,
                      with({kSteps, "outer", {}, "rule"})}});
}

void add_gossip_traces(suite::Suite& suite) {
  const suite::Axis graph{"graph", {"ring", "hub", "skewed"}}, ranks{"ranks", {"2", "3", "5"}},
      lag{"lag", {"0", "1", "2"}};
  const AskedOption sgp{kSteps, "base", {"sgp"}}, uniform{kSteps, "mixing", {"uniform"}};
  const AskedOption mixing{kSteps, "mixing", {"uniform"}, "graph", {{"skewed", {"skew"}}}};
  const AskedOption by_base{kSteps, "base", {"sgp"}, "base", {{"localsgd", {"localsgd"}}, {"none", {"none"}}}};
  const std::vector<AskedOption> mixed{sgp, mixing};
  const auto with = [&](std::vector<std::string> fields) {
    return std::vector<AskedOption>{sgp, mixing, {kSteps, "fields", std::move(fields)}};
  };
  const AskedOption lag_without{kSteps, "fields", {}, "what", {{"lag_without_overlap", {"synch_freq"}}}};
  add_traces(
      suite,
      {{"estimates", "SLOWMO-020@c06e", {graph, ranks}, trace_estimates, mixed},
       {"conserves",
        "SLOWMO-021@4310",
        {graph, {"node", {"1", "2"}}, {"ranks", {"3", "4", "6"}}},
        trace_conserves,
        mixed},
       {"gossip_in_nodes",
        "SLOWMO-022@4a09",
        {graph, {"node", {"2", "3"}}, {"ranks", {"4", "6"}}},
        trace_estimates,
        mixed},
       {"exact_average",
        "SLOWMO-023@12f6",
        {graph, {"average", {"efficient", "whole", "none"}}, ranks},
        trace_slow_gossip,
        mixed},
       {"complete_graph_averages",
        "SLOWMO-024@2d4e",
        {{"algorithm", {"push_sum", "push_pull"}}, ranks},
        trace_complete_graph,
        {sgp, uniform, {kSteps, "graph", {"complete"}}}},
       {"evaluation_does_not_gossip", "SLOWMO-025@1d83", {graph, ranks}, trace_evaluates, with({"evaluate_after"})},
       {"overlap_drains",
        "SLOWMO-026@e533",
        {graph, lag, ranks},
        trace_drains,
        with({"accepts_stale", "synch_freq", "evaluate_after"})},
       {"lags", "SLOWMO-028@8d93", {graph, lag, ranks}, trace_lags, with({"accepts_stale", "synch_freq"})},
       {"halves_follow",
        "SLOWMO-031@c096",
        {{"base", {"localsgd", "sgp"}}, {"masters", {"flat", "list"}}, {"ranks", {"2", "3"}}},
        trace_halves_follow,
        {by_base, uniform, {kSteps, "fp16", {}, "masters"}}},
       {"resumes",
        "SLOWMO-034@1380",
        {{"base", {"localsgd", "sgp", "sgp_slow"}}, {"before", {"1", "3", "4"}}, {"ranks", {"2", "3"}}},
        trace_resumes,
        {by_base, uniform}},
       {"resumes_in_evaluation",
        "SLOWMO-111@d4f0",
        {{"base", {"localsgd", "sgp", "sgp_slow"}}, {"before", {"1", "4"}}, {"ranks", {"2", "3"}}},
        trace_resumes_in_evaluation,
        {by_base, uniform, {kSteps, "fields", {"resume_in_evaluation"}}}},
       {"state_lacks",
        "SLOWMO-053@64f7",
        {{"base", {"sgp_slow"}},
         {"entry", {"steps", "ps_weight", "is_numerator", "gossip_round", "slow"}},
         {"before", {"4"}},
         {"ranks", {"2", "3"}}},
        trace_state_lacks,
        {by_base, uniform, {kSteps, "fields", {"bad_state"}}}},
       {"state_below_zero",
        "SLOWMO-184@9e9a",
        {{"base", {"sgp_slow"}}, {"entry", {"steps", "gossip_round"}}, {"before", {"4"}}, {"ranks", {"2", "3"}}},
        trace_state_below_zero,
        {by_base, uniform, {kSteps, "fields", {"bad_state"}}}},
       {"reports",
        "SLOWMO-054@373f",
        {{"base", {"localsgd", "sgp", "sgp_slow"}}, {"ranks", {"2", "3"}}},
        trace_reports,
        {by_base, uniform}},
       {"options_taken",
        "SLOWMO-036@a4a9",
        {{"what",
          {"negative_momentum", "frequency_that_is_not_used", "shards_that_are_not_used", "more_shards_than_ranks",
           "lag_without_overlap", "frequency_of_another_base"}}},
        trace_takes,
        {{kSteps, "base", {"localsgd"}, "what", {{"frequency_of_another_base", {"sgp"}}}}, uniform, lag_without}},
       {"options_warned",
        "SLOWMO-037@9983",
        {{"what", {"nothing", "one_node", "one_node_slow", "frequencies", "no_base"}}},
        trace_warns,
        {{kSteps, "base", {"localsgd"}, "what", {{"no_base", {"none"}}}}, uniform}},
       {"plans",
        "SLOWMO-052@e7e9",
        {{"base", {"localsgd", "sgp", "none"}}, {"slow", {"yes", "no"}}, {"average", {"efficient", "whole", "none"}}},
        trace_plans,
        {by_base, uniform}}});
}

}  // namespace

void add_slowmo_trace_checks(suite::Suite& suite) {
  add_averaging_traces(suite);
  add_gossip_traces(suite);
  suite.add({.id = "slowmo.schedule.by_level",
             .verifies = {"SLOWMO-044@14e0"},
             .door = Door::adapter,
             .axes = {{"levels", {"one", "two"}}, {"warmup", {"0", "3"}}, {"ranks", {"4", "6"}}},
             .operations = {kScheduleOfAverages},
             .body = averages_by_level});
  suite.add({.id = "slowmo.schedule.refused",
             .verifies = {"SLOWMO-049@3a1a"},
             .door = Door::adapter,
             .axes = {{"fault", slowmo_fault_names(bad_levels())}},
             .operations = {kScheduleOfAverages},
             .body = averages_refused});
}

}  // namespace plumbline::conformance
