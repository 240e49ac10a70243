#include "reference/groups/conventions.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/groups/colossalai.hpp"
#include "reference/groups/megatron.hpp"
#include "reference/topology/topology.hpp"

namespace plumbline::groups {
namespace {

using topology::Topology;
using Lists = std::vector<std::vector<int>>;
using Names = std::vector<std::string>;

constexpr std::array<std::string_view, 5> kConventions{"deepspeed", "megatron", "colossalai", "torch", "plumbline"};
constexpr std::array<std::string_view, 4> kModes{"data", "pipeline", "tensor", "model"};

// Throws for sizes below 1 and for those of another world.
Topology grid_of(const Sizes& sizes) {
  Topology grid =
      Topology::row_major(Names{"pipeline", "data", "tensor"}, std::vector{sizes.pipeline, sizes.data, sizes.tensor});
  if (sizes.world && grid.world_size() != *sizes.world)
    throw InvalidArgument(fmt::format("groups: pipeline {} x data {} x tensor {} = {} ranks, but the world has {}",
                                      sizes.pipeline, sizes.data, sizes.tensor, grid.world_size(), *sizes.world));
  return grid;
}

// The groups of the grid (pipeline, data, tensor), tensor fastest, mode by mode in the given order.
Plan from_grid(std::string_view convention, const Topology& grid, std::span<const std::string_view> order) {
  Plan plan{.convention = std::string(convention), .world_size = grid.world_size()};
  for (const std::string_view mode : order) {
    const Names axes = mode == "model" ? Names{"pipeline", "tensor"} : Names{std::string(mode)};
    add_groups(plan, mode, grid.merged_groups(axes));
  }
  return plan;
}

// The creations of a plan that have a common name, under it.
Plan renamed(Plan plan, std::span<const std::pair<std::string_view, std::string_view>> names) {
  std::vector<Creation> creations;
  for (Creation& creation : plan.creations)
    for (const auto& [own, common] : names)
      if (creation.mode == own) creations.push_back({.mode = std::string(common), .ranks = std::move(creation.ranks)});
  plan.creations = std::move(creations);
  return plan;
}

Plan colossalai_of(const Sizes& sizes, int world_size) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames{
      {{"DATA", "data"}, {"MODEL", "model"}, {"PIPELINE", "pipeline"}, {"TENSOR", "tensor"}}};
  return renamed(colossalai_plan(world_size, {.pipeline = sizes.pipeline, .tensor = sizes.tensor}), kNames);
}

Plan megatron_of(const Sizes& sizes, int world_size) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNames{
      {{"DATA_PARALLEL_GROUP", "data"},
       {"MODEL_PARALLEL_GROUP", "model"},
       {"TENSOR_MODEL_PARALLEL_GROUP", "tensor"},
       {"PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"}}};
  return renamed(megatron_plan(world_size, {.tensor_model_parallel_size = sizes.tensor,
                                            .pipeline_model_parallel_size = sizes.pipeline}),
                 kNames);
}

Lists lists_of(const Plan& plan, std::string_view mode) {
  Lists lists;
  for (const Creation& creation : plan.creations)
    if (creation.mode == mode) lists.push_back(creation.ranks);
  std::ranges::sort(lists);
  return lists;
}

ModeComparison compare_mode(std::string_view mode, const std::vector<Plan>& plans) {
  ModeComparison comparison{.mode = std::string(mode)};
  for (const Plan& plan : plans) {
    Lists lists = lists_of(plan, mode);
    const auto alike = std::ranges::find(comparison.agreements, lists, &Agreement::groups);
    if (alike == comparison.agreements.end())
      comparison.agreements.push_back({.conventions = {plan.convention}, .groups = std::move(lists)});
    else
      alike->conventions.push_back(plan.convention);
  }
  return comparison;
}

bool same_lists(const Plan& one, const Plan& other) {
  return std::ranges::equal(one.creations, other.creations, {}, &Creation::ranks, &Creation::ranks);
}

}  // namespace

std::span<const std::string_view> convention_names() { return kConventions; }

Plan convention_plan(std::string_view convention, const Sizes& sizes) {
  const Topology grid = grid_of(sizes);
  if (convention == "deepspeed")
    return from_grid(convention, grid, std::array<std::string_view, 4>{"model", "data", "pipeline", "tensor"});
  if (convention == "torch")
    return from_grid(convention, grid, std::array<std::string_view, 4>{"pipeline", "data", "tensor", "model"});
  if (convention == "plumbline") return from_grid(convention, grid, kModes);
  if (convention == "megatron") return megatron_of(sizes, grid.world_size());
  if (convention == "colossalai") return colossalai_of(sizes, grid.world_size());
  throw Unsupported(
      fmt::format("groups: there is no convention '{}'; there are [{}]", convention, fmt::join(kConventions, ", ")));
}

Comparison compare_conventions(const Sizes& sizes, std::span<const std::string_view> conventions) {
  Comparison comparison{.sizes = sizes};
  for (const std::string_view convention : conventions.empty() ? convention_names() : conventions)
    comparison.plans.push_back(convention_plan(convention, sizes));
  for (const std::string_view mode : kModes) comparison.modes.push_back(compare_mode(mode, comparison.plans));
  comparison.same_order = std::ranges::all_of(
      comparison.plans, [&](const Plan& plan) { return same_lists(plan, comparison.plans.front()); });
  return comparison;
}

}  // namespace plumbline::groups
