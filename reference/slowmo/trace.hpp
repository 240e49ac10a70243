// reference/slowmo/trace.hpp: ranks that are given their gradients, and what they have after each step.
//
// Model   Every rank of a world in this process has a SlowMo and an optimizer; a step takes the gradients as they are given,
//         whatever the parameters. Parameters of 16 bits have masters, which the optimizer works on.
// Source  The recorded runs of FairScale, which hold the gradients of each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/slowmo/optimizer.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::slowmo {

/// What one rank is given for a step: values of all parameters, one after the other.
struct TraceGradients {
  std::vector<double> values;
  bool is_local = false;              // still to be averaged inside the node
  std::vector<double> buffer_before;  // of the model, set before the forward; may be empty
};

struct Trace {
  enum class MastersAs : std::uint8_t { none, flat, list };
  Options options;
  OptimizerRule optimizer;
  std::vector<std::int64_t> elements;   // of each parameter
  std::vector<comm::DType> dtypes;      // of each
  MastersAs masters = MastersAs::none;  // of parameters of 16 bits
  /// Rates of each step, by group.
  std::vector<std::vector<double>> rates;
  /// Parameters from here on are the first group of two; 0: there is one group.
  std::size_t split = 0;
  std::vector<std::vector<double>> initial;            // of each rank
  std::vector<std::vector<TraceGradients>> gradients;  // of each step and rank
  bool begins_first = false;                           // slow buffers are made before the first step
  std::optional<std::int64_t> resume_at{};             // before that step all is saved, and loaded into another SlowMo
};

/// What one rank has in a step.
struct TraceRow {
  StepPlan plan;
  std::vector<double> in_forward;       // parameters
  std::vector<double> buffer_after;     // of the model, in the forward
  std::vector<double> after_optimizer;  // parameters
  std::vector<double> parameters, masters;
  double weight = 1;
  bool is_numerator = false;
  std::optional<SlowState> slow;
  std::string error, error_kind;  // where step() refused; nothing else is there then but the plan
};

struct TraceResult {
  std::vector<std::vector<TraceRow>> steps;    // by step and rank; the last one is the one that was refused
  std::vector<std::vector<Warning>> warnings;  // by rank
  bool has_weights = false;                    // push-sum's
};

/// Throws InvalidArgument for lists of other lengths, and what SlowMo throws when it is made.
[[nodiscard]] TraceResult run_trace(const Trace& trace);

/// The phone book of FairScale's recorded test graph "Hub": everybody's first peer is node 0, whose own is node 1; the second
/// is the next one of a ring.
[[nodiscard]] gossip::Graph hub_graph(int nodes, int peers);

}  // namespace plumbline::slowmo
