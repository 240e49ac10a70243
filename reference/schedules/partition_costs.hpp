// reference/schedules/partition_costs.hpp: what the choice of a partition costs: each candidate's makespan and bubble.
//
// Model   A schedule says who does what in which order; the layers of a stage say how long it takes. The same schedule is
//         simulated with the stages of each candidate: an even number of layers, even parameters, the shortest period
//         (measured_partition.hpp). Messages are those of the layer in front of each boundary, activations and
//         parameters those of all of a stage's layers.
// Note    The shortest period makes the steady state shortest, and GPipe where forward and backward are in proportion.
//         Beyond that a schedule's makespan also depends on what is first and last; the comparison says how much.
// Cost    A simulation a candidate.
// Source  Huang et al., arXiv:1811.06965 (the bubble); Harlap et al., arXiv:1806.03377 (measured layers).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/schedules/measured_partition.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules {

/// `base` with the times, message sizes and activations of the stages that the boundaries make. Throws InvalidArgument
/// for boundaries that are none of these layers.
[[nodiscard]] SimulationOptions options_of(std::span<const LayerCost> layers, const Boundaries& boundaries,
                                           const SimulationOptions& base = {});

struct PartitionFigures {
  std::string name;  // "uniform", "parameters", "optimal", or as given
  Boundaries boundaries;
  double slowest_stage = 0;  // seconds of forward and backward of a micro-batch
  double makespan = 0;
  double barrier_bubble = 0;  // of the busiest rank
  double idle_part = 0;       // of all ranks' time until the makespan, the part in which nothing is computed
  double peak_bytes = 0;      // of the fullest rank: its stages' parameters and the activations that it keeps at once
};
/// Throws InvalidArgument for boundaries of other layers than given or other stages than the schedule's, and what
/// simulate() throws.
[[nodiscard]] PartitionFigures figures_of(const Schedule& schedule, std::span<const LayerCost> layers,
                                          const std::string& name, const Boundaries& boundaries,
                                          const SimulationOptions& base = {});

/// "uniform", "parameters" (the heaviest stage as light as can be) and "optimal", in this order. The memory limit is
/// for "optimal" alone. Throws InvalidArgument for more stages than layers, for a limit where a rank has several stages,
/// and what partition_measured() throws.
[[nodiscard]] std::vector<PartitionFigures> compare_partitions(const Schedule& schedule,
                                                               std::span<const LayerCost> layers,
                                                               std::optional<std::int64_t> memory = {},
                                                               const SimulationOptions& base = {});

}  // namespace plumbline::schedules
