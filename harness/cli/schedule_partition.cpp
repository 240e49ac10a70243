#include "harness/cli/schedule_partition.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using schedules::Boundaries;
using schedules::PartitionFigures;

constexpr std::string_view kOfType = "type:";
constexpr std::size_t kShownStages = 64;

Boundaries even_types(const LayerFile& layers, const std::string& expression, int stages) {
  std::vector<double> weights;
  for (const bool found : schedules::types_with(layers.descriptions, expression)) weights.push_back(found ? 1 : 0);
  return schedules::partition_optimal(weights, stages);
}

void require_method(const std::string& method) {
  if (method != "uniform" && method != "parameters" && method != "optimal" && !method.starts_with(kOfType))
    throw InvalidArgument(
        fmt::format("--partition '{}'; it must be uniform, parameters, optimal or type:EXPRESSION", method));
}

// "3 4 4 3", or what they are between.
std::string sizes_of(const Boundaries& boundaries) {
  constexpr std::size_t kShownSizes = 16;
  std::vector<int> sizes;
  for (std::size_t stage = 1; stage < boundaries.size(); ++stage)
    sizes.push_back(boundaries[stage] - boundaries[stage - 1]);
  const auto [least, most] = std::ranges::minmax(sizes);
  return sizes.size() <= kShownSizes ? fmt::format("{}", fmt::join(sizes, " ")) : fmt::format("{} to {}", least, most);
}

std::string fit_of(const PartitionChoice& choice, const PartitionFigures& candidate) {
  if (!choice.memory) return "";
  const double missing = candidate.peak_bytes - static_cast<double>(*choice.memory);
  return missing <= 0 ? "  fits" : fmt::format("  {:.15g} too many", missing);
}

std::string stages_of(const PartitionChoice& choice) {
  const Boundaries& boundaries = choice.candidates[choice.chosen].boundaries;
  const schedules::SimulationOptions options = schedules::options_of(choice.layers.costs, boundaries);
  std::string text;
  for (std::size_t stage = 0; stage < std::min(options.stages.size(), kShownStages); ++stage) {
    const auto begin = static_cast<std::size_t>(boundaries[stage]),
               end = static_cast<std::size_t>(boundaries[stage + 1]);
    const std::string layers = begin == end       ? "no layer"
                               : begin + 1 == end ? choice.layers.names[begin]
                                                  : fmt::format("{} to {}, {} layers", choice.layers.names[begin],
                                                                choice.layers.names[end - 1], end - begin);
    text += fmt::format("stage {}: {}; F {:.6g} s, B {:.6g} s\n", stage, layers, options.stages[stage].forward,
                        *options.stages[stage].backward);
  }
  if (options.stages.size() > kShownStages) text += fmt::format("and {} more\n", options.stages.size() - kShownStages);
  return text;
}

}  // namespace

PartitionChoice choose_partition(const ScheduleRequest& request, LayerFile layers, const std::string& method,
                                 std::optional<std::int64_t> memory) {
  require_method(method);
  if (request.shape.stages_per_rank > 1 && memory)
    throw InvalidArgument("--memory-bytes: it holds where each rank has one stage; this schedule has several");
  const schedules::Schedule schedule = made_for(request, [&] { return schedule_of(request); });
  schedules::SimulationOptions base = request.options;
  base.forward_only = request.schedule_kind == schedules::ScheduleKind::forward_only;
  PartitionChoice choice{.layers = std::move(layers), .memory = memory};
  try {
    choice.candidates = schedules::compare_partitions(schedule, choice.layers.costs, memory, base);
    if (method.starts_with(kOfType))
      choice.candidates.push_back(
          schedules::figures_of(schedule, choice.layers.costs, method,
                                even_types(choice.layers, method.substr(kOfType.size()), schedule.stages), base));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("--layers '{}': {}", choice.layers.file, error.what()));
  } catch (const NotFound& error) {
    throw NotFound(fmt::format("--layers '{}': {}", choice.layers.file, error.what()));
  }
  choice.chosen = static_cast<std::size_t>(std::ranges::find(choice.candidates, method, &PartitionFigures::name) -
                                           choice.candidates.begin());
  return choice;
}

ScheduleRequest with_partition(ScheduleRequest request, const PartitionChoice& choice) {
  request.options =
      schedules::options_of(choice.layers.costs, choice.candidates[choice.chosen].boundaries, request.options);
  return request;
}

std::string partition_text(const PartitionChoice& choice) {
  std::size_t name = std::string_view("partition").size(), sizes = std::string_view("layers").size();
  for (const PartitionFigures& candidate : choice.candidates) {
    name = std::max(name, candidate.name.size());
    sizes = std::max(sizes, sizes_of(candidate.boundaries).size());
  }
  std::string text = fmt::format("  {:<{}}  {:<{}} {:>12} {:>9} {:>9} {:>7} {:>12}\n", "partition", name, "layers",
                                 sizes, "slowest", "makespan", "bubble", "idle", "peak bytes");
  for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
    const PartitionFigures& candidate = choice.candidates[i];
    text += fmt::format("{} {:<{}}  {:<{}} {:>12.6g} {:>9.6g} {:>9.6g} {:>6.1f}% {:>12.15g}{}\n",
                        i == choice.chosen ? '*' : ' ', candidate.name, name, sizes_of(candidate.boundaries), sizes,
                        candidate.slowest_stage, candidate.makespan, candidate.barrier_bubble,
                        100 * candidate.idle_part, candidate.peak_bytes, fit_of(choice, candidate));
  }
  return text +
         "seconds; slowest: the slowest stage's forward and backward; bubble: of the busiest rank; idle: of all ranks' "
         "time; "
         "peak bytes: of the fullest rank\n" +
         stages_of(choice) + '\n';
}

}  // namespace plumbline::cli
