// conformance/slowmo/trace_runs.hpp: training runs that an adapter is asked for (slowmo.trace), and what is judged.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "conformance/slowmo/slowmo_training.hpp"
#include "harness/suite/check.hpp"

namespace plumbline::conformance {

using TracedState = ExpectedSlowMoStep;

/// Answers are in f32, and no value of these runs is large.
inline constexpr double kTracedTolerance = 1e-4;

struct TracedRun {
  SlowMoTraining training;  // of it sizes, steps, rates, and whether ranks start apart
  ExpectedSlowMoRun right;
  nlohmann::json options;  // of the question, beside what these say
  // Where `right` has no word for it: what nodes have after each step, as far as it is judged, and each rank's
  // gradients.
  std::vector<TracedState> states{};
  std::vector<std::vector<SlowMoValues>> gradients{};
  bool judges_optimizer = false;                                            // what ranks have before they average, too
  std::function<SlowMoValues(int step, int rank)> buffer{};                 // of the model, before the forward pass
  std::function<std::string(const nlohmann::json&, int, int)> judge_row{};  // a rank's row of a step
  std::function<std::string(const nlohmann::json&, int)> judge_step{};      // the rows of all ranks
  std::function<std::string(const nlohmann::json&)> judge_result{};
};

/// LocalSGD without slow momentum, until options and `right` say otherwise.
[[nodiscard]] TracedRun traced_run(int ranks, int ranks_per_node);

/// Peers of each node, one a round. Of a hub node 0 sends to node 1, others alternately to node 0 and the next one.
using PeerRows = std::vector<std::vector<int>>;
[[nodiscard]] PeerRows ring_of(int nodes);
[[nodiscard]] PeerRows hub_of(int nodes);
/// Column-stochastic (to, from): each node keeps a half, or where it is skewed 1 / (2 + node mod 3).
[[nodiscard]] std::function<std::vector<SlowMoValues>(int round)> shares_of(const PeerRows& rows, bool skewed);
/// Gossip over a hub, whose weights do not stay 1.
[[nodiscard]] TracedRun gossip_run_on_hub(int nodes);

[[nodiscard]] nlohmann::json traced_question(const TracedRun& run);
/// The row of a rank. Throws as at() of a list.
[[nodiscard]] const nlohmann::json& row_at(const nlohmann::json& result, std::size_t step, int rank);
/// What a row says of the rank's parameters, whether it has them as numerators or as estimates.
[[nodiscard]] SlowMoValues numerators_of(const nlohmann::json& row);
[[nodiscard]] SlowMoValues estimate_of(const nlohmann::json& row);

/// Asks for the run; "" where all that is judged is right.
[[nodiscard]] std::string problem_of_traced(suite::Adapter& adapter, const TracedRun& run);

}  // namespace plumbline::conformance
