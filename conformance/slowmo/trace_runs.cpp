#include "conformance/slowmo/trace_runs.hpp"

#include <utility>

#include <fmt/format.h>

#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;

namespace {

int nodes_of(const TracedRun& run) { return run.right.ranks / run.right.ranks_per_node; }
bool has_weights(const TracedRun& run) { return run.options.value("base", "localsgd") == "sgp" && nodes_of(run) > 1; }

// Its parameters divided, or multiplied, by its weight.
SlowMoValues by_weight(SlowMoValues values, double weight) {
  for (double& value : values) value *= weight;
  return values;
}
double weight_of(const json& row) { return row.contains("ps_weight") ? row["ps_weight"].get<double>() : 1; }
bool has_numerators(const json& row) { return row.contains("is_numerator") && row["is_numerator"].get<bool>(); }

// What each step's forward pass sees at each node.
std::vector<std::vector<SlowMoValues>> seen_in(const TracedRun& run, const std::vector<TracedState>& states) {
  const auto nodes = static_cast<std::size_t>(nodes_of(run));
  std::vector<std::vector<SlowMoValues>> seen{std::vector<SlowMoValues>(nodes, initial_values(run.training))};
  for (const TracedState& state : states) {
    std::vector<SlowMoValues>& of_step = seen.emplace_back();
    for (std::size_t node = 0; node < nodes; ++node)
      of_step.push_back(by_weight(state.numerators[node], 1 / state.weights[node]));
  }
  return seen;
}

// A run with its states and gradients, and what forward passes see where `right` says it.
struct Completed {
  explicit Completed(const TracedRun& run) : states(run.states), gradients(run.gradients) {
    if (!gradients.empty()) return;
    states = expected_run(run.training, run.right);
    seen = seen_in(run, states);
    for (int step = 0; step < run.training.steps; ++step) {
      auto& of_step = gradients.emplace_back();
      for (int rank = 0; rank < run.right.ranks; ++rank)
        of_step.push_back(gradients_at(seen[static_cast<std::size_t>(step)][node_of(run, rank)], rank, step));
    }
  }
  static std::size_t node_of(const TracedRun& run, int rank) {
    return static_cast<std::size_t>(rank / run.right.ranks_per_node);
  }
  std::vector<TracedState> states;
  std::vector<std::vector<SlowMoValues>> gradients, seen;
};

json question_from(const TracedRun& run, const Completed& all) {
  json args = run.options;
  args.update({{"world_size", run.right.ranks},
               {"nprocs_per_node", run.right.ranks_per_node},
               {"optimizer", {{"lr", run.training.rate(0)}}},
               {"ranks", json::array()},
               {"steps", json::array()},
               {"lrs", json::array()}});
  if (args.contains("nprocs_per_node") && run.options.contains("nprocs_per_node"))  // a wrong one
    args["nprocs_per_node"] = run.options["nprocs_per_node"];
  const bool has_nodes = run.right.ranks_per_node > 1;
  for (int rank = 0; rank < run.right.ranks; ++rank)
    args["ranks"].push_back({{"init_params", initial_values(run.training, run.training.starts_apart ? rank : 0)}});
  for (int step = 0; step < run.training.steps; ++step) {
    args["lrs"].push_back(run.training.rate(step));
    json& rows = args["steps"].emplace_back(json::array());
    for (int rank = 0; rank < run.right.ranks; ++rank) {
      json& row = rows.emplace_back(json::object());
      row[has_nodes ? "grads_local" : "grads"] =
          all.gradients[static_cast<std::size_t>(step)][static_cast<std::size_t>(rank)];
      if (run.buffer) row["buffer_before"] = run.buffer(step, rank);
    }
  }
  return args;
}

// Which elements a rank keeps slow buffers of: as many as these have.
std::string problem_of_slow(const json& slow, std::size_t elements) {
  const json &start = slow.at("start"), &end = slow.at("end");
  if (!start.is_number_integer() || !end.is_number_integer()) return "the range of slow buffers is no integers";
  const auto first = start.get<std::int64_t>(), last = end.get<std::int64_t>();
  const bool is_range = first >= 0 && first <= last && last <= static_cast<std::int64_t>(elements);
  if (is_range && slow.at("old_params").size() == static_cast<std::size_t>(last - first)) return {};
  return fmt::format("slow buffers of elements {} to {} have {} values", first, last, slow.at("old_params").size());
}

// The mean of the gradients of the rank's node, times the rate, taken from what it saw: before anything is exchanged.
SlowMoValues after_optimizer(const TracedRun& run, const Completed& all, int step, int rank) {
  const auto at = static_cast<std::size_t>(step);
  const int width = run.right.ranks_per_node, first = rank / width * width;
  SlowMoValues values = all.seen[at][Completed::node_of(run, rank)];
  for (int other = first; other < first + width; ++other)
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] -= run.training.rate(step) * all.gradients[at][static_cast<std::size_t>(other)][i] / width;
  return values;
}

std::string problem_of_row(const TracedRun& run, const Completed& all, const json& row, int step, int rank) {
  const auto at = static_cast<std::size_t>(step);
  const std::size_t node = Completed::node_of(run, rank);
  const auto differs = [&](const SlowMoValues& right, const SlowMoValues& got, const char* what) {
    const std::string words = difference_of(right, got, kTracedTolerance);
    return words.empty() ? words : fmt::format("{}: {}", what, words);
  };
  if (row.contains("error")) return "it is rejected: " + row["error"].dump();
  std::string problem;
  if (!all.seen.empty())
    problem = differs(all.seen[at][node], row.at("params_in_forward").get<SlowMoValues>(), "parameters in the forward");
  if (problem.empty() && run.judges_optimizer)
    problem = differs(after_optimizer(run, all, step, rank), row.at("params_after_optimizer").get<SlowMoValues>(),
                      "parameters after the optimizer");
  if (at < all.states.size() && problem.empty()) {
    problem = differs(all.states[at].numerators[node], numerators_of(row), "parameters");
    if (problem.empty() && has_weights(run))
      problem = differs({all.states[at].weights[node]}, {row.at("ps_weight").get<double>()}, "weight");
  }
  if (problem.empty() && row.contains("slow")) problem = problem_of_slow(row["slow"], row.at("params").size());
  if (problem.empty() && run.judge_row) return run.judge_row(row, step, rank);
  return problem;
}

}  // namespace

TracedRun traced_run(int ranks, int ranks_per_node) {
  return {.training = {},
          .right = {.ranks = ranks, .ranks_per_node = ranks_per_node},
          .options = {{"convention", "plumbline"},
                      {"base", "localsgd"},
                      {"mixing", "uniform"},
                      {"slowmo_momentum", 0.0},
                      {"slowmo_lr", 1.0}}};
}

PeerRows ring_of(int nodes) {
  PeerRows rows;
  for (int node = 0; node < nodes; ++node) rows.push_back({(node + 1) % nodes});
  return rows;
}

PeerRows hub_of(int nodes) {
  PeerRows rows{{1 % nodes}};
  for (int node = 1; node < nodes; ++node) {
    rows.push_back({0});
    if ((node + 1) % nodes != 0) rows.back().push_back(node + 1);
  }
  return rows;
}

std::function<std::vector<SlowMoValues>(int)> shares_of(const PeerRows& rows, bool skewed) {
  return [rows, skewed](int round) {
    std::vector<SlowMoValues> shares(rows.size(), SlowMoValues(rows.size()));
    for (std::size_t node = 0; node < rows.size(); ++node) {
      const double kept = skewed ? 1.0 / static_cast<double>(2 + node % 3) : 0.5;
      const auto to = static_cast<std::size_t>(rows[node][static_cast<std::size_t>(round) % rows[node].size()]);
      shares[node][node] += kept;
      shares[to][node] += 1 - kept;
    }
    return shares;
  };
}

TracedRun gossip_run_on_hub(int nodes) {
  TracedRun run = traced_run(nodes, 1);
  run.options.update({{"base", "sgp"}, {"phone_book", hub_of(nodes)}, {"regular", false}});
  run.right.mixing = shares_of(hub_of(nodes), false);
  return run;
}

json traced_question(const TracedRun& run) { return question_from(run, Completed(run)); }

const json& row_at(const json& result, std::size_t step, int rank) {
  return result.at("steps").at(step).at(static_cast<std::size_t>(rank));
}

SlowMoValues numerators_of(const json& row) {
  auto values = row.at("params").get<SlowMoValues>();
  return row.contains("ps_weight") && !has_numerators(row) ? by_weight(std::move(values), weight_of(row)) : values;
}
SlowMoValues estimate_of(const json& row) {
  auto values = row.at("params").get<SlowMoValues>();
  return has_numerators(row) ? by_weight(std::move(values), 1 / weight_of(row)) : values;
}

std::string problem_of_traced(suite::Adapter& adapter, const TracedRun& run) {
  const Completed all(run);
  return problem_of(adapter, "slowmo.trace", question_from(run, all), [&](const json& result) -> std::string {
    const json& steps = result.at("steps");
    if (steps.size() != static_cast<std::size_t>(run.training.steps))
      return fmt::format("{} steps, there must be {}", steps.size(), run.training.steps);
    for (int step = 0; step < run.training.steps; ++step) {
      const json& rows = steps.at(static_cast<std::size_t>(step));
      if (rows.size() != static_cast<std::size_t>(run.right.ranks))
        return fmt::format("step {} has {} ranks, there must be {}", step, rows.size(), run.right.ranks);
      for (int rank = 0; rank < run.right.ranks; ++rank)
        if (std::string words = problem_of_row(run, all, rows.at(static_cast<std::size_t>(rank)), step, rank);
            !words.empty())
          return fmt::format("step {}, rank {}: {}", step, rank, words);
      if (run.judge_step)
        if (std::string words = run.judge_step(rows, step); !words.empty()) return words;
    }
    return run.judge_result ? run.judge_result(result) : std::string();
  });
}

}  // namespace plumbline::conformance
