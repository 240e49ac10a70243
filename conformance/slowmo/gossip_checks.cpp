// Push-sum between nodes: estimates, weights, what is conserved; and what the ranks of a node have of it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/slowmo/slowmo_training.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using slowmo::BaseAlgorithm;
using suite::Context;

namespace {

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
  EXPECT_EQ(problem_of_run(context.world(), gossip.training, gossip.run), "") << "SLOWMO-020";
}

// The sum over the nodes changes by the gradients' steps alone.
void conserves(Context& context) {
  const Gossip gossip = gossip_in(context);
  const SlowMoRankResult trained = train_with_slowmo(context.world(), gossip.training);
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
  EXPECT_EQ(problem_of_run(context.world(), gossip.training, gossip.run), "") << "SLOWMO-022";
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
  EXPECT_EQ(problem_of_run(context.world(), gossip.training, gossip.run), "") << "SLOWMO-023";
}

void complete_graph_averages(Context& context) {
  const int nodes = context.size();
  SlowMoTraining training;
  training.options.base = BaseAlgorithm::sgp;
  training.options.slow_momentum = 0;
  training.options.push_sum = context.parameters().text("algorithm") == "push_sum";
  if (nodes > 1) training.options.graph = gossip::Graph({.kind = gossip::GraphKind::complete, .nodes = nodes});
  const ExpectedSlowMoRun run{.ranks = nodes, .average_every = 1};
  EXPECT_EQ(problem_of_run(context.world(), training, run), "") << "SLOWMO-024";
}

void evaluation_does_not_gossip(Context& context) {
  Gossip gossip = gossip_in(context);
  gossip.training.evaluates_after = [](int step) { return step % 2 == 1; };
  EXPECT_EQ(problem_of_run(context.world(), gossip.training, gossip.run), "") << "SLOWMO-025";
}

// The sum over all masters of what each has of an element.
SlowMoValues sum_over_masters(Context& context, SlowMoValues values, int ranks_per_node) {
  if (context.rank() % ranks_per_node != 0) std::ranges::fill(values, 0.0);
  const comm::Buffer sum{values.data(), static_cast<std::int64_t>(values.size()), comm::DType::f64};
  context.world().all_reduce(sum, sum, comm::ReduceOp::sum);
  return values;
}

// One round under way at most, and what is under way is added: what overlaps mixes the same mass.
void overlaps(Context& context) {
  Gossip gossip = gossip_in(context);
  gossip.training.options.overlap = gossip.training.options.accepts_stale = true;
  gossip.training.options.synch_freq = static_cast<int>(context.parameters().number("lag"));
  gossip.training.evaluates_after = [&](int step) { return step + 1 == gossip.training.steps; };
  const SlowMoRankResult trained = train_with_slowmo(context.world(), gossip.training);
  const int ranks_per_node = gossip.run.ranks_per_node, nodes = context.size() / ranks_per_node;
  const SlowMoStepResult& last = trained.steps.back();
  const double weight = sum_over_masters(context, {last.weight}, ranks_per_node).front();
  EXPECT_NEAR(weight, nodes, 1e-12 * nodes) << "SLOWMO-026: the sum of weights when all is added";
  // What is there at the end, and all that optimizers took, is what was there at the start.
  SlowMoValues mass = last.parameters;
  for (const SlowMoStepResult& step : trained.steps)
    for (std::size_t i = 0; i < mass.size(); ++i) mass[i] += step.descent[i];
  SlowMoValues start = initial_values(gossip.training);
  for (double& value : start) value *= nodes;
  EXPECT_EQ(difference_of(start, sum_over_masters(context, mass, ranks_per_node), 1e-11), "")
      << "SLOWMO-026: the sum of numerators, and what optimizers took from them";
  const auto count = static_cast<std::int64_t>(mass.size());
  SlowMoValues all(mass.size() * static_cast<std::size_t>(context.size()));
  context.world().all_gather({last.parameters.data(), count, comm::DType::f64},
                             {all.data(), static_cast<std::int64_t>(all.size()), comm::DType::f64});
  const auto master = all.begin() + context.rank() / ranks_per_node * ranks_per_node * count;
  EXPECT_EQ(last.parameters, SlowMoValues(master, master + count)) << "SLOWMO-026: what the master of the node has";
}

// What gossip that lags comes to, all nodes at once: a round takes from each node what it sends when it is handed over,
// before a forward, and gives it `lag` steps later, after a backward; the next one is handed over in the step after
// that.
std::vector<ExpectedSlowMoStep> lagging_run(const Gossip& gossip, int lag) {
  const auto nodes = static_cast<std::size_t>(gossip.run.ranks);
  ExpectedSlowMoStep now{std::vector<SlowMoValues>(nodes, initial_values(gossip.training)), SlowMoValues(nodes, 1.0)};
  const std::size_t elements = now.numerators.front().size();
  std::vector<SlowMoValues> coming(nodes, SlowMoValues(elements));
  SlowMoValues coming_weights(nodes);
  std::vector<ExpectedSlowMoStep> steps;
  for (int step = 0, round = 0; step < gossip.training.steps; ++step) {
    const bool hands_over = step % (lag + 1) == 0, collects = step % (lag + 1) == lag;
    if (hands_over) {
      const auto shares = gossip.run.mixing(round++);
      for (std::size_t to = 0; to < nodes; ++to)
        for (std::size_t from = 0; from < nodes; ++from) {
          if (from == to) continue;
          coming_weights[to] += shares[to][from] * now.weights[from];
          for (std::size_t i = 0; i < elements; ++i) coming[to][i] += shares[to][from] * now.numerators[from][i];
        }
      for (std::size_t node = 0; node < nodes; ++node) {
        now.weights[node] *= shares[node][node];
        for (double& value : now.numerators[node]) value *= shares[node][node];
      }
    }
    std::vector<SlowMoValues> gradients;
    for (std::size_t node = 0; node < nodes; ++node) {
      SlowMoValues seen = now.numerators[node];
      for (double& value : seen) value /= now.weights[node];
      gradients.push_back(gradients_at(seen, static_cast<int>(node), step));
    }
    for (std::size_t node = 0; node < nodes; ++node) {
      if (collects) now.weights[node] += std::exchange(coming_weights[node], 0);
      for (std::size_t i = 0; i < elements; ++i) {
        if (collects) now.numerators[node][i] += std::exchange(coming[node][i], 0);
        now.numerators[node][i] -= gossip.training.rate(step) * gradients[node][i];
      }
    }
    steps.push_back(now);
  }
  return steps;
}

void lags(Context& context) {
  Gossip gossip = gossip_in(context);
  const int lag = static_cast<int>(context.parameters().number("lag"));
  gossip.training.options.overlap = gossip.training.options.accepts_stale = true;
  gossip.training.options.synch_freq = lag;
  const SlowMoRankResult trained = train_with_slowmo(context.world(), gossip.training);
  const auto expected = lagging_run(gossip, lag);
  const auto node = static_cast<std::size_t>(context.rank());
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_EQ(difference_of(expected[step].numerators[node], trained.steps[step].parameters, 1e-11), "")
        << "SLOWMO-028: after step " << step;
    EXPECT_NEAR(trained.steps[step].weight, expected[step].weights[node], 1e-12) << "SLOWMO-028: after step " << step;
  }
}

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

// A wire that can be cut for good, with all groups that are made of it.
struct Wires {
  std::atomic<bool> are_cut = false;
  std::atomic<int> tries = 0;  // after the cut
  std::mutex mutex;
  std::vector<Clock::time_point> times;  // of the tries

  void note_try() {
    ++tries;
    const std::lock_guard hold(mutex);
    times.push_back(Clock::now());
  }
  /// The pauses between tries.
  [[nodiscard]] std::vector<Milliseconds> pauses() {
    const std::lock_guard hold(mutex);
    std::vector<Milliseconds> list;
    for (std::size_t i = 1; i < times.size(); ++i) list.emplace_back(times[i] - times[i - 1]);
    return list;
  }
};
constexpr const char* kCut = "a wire that a check cut";

class CutForGood final : public comm::CommunicatorDecorator {
 public:
  CutForGood(std::unique_ptr<comm::Communicator> inner, Wires& wires)
      : CommunicatorDecorator(std::move(inner)), wires_(wires) {}

 private:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    if (!wires_.are_cut) return CommunicatorDecorator::do_start(calls);
    wires_.note_try();
    throw RuntimeFailure(kCut);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<CutForGood>(std::move(group), wires_);
  }
  Wires& wires_;
};

// Of two seconds, no pause exceeds a quarter: pauses of 1, 2, 4, … 256 ms are followed by three of 500 ms, the last of
// which the time cuts short. No pause may end early. That none is longer shows most in the second of 500 ms, which
// doubling makes 1 s: returns what it took, in ms, at the rank that was the most punctual.
double judged_pause(Context& context, Wires& wires) {
  constexpr std::size_t kDoubled = 9, kJudged = 10;
  constexpr double kLongest = 500;
  const std::vector<Milliseconds> pauses = wires.pauses();
  for (std::size_t i = 0; i + 1 < pauses.size(); ++i)
    EXPECT_GE(pauses[i].count(), i < kDoubled ? std::exp2(static_cast<double>(i)) : kLongest)
        << "SLOWMO-110: ms of pause " << i;
  double took = pauses.size() > kJudged ? pauses[kJudged].count() : std::numeric_limits<double>::infinity();
  context.world().all_reduce({&took, 1, comm::DType::f64}, {&took, 1, comm::DType::f64}, comm::ReduceOp::min);
  return took;
}

// Trains until the wire is cut, and returns the judged pause. The rounds before the cut make the number of the round
// one that nothing else has.
double cut_in_round(Context& context, int round, slowmo::Options options) {
  options.heartbeat = std::chrono::seconds(2);
  SlowMoValues values{1.0 + context.rank(), 2};
  const comm::Buffer parameters{values.data(), 2, comm::DType::f64};
  Wires wires;
  CutForGood world(context.world().duplicate(), wires);
  slowmo::SlowMo slowmo(
      world, {.parameters = {parameters}}, [&] { return std::vector<slowmo::ParameterGroup>{{{parameters}, 0.25}}; },
      options);
  const auto step = [&] {
    slowmo.before_forward();
    slowmo.after_backward({});
    slowmo.step();
  };
  for (int done = 0; done < round; ++done) step();
  context.world().barrier();
  wires.are_cut = true;
  const int ranks = context.size(), next = (context.rank() + 1) % ranks, before = (context.rank() + ranks - 1) % ranks;
  expect_rejected<comm::TimeoutError>("SLOWMO-110", step,
                                      {std::to_string(round), std::to_string(next), std::to_string(before), kCut});
  return judged_pause(context, wires);
}

// A busy machine is late, and has three attempts. Where nothing is cut, nobody is given up, however late.
void gives_up(Context& context) {
  constexpr int kRound = 7, kAttempts = 3;
  constexpr double kLongest = 500, kLate = 250;  // ms
  Gossip gossip = gossip_over("ring", context.size(), 1);
  slowmo::Options& options = gossip.training.options;
  options.overlap = options.accepts_stale = context.parameters().text("overlap") == "yes";
  if (context.parameters().text("wire") != "cut") {
    EXPECT_NO_THROW((void)train_with_slowmo(context.world(), gossip.training)) << "SLOWMO-110";
    return;
  }
  double took = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < kAttempts && took > kLongest + kLate; ++attempt)
    took = cut_in_round(context, kRound, options);
  EXPECT_LE(took, kLongest + kLate) << "SLOWMO-110: ms of a pause";
}

// Fails at first as a wire does, `passing` times, and then as a device that is lost.
class LosesDevice final : public comm::CommunicatorDecorator {
 public:
  LosesDevice(std::unique_ptr<comm::Communicator> inner, Wires& wires, int passing)
      : CommunicatorDecorator(std::move(inner)), wires_(wires), passing_(passing) {}

 private:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    if (!wires_.are_cut) return CommunicatorDecorator::do_start(calls);
    if (wires_.tries++ < passing_) throw RuntimeFailure(kCut);
    throw DeviceFailure("a device that a check lost");
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<LosesDevice>(std::move(group), wires_, passing_);
  }
  Wires& wires_;
  int passing_;
};

void device_is_lost(Context& context) {
  Gossip gossip = gossip_over("ring", context.size(), 1);
  slowmo::Options& options = gossip.training.options;
  options.overlap = options.accepts_stale = context.parameters().text("overlap") == "yes";
  options.heartbeat = std::chrono::seconds(4);
  const int passing = static_cast<int>(context.parameters().number("cuts"));
  SlowMoValues values{1.0 + context.rank(), 2};
  const comm::Buffer parameters{values.data(), 2, comm::DType::f64};
  Wires wires;
  LosesDevice world(context.world().duplicate(), wires, passing);
  slowmo::SlowMo slowmo(
      world, {.parameters = {parameters}}, [&] { return std::vector<slowmo::ParameterGroup>{{{parameters}, 0.25}}; },
      options);
  context.world().barrier();
  wires.are_cut = true;
  std::string said = "nothing was said";
  try {
    slowmo.before_forward();
    slowmo.after_backward({});
    slowmo.step();
  } catch (const DeviceFailure& error) {
    said = error.what();
  } catch (const Error& error) {
    said = fmt::format("another error: {}", error.what());
  }
  EXPECT_THAT(said, testing::HasSubstr("a device that a check lost")) << "SLOWMO-050";
  EXPECT_EQ(wires.tries, passing + 1) << "SLOWMO-050: attempts";
}

// Fails the starts of calls that it is told to, before anything of them is made.
class Cut final : public comm::CommunicatorDecorator {
 public:
  Cut(std::unique_ptr<comm::Communicator> inner, std::function<bool(int start)> fails)
      : CommunicatorDecorator(std::move(inner)), fails_(std::move(fails)) {}

 private:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    if (fails_(starts_++)) throw RuntimeFailure(kCut);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
  std::function<bool(int start)> fails_;
  int starts_ = 0;
};

// The last rank's rounds are cut, now and then; all come to the same as if they were not.
// What is made again often has all the time that there is.
void made_again(Context& context) {
  Gossip gossip = gossip_in(context);
  const bool once = context.parameters().text("when") == "once";
  if (!once) gossip.training.options.heartbeat = std::chrono::nanoseconds::max();
  const bool is_last = context.rank() + 1 == context.size();
  Cut wire(context.world().duplicate(), [=](int start) { return is_last && (once ? start == 3 : start % 3 != 0); });
  EXPECT_EQ(problem_of_run(wire, gossip.training, gossip.run), "") << "SLOWMO-027";
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
  add("gossip.estimates", "SLOWMO-020@c06e", {graph}, estimates);
  add("gossip.conserves", "SLOWMO-021@4310", {graph}, conserves, {2, 3, 4});
  add("gossip.inside_nodes", "SLOWMO-022@4a09", {graph, {"node", {"1", "2"}}}, inside_nodes, {4, 6});
  add("gossip.exact_average", "SLOWMO-023@12f6", {graph, {"average", {"efficient", "whole", "none"}}}, exact_average,
      {2, 3});
  add("gossip.complete_graph_averages", "SLOWMO-024@2d4e", {{"algorithm", {"push_sum", "push_pull"}}},
      complete_graph_averages, {1, 2, 3, 5});
  add("gossip.evaluation_does_not_gossip", "SLOWMO-025@1d83", {graph}, evaluation_does_not_gossip, {2, 3});
  add("gossip.overlaps", "SLOWMO-026@e533", {graph, {"lag", {"0", "2"}}, {"node", {"1", "2"}}}, overlaps, {2, 3, 4});
  add("gossip.lags", "SLOWMO-028@8d93", {graph, {"lag", {"1", "2", "3"}}}, lags, {2, 3});
  suite.add({.id = "slowmo.gossip.gives_up",
             .verifies = {"SLOWMO-110@89a7"},
             .axes = {{"overlap", {"no", "yes"}}, {"wire", {"cut", "whole"}}, suite::worlds({2, 3})},
             .needs = {comm::Capability::thread_multiple},
             .spoils_group = true,
             .body = gives_up});
  suite.add({.id = "slowmo.gossip.device_is_lost",
             .verifies = {"SLOWMO-050@0189"},
             .axes = {{"overlap", {"no", "yes"}}, {"cuts", {"0", "1", "3"}}, suite::worlds({2, 3})},
             .needs = {comm::Capability::thread_multiple},
             .spoils_group = true,
             .body = device_is_lost});
  add("gossip.made_again", "SLOWMO-027@ab42", {graph, {"when", {"once", "often"}}}, made_again, {2, 3});
}

}  // namespace plumbline::conformance
