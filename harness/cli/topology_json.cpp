// `plumbline topology --format json`. Lists of ranks are written group by group, without a tree of values in between.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/cli/topology_view.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using Json = nlohmann::ordered_json;

Json axes_json(const TopologyView& view) {
  Json axes = Json::array();
  for (const topology::Axis& axis : view.topology.axes())
    axes.push_back({{"name", axis.name}, {"size", axis.size}, {"stride", axis.stride}});
  return axes;
}

Json placement_json(const PlacementView& placement) {
  Json json{{"bytes", placement.volume},
            {"crossing_bytes", placement.given.crossing_bytes},
            {"total", placement.given.total}};
  if (placement.best) json["best"] = {{"axes", placement.best->axes}, {"total", placement.best->total}};
  return json;
}

// What is small at any world size.
Json head_json(const TopologyView& view) {
  Json head{{"convention", view.convention}, {"world_size", view.topology.world_size()}, {"axes", axes_json(view)}};
  if (view.nodes) {
    head["ranks_per_node"] = view.ranks_per_node;
    head["nodes"] = node_count(view);
  }
  if (view.placement) head["placement"] = placement_json(*view.placement);
  return head;
}

void append_lists(std::string& text, const GroupKind& kind) {
  bool first = true;
  kind.groups.for_each([&](std::span<const int> ranks) {
    fmt::format_to(std::back_inserter(text), "{}[{}]", first ? "" : ",", fmt::join(ranks, ","));
    first = false;
  });
}

// One object, with the lists last.
void append_kind(std::string& text, const TopologyView& view, const GroupKind& kind, int first_creation) {
  Json head{{"axes", kind.axes}, {"count", kind.groups.size()}, {"size", kind.groups.group_size()}};
  if (first_creation >= 0) head["first"] = first_creation;
  if (view.nodes) head["crossing"] = crossing_groups(view, kind);
  std::string object = head.dump();
  object.pop_back();
  text += object + ",\"ranks\":[";
  append_lists(text, kind);
  text += "]}";
}

void append_coordinates(std::string& text, const topology::Topology& topology) {
  topology.for_each_coordinate([&](int rank, std::span<const int> positions) {
    fmt::format_to(std::back_inserter(text), "{}[{}]", rank == 0 ? "" : ",", fmt::join(positions, ","));
  });
}

Json getters_json(const topology::GridRank& place, const std::vector<int>& model) {
  const auto getter = [](int rank, int size, const std::vector<int>& ranks) {
    return Json{{"rank", rank}, {"world_size", size}, {"ranks", ranks}};
  };
  const auto pipe = place.get_pipe_parallel_group_ranks();
  const auto slice = place.get_slice_parallel_group_ranks();
  return {{"pipe_parallel", getter(place.get_pipe_parallel_rank(), place.get_pipe_parallel_world_size(), pipe)},
          {"pipeline_model_parallel",
           getter(place.get_pipeline_model_parallel_rank(), place.get_pipeline_model_parallel_world_size(), pipe)},
          {"data_parallel", getter(place.get_data_parallel_rank(), place.get_data_parallel_world_size(),
                                   place.get_data_parallel_group_ranks())},
          {"model_parallel", getter(place.get_model_parallel_rank(), place.get_model_parallel_world_size(), model)},
          {"slice_parallel", getter(place.get_slice_parallel_rank(), place.get_slice_parallel_world_size(), slice)},
          {"tensor_model_parallel",
           getter(place.get_tensor_model_parallel_rank(), place.get_tensor_model_parallel_world_size(), slice)}};
}

Json along_json(const TopologyView& view, int rank) {
  Json along = Json::array();
  for (const GroupKind& kind : view.along) {
    const std::string& axis = kind.axes.front();
    const std::vector<int> ranks = view.topology.group_of(rank, axis);
    const auto place = static_cast<std::size_t>(view.topology.position(rank, axis));
    Json entry{{"axis", axis},
               {"group", view.topology.group_index(rank, axis)},
               {"place", place},
               {"previous", ranks[(place + ranks.size() - 1) % ranks.size()]},
               {"next", ranks[(place + 1) % ranks.size()]},
               {"ranks", ranks}};
    if (view.nodes) entry["crosses_nodes"] = crosses_nodes(view, ranks);
    along.push_back(std::move(entry));
  }
  return along;
}

Json memberships_json(const TopologyView& view, int rank) {
  Json memberships = Json::array();
  int first = 0;
  for (const GroupKind& kind : view.creations) {
    const int index = index_in(kind, view.topology, rank);
    memberships.push_back({{"axes", kind.axes}, {"creation", first + index}, {"ranks", kind.groups[index]}});
    first += kind.groups.size();
  }
  return memberships;
}

}  // namespace

std::string topology_json(const TopologyView& view) {
  if (view.topology.world_size() > kMostJsonRanks)
    throw InvalidArgument(
        fmt::format("--format json: {} ranks; it lists every group, of at most {} ranks: text sums up",
                    view.topology.world_size(), kMostJsonRanks));
  std::string text = head_json(view).dump();
  text.pop_back();
  text += ",\n\"coordinates\":[";
  append_coordinates(text, view.topology);
  text += "],\n\"groups\":[";
  for (const GroupKind& kind : view.along) {
    text += &kind == &view.along.front() ? "\n" : ",\n";
    append_kind(text, view, kind, -1);
  }
  text += "],\n\"creations\":[";
  int first = 0;
  for (const GroupKind& kind : view.creations) {
    text += &kind == &view.creations.front() ? "\n" : ",\n";
    append_kind(text, view, kind, first);
    first += kind.groups.size();
  }
  return text + "]}\n";
}

std::string rank_json(const TopologyView& view, int rank) {
  Json json = head_json(view);
  json["rank"] = rank;
  json["coordinates"] = view.topology.coordinate(rank);
  if (view.nodes) json["node"] = node_of(view, rank);
  json["checkpoint"] = topology::rank_name(view.topology, rank);
  json["groups"] = along_json(view, rank);
  json["creations"] = memberships_json(view, rank);
  if (view.grid) {
    const topology::GridRank place(*view.grid, rank);
    json["stage"] = {{"id", place.get_stage_id()},
                     {"first", place.is_first_stage()},
                     {"last", place.is_last_stage()},
                     {"next", place.next_stage_rank()},
                     {"previous", place.previous_stage_rank()},
                     {"p2p_pair", {rank, place.next_stage_rank()}}};
    json["getters"] = getters_json(place, model_parallel_ranks(*view.grid, rank));
  }
  return json.dump(2) + '\n';
}

std::string comparison_json(const groups::Comparison& comparison) {
  Json modes = Json::array(), orders = Json::object();
  for (const groups::ModeComparison& mode : comparison.modes) {
    Json agreements = Json::array();
    for (const groups::Agreement& agreement : mode.agreements)
      agreements.push_back({{"conventions", agreement.conventions}, {"groups", agreement.groups}});
    modes.push_back({{"mode", mode.mode}, {"differs", mode.differs()}, {"agreements", std::move(agreements)}});
  }
  for (const groups::Plan& plan : comparison.plans) orders[plan.convention] = modes_of(plan);
  return Json{{"sizes",
               {{"pipeline", comparison.sizes.pipeline},
                {"data", comparison.sizes.data},
                {"tensor", comparison.sizes.tensor}}},
              {"same_order", comparison.same_order},
              {"modes", std::move(modes)},
              {"creation_order", std::move(orders)}}
             .dump(2) +
         '\n';
}

}  // namespace plumbline::cli
