// topology.device_mesh, topology.mesh_of_ranks and topology.placement.
#include <algorithm>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/topology/detail/operations.hpp"
#include "reference/topology/device_mesh.hpp"
#include "reference/topology/nodes.hpp"
#include "reference/topology/rank_generator.hpp"

namespace plumbline::topology::operations {
namespace {

json nested(std::span<const int> shape, std::span<const int> ranks) {
  if (shape.empty()) return ranks[0];
  json parts = json::array();
  const std::size_t step = ranks.size() / static_cast<std::size_t>(shape[0]);
  for (std::size_t at = 0; at < ranks.size(); at += step)
    parts.push_back(nested(shape.subspan(1), ranks.subspan(at, step)));
  return parts;
}

json coordinate_of(const topology::DeviceMesh& mesh, int rank) { return mesh.coordinate(rank); }
json coordinate_of(const topology::RankMesh& mesh, int rank) { return mesh.coordinate(rank).value(); }

// Of a rank that is in the mesh.
template <class Mesh>
json mesh_rank(const Mesh& mesh, int rank, const Names& slices) {
  json row{{"rank", rank}, {"coordinate", coordinate_of(mesh, rank)}, {"slices", json::object()}};
  const Names dimensions = mesh.topology().axis_names();
  for (const std::string& name : dimensions) {
    row["group_ranks"][name] = mesh.group_of(rank, name);
    row["local_rank"][name] = mesh.local_rank(rank, name);
  }
  for (const std::string& asked : slices) {
    const Names names = topology::split_names(asked);
    const topology::SubMesh slice = mesh.slice(rank, names);
    row["slices"][asked] = nested(slice.shape, slice.ranks);
    if (names.size() > 1) row["flatten"][asked] = mesh.flatten(rank, names);
  }
  if (dimensions.size() > 1)
    row["flatten"][fmt::format("{}", fmt::join(dimensions, "-"))] = mesh.flatten(rank, dimensions);
  return row;
}

// `last` is the largest rank in the mesh.
template <class Mesh>
void expect_short_rows(const Mesh& mesh, int last, const Names& slices) {
  const Topology& topology = mesh.topology();
  const double ranks = topology.world_size(), most = last;
  double in_a_row = topology.axes().size() > 1 ? ranks : 0;  // flattened as a whole
  for (const topology::Axis& axis : topology.axes()) in_a_row += axis.size;
  for (const std::string& slice : slices) {
    double size = 1;
    for (const std::string& name : topology::split_names(slice)) size *= topology.dimension(name);
    in_a_row += size;
  }
  expect_short(bytes_of(ranks * in_a_row, most));
  double bytes = ranks * static_cast<double>(mesh_rank(mesh, last, slices).dump().size() + 2);
  bytes += bytes_of(ranks, most, ranks);  // nested
  for (const topology::Axis& axis : topology.axes()) bytes += bytes_of(ranks, most, ranks / axis.size);
  expect_short(bytes);
}

json device_mesh(const Arguments& arguments) {
  const auto shape = arguments.get<Sizes>("shape");
  const topology::DeviceMesh mesh(shape, read_axes(arguments, "dim_names"), arguments.find<int>("world_size"));
  const auto slices = arguments.get<Names>("slices", {});
  expect_short_rows(mesh, mesh.topology().world_size() - 1, slices);
  json result{{"mesh", nested(shape, mesh.mesh().ranks)}, {"groups", json::object()}, {"ranks", json::array()}};
  for (const std::string& name : mesh.topology().axis_names()) result["groups"][name] = mesh.groups(name).lists();
  for (int rank = 0; rank < mesh.topology().world_size(); ++rank)
    result["ranks"].push_back(mesh_rank(mesh, rank, slices));
  return result;
}

json mesh_of_ranks(const Arguments& arguments) {
  const auto shape = arguments.get<Sizes>("shape");
  const auto ranks = arguments.get<Sizes>("ranks");
  const int last = ranks.empty() ? 0 : std::ranges::max(ranks);
  const int world = arguments.get<int>("world_size", last == std::numeric_limits<int>::max() ? last : last + 1);
  const topology::RankMesh mesh(shape, read_axes(arguments, "dim_names"), ranks, world);
  const auto slices = arguments.get<Names>("slices", {});
  expect_short(world * static_cast<double>(sizeof(R"({"coordinate":null,"rank":1},)")));
  expect_short_rows(mesh, last, slices);
  json result{{"mesh", nested(shape, mesh.mesh().ranks)}, {"groups", json::object()}, {"ranks", json::array()}};
  for (const std::string& name : mesh.topology().axis_names()) result["groups"][name] = mesh.groups(name);
  for (int rank = 0; rank < world; ++rank)
    result["ranks"].push_back(mesh.coordinate(rank) ? mesh_rank(mesh, rank, slices)
                                                    : json{{"rank", rank}, {"coordinate", nullptr}});
  return result;
}

json placement(const Arguments& arguments) {
  const Topology topology = read_topology(arguments, Convention::plumbline);
  const auto nodes = arguments.get<json>("ranks_per_node").is_array()
                         ? topology::Nodes::uneven(arguments.get<Sizes>("ranks_per_node"))
                         : topology::Nodes::uniform(arguments.get<int>("ranks_per_node"), topology.world_size());
  const auto bytes = arguments.get<topology::Volume>("bytes");
  const topology::Placement given = topology::placement(topology, nodes, bytes);
  const topology::OrderScore best = topology::best_order(topology, nodes, bytes);
  return {{"crossing_groups", given.crossing_groups},
          {"crossing_bytes", given.crossing_bytes},
          {"total", given.total},
          {"best_order", best.axes},
          {"best_total", best.total}};
}

}  // namespace

void add_device_mesh(AdapterService& service) {
  const SharedRows shared;
  service.add({"topology.device_mesh",
               "describes a device mesh: coordinates, groups and sub-meshes of each rank",
               {"plumbline", "torch"},
               {shared.shape,
                shared.names,
                {"slices", "list of text", "dimensions joined by - whose sub-meshes are wanted", kOptional},
                {"world_size", "integer", "ranks of the world; null: the mesh's", kOptional}},
               {{"mesh", "any", "ranks, nested by dimension"},
                {"groups", "map of list of list of integer", "groups by dimension"},
                {"ranks",
                 "list of object [world_size]",
                 "each rank's place",
                 {{"rank", "integer", "the rank"},
                  {"coordinate", "list of integer", "position on each dimension"},
                  {"group_ranks", "map of list of integer", "its group by dimension"},
                  {"local_rank", "map of integer", "its position in that group"},
                  {"slices", "map of any", "its sub-mesh by slice, nested by dimension"},
                  {"flatten", "map of list of integer",
                   "the sub-mesh flattened, by slice of several dimensions and of the whole mesh"}}}},
               R"({"shape": [2, 2], "dim_names": ["dp", "tp"], "slices": ["dp-tp"]})",
               {{"invalid_argument",
                 "shape and dim_names disagree, the mesh exceeds world_size, or a slice is empty, repeats or reorders "
                 "dimensions"},
                {"not_found", "a dimension has another name"},
                shared.too_long}},
              device_mesh);
}

void add_mesh_of_ranks(AdapterService& service) {
  const SharedRows shared;
  service.add({"topology.mesh_of_ranks",
               "describes a mesh of given ranks of the world, in any order: coordinates, groups and sub-meshes",
               {"plumbline", "torch"},
               {shared.shape,
                shared.names,
                {"ranks", "list of integer", "the ranks in row-major order, each once"},
                {"slices", "list of text", "dimensions joined by - whose sub-meshes are wanted", kOptional},
                {"world_size", "integer", "ranks of the world; null: the largest rank plus 1", kOptional}},
               {{"mesh", "any", "ranks, nested by dimension"},
                {"groups", "map of list of list of integer", "groups by dimension, sorted"},
                {"ranks",
                 "list of object [world_size]",
                 "each rank's place; of a rank outside of the mesh rank and coordinate alone",
                 {{"rank", "integer", "the rank"},
                  {"coordinate", "list of integer or null", "position on each dimension; null outside of the mesh"},
                  {"group_ranks", "map of list of integer", "its group by dimension, ascending"},
                  {"local_rank", "map of integer", "its position in that group"},
                  {"slices", "map of any", "its sub-mesh by slice, nested by dimension"},
                  {"flatten", "map of list of integer",
                   "the sub-mesh as one list in the order of the mesh, by slice of several dimensions and of the whole "
                   "mesh"}}}},
               R"({"shape": [2, 2], "dim_names": ["dp", "tp"], "ranks": [4, 1, 0, 3], "slices": ["tp"]})",
               {{"invalid_argument",
                 "shape, dim_names and ranks disagree, a rank is given twice, or a slice is empty, repeats or reorders "
                 "dimensions"},
                {"not_found", "a dimension has another name"},
                {"out_of_range", "a rank is below 0 or not below world_size"},
                shared.too_long}},
              mesh_of_ranks);
}

void add_placement(AdapterService& service) {
  const SharedRows shared;
  service.add(
      {"topology.placement",
       "what groups send between nodes under a placement, and the best order of axes",
       {"plumbline"},
       {shared.axes,
        shared.dims,
        {"ranks_per_node", "integer or list of integer [nodes]", "ranks of every node, or of each"},
        with_fields({"bytes", "map of number [bytes]", "what each rank sends along its group's ring, by axis"},
                    {{"*", "number [bytes]", "of the axis of that name", kOptional}})},
       {{"crossing_groups", "map of integer", "groups that span nodes, by axis"},
        {"crossing_bytes", "map of number [bytes]", "bytes between nodes, by axis"},
        {"total", "number [bytes]", "sum of crossing_bytes"},
        {"best_order", "list of text", "order of axes with the least total, the slowest-varying first"},
        {"best_total", "number [bytes]", "total of best_order"}},
       R"({"axes": ["data", "model"], "dims": [2, 2], "ranks_per_node": 2, "bytes": {"data": 100, "model": 1000}})",
       {shared.bad_grid,
        {"invalid_argument", "the nodes do not hold exactly the grid's ranks, or bytes are negative"},
        {"not_found", "bytes names another axis"},
        {"out_of_range", "bytes exceed 63 bits"},
        shared.too_long}},
      placement);
}

}  // namespace plumbline::topology::operations
