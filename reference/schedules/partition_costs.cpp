#include <algorithm>

#include <fmt/format.h>

#include "reference/schedules/partition.hpp"

namespace plumbline::schedules {
namespace {

void require_partition(std::span<const LayerCost> layers, const Boundaries& boundaries, int stages) {
  if (!is_partition(boundaries, static_cast<int>(layers.size()), stages))
    throw InvalidArgument(
        fmt::format("partition: the boundaries do not give {} layers to {} stages", layers.size(), stages));
}

StageLimits limits_of(const Schedule& schedule, std::optional<std::int64_t> memory, const SimulationOptions& base) {
  StageLimits limits{.kept = std::vector<int>(static_cast<std::size_t>(schedule.stages), 0)};
  limits.bandwidth = base.links.bandwidth;
  if (!memory) return limits;
  limits.memory = *memory;
  limits.kept = kept_by(schedule, base.forward_only);
  return limits;
}

Boundaries even_parameters(std::span<const LayerCost> layers, int stages) {
  std::vector<double> weights;
  for (const LayerCost& layer : layers) weights.push_back(static_cast<double>(layer.parameters));
  return partition_optimal(weights, stages);
}

}  // namespace

SimulationOptions options_of(std::span<const LayerCost> layers, const Boundaries& boundaries,
                             const SimulationOptions& base) {
  const auto stages = boundaries.size() - 1;
  require_partition(layers, boundaries, static_cast<int>(stages));
  SimulationOptions options = base;
  options.stages.assign(stages, {.forward = 0, .input_gradient = 0, .weight_gradient = 0, .backward = 0});
  options.activation_bytes.assign(stages, 0);
  options.message_bytes.assign(std::max<std::size_t>(stages, 2) - 1, 0);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    StageTimes& times = options.stages[stage];
    const auto end = static_cast<std::size_t>(boundaries[stage + 1]);
    for (auto i = static_cast<std::size_t>(boundaries[stage]); i < end; ++i) {
      times.forward += layers[i].forward;
      *times.backward += layers[i].backward;
      times.weight_gradient += layers[i].weight_gradient;
      times.input_gradient += layers[i].backward - layers[i].weight_gradient;
      options.activation_bytes[stage] += static_cast<double>(layers[i].activation_bytes);
    }
    if (stage + 1 < stages && end > 0) options.message_bytes[stage] = static_cast<double>(layers[end - 1].output_bytes);
  }
  return options;
}

PartitionFigures figures_of(const Schedule& schedule, std::span<const LayerCost> layers, const std::string& name,
                            const Boundaries& boundaries, const SimulationOptions& base) {
  require_partition(layers, boundaries, schedule.stages);
  const SimulationOptions options = options_of(layers, boundaries, base);
  const Timeline timeline = simulate(schedule, options);
  PartitionFigures figures{.name = name, .boundaries = boundaries};
  std::vector<double> bytes;
  double work = 0;
  for (const RankTimes& rank : timeline.ranks) {
    bytes.push_back(rank.peak_activation_bytes);
    work += rank.work;
  }
  for (std::size_t stage = 0; stage < options.stages.size(); ++stage) {
    figures.slowest_stage =
        std::max(figures.slowest_stage, options.stages[stage].forward + *options.stages[stage].backward);
    for (int i = boundaries[stage]; i < boundaries[stage + 1]; ++i)
      bytes[static_cast<std::size_t>(schedule.stage_to_rank[stage])] +=
          static_cast<double>(layers[static_cast<std::size_t>(i)].parameter_bytes);
  }
  figures.makespan = timeline.makespan;
  figures.barrier_bubble = timeline.barrier_bubble();
  const double all = timeline.makespan * static_cast<double>(timeline.ranks.size());
  figures.idle_part = all > 0 ? 1 - work / all : 0;
  figures.peak_bytes = std::ranges::max(bytes);
  return figures;
}

std::vector<PartitionFigures> compare_partitions(const Schedule& schedule, std::span<const LayerCost> layers,
                                                 std::optional<std::int64_t> memory, const SimulationOptions& base) {
  const auto items = static_cast<int>(layers.size());
  // First: it refuses what none of them can be made of.
  const Boundaries optimal = partition_measured(layers, limits_of(schedule, memory, base));
  std::vector<PartitionFigures> candidates;
  for (const auto& [name, boundaries] :
       {std::pair<const char*, Boundaries>{"uniform", partition_uniform(items, schedule.stages)},
        {"parameters", even_parameters(layers, schedule.stages)},
        {"optimal", optimal}})
    candidates.push_back(figures_of(schedule, layers, name, boundaries, base));
  return candidates;
}

}  // namespace plumbline::schedules
