// topology.*: named axes, grids, rank orders, meshes and nodes, under the names that are recorded of the frameworks.
#include "reference/adapter/operations.hpp"

#include <algorithm>
#include <concepts>
#include <limits>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/adapter/protocol.hpp"
#include "reference/comm/errors.hpp"
#include "reference/topology/deepspeed.hpp"
#include "reference/topology/device_mesh.hpp"
#include "reference/topology/grid.hpp"
#include "reference/topology/nodes.hpp"
#include "reference/topology/rank_generator.hpp"

namespace plumbline::adapter {
using nlohmann::json;
using topology::GridRank;
using topology::GroupList;
using topology::NamedCoordinate;
using topology::PipelineGrid;
using topology::ProcessTopology;
using topology::RankNameStyle;
using topology::Topology;

namespace {

using Names = std::vector<std::string>;
using Sizes = std::vector<int>;

// Of an answer's line, with what estimates leave out.
constexpr double kMostBytes = 0.99 * static_cast<double>(kLongestLine);
constexpr std::size_t kMostAxes = 64;  // an int counts no world with more than 30 axes of several ranks

void expect_short(double bytes) {
  if (bytes > kMostBytes)
    throw Unsupported(
        fmt::format("the answer would have about {:.0f} bytes, at most {:.0f} fit in a line", bytes, kMostBytes));
}

// Numbers up to `most`, in so many lists.
double bytes_of(double numbers, double most, double lists = 0) {
  return numbers * static_cast<double>(fmt::formatted_size("{:.0f}", most) + 1) + lists * 3;
}

double product_of(const Sizes& sizes) {
  double product = 1;
  for (const int size : sizes) product *= size;
  return product;
}

Names read_axes(const Arguments& arguments, std::string_view field = "axes") {
  auto axes = arguments.get<Names>(field);
  if (axes.size() > kMostAxes)
    throw Unsupported(fmt::format("{} has {} names, of at most {} are answers made", field, axes.size(), kMostAxes));
  return axes;
}

// A Topology under DeepSpeed's names: as strict as it is, without the answers to what is not there.
class StrictTopology {
 public:
  static constexpr bool kIsLenient = false;

  StrictTopology(const Names& axes, const Sizes& sizes) : topology_(Topology::row_major(axes, sizes)) {}
  [[nodiscard]] Names get_axis_names() const { return topology_.axis_names(); }
  [[nodiscard]] int world_size() const { return topology_.world_size(); }
  [[nodiscard]] int get_dim(std::string_view axis) const { return topology_.dimension(axis); }
  [[nodiscard]] int get_rank(const NamedCoordinate& at) const { return topology_.rank(at); }
  [[nodiscard]] topology::Coordinate get_coord(int rank) const { return topology_.coordinate(rank); }
  [[nodiscard]] Sizes ranks() const { return topology_.matching({}); }
  [[nodiscard]] std::int64_t count_axis_comm_lists(std::string_view axis) const {
    return topology_.groups(axis).size();
  }
  [[nodiscard]] json get_axis_comm_lists(std::string_view axis) const { return topology_.groups(axis).lists(); }
  [[nodiscard]] Sizes get_axis_list(std::string axis, int position) const {
    return topology_.matching({{std::move(axis), position}});
  }
  [[nodiscard]] Sizes filter_match(const NamedCoordinate& filter) const { return topology_.matching(filter); }
  [[nodiscard]] std::string get_rank_repr(int rank, const RankNameStyle& style) const {
    return rank_name(topology_, rank, style);
  }
  [[nodiscard]] std::string to_string() const { return topology_.to_string(); }

 private:
  Topology topology_;
};

class LenientTopology : public ProcessTopology {
 public:
  static constexpr bool kIsLenient = true;
  using ProcessTopology::ProcessTopology;
};

NamedCoordinate read_coordinate(const std::map<std::string, int>& given) { return {given.begin(), given.end()}; }

RankNameStyle read_style(const Arguments& query) {
  RankNameStyle style;
  style.omit = query.get<Names>("omit_axes", style.omit);
  style.inner = query.get<std::string>("inner_sep", style.inner);
  style.outer = query.get<std::string>("outer_sep", style.outer);
  return style;
}

template <class T>
json filter_answers(const T& topology, const std::vector<Arguments>& queries) {
  json answers = json::array();
  for (const Arguments& query : queries) {
    const auto filter = query.get<std::map<std::string, int>>("filter");
    answers.push_back({{"filter", filter}, {"ranks", topology.filter_match(read_coordinate(filter))}});
  }
  return answers;
}

template <class T>
json name_answers(const T& topology, const std::vector<Arguments>& queries) {
  json answers = json::array();
  for (const Arguments& query : queries) {
    const auto rank = query.get<int>("rank");
    json answer{{"rank", rank}, {"repr", topology.get_rank_repr(rank, read_style(query))}};
    for (const char* field : {"omit_axes", "inner_sep", "outer_sep"})
      answer[field] = query.has(field) ? query.get<json>(field) : json();
    answers.push_back(answer);
  }
  return answers;
}

// Of what process_topology tells without being asked, and of as many filters.
template <class T>
double bytes_of_described(const T& topology, double most, double filters) {
  const double ranks = topology.world_size();
  double bytes = bytes_of(ranks * (1 + filters), most, ranks);
  for (const std::string& axis : topology.get_axis_names()) {
    const double size = std::max(topology.get_dim(axis), 0);
    const auto groups = static_cast<double>(topology.count_axis_comm_lists(axis));
    bytes += bytes_of(ranks, size) + bytes_of(2 * ranks, most, size + 1 + groups);
  }
  return bytes;
}

// What process_topology tells without being asked. A lenient one is asked for more than it has, too.
template <class T>
json described(const T& topology) {
  json result{{"world_size", topology.world_size()}, {"coords", json::array()}, {"rank_of_coord", json::array()}};
  const Names axes = topology.get_axis_names();
  for (const int rank : topology.ranks()) {
    const topology::Coordinate at = topology.get_coord(rank);
    NamedCoordinate named;
    for (std::size_t i = 0; i < axes.size(); ++i) named[axes[i]] = at[i];
    result["coords"].push_back(at);
    result["rank_of_coord"].push_back(topology.get_rank(named));
  }
  for (const char* map : {"get_dim", "axis_comm_lists", "axis_list"}) result[map] = json::object();
  for (const std::string& axis : axes) {
    result["axis_list"][axis] = json::array();
    for (int i = 0; i < topology.get_dim(axis) + (T::kIsLenient ? 1 : 0); ++i)
      result["axis_list"][axis].push_back(topology.get_axis_list(axis, i));
  }
  Names asked = axes;
  if (T::kIsLenient) asked.emplace_back("absent");
  for (const std::string& axis : asked) {
    result["get_dim"][axis] = topology.get_dim(axis);
    result["axis_comm_lists"][axis] = topology.get_axis_comm_lists(axis);
  }
  return result;
}

template <class T>
json process_topology_as(const Arguments& arguments) {
  const auto sizes = arguments.get<Sizes>("dims");
  const T topology(read_axes(arguments), sizes);
  const auto filters = arguments.get<std::vector<Arguments>>("filter_match", {});
  const auto names = arguments.get<std::vector<Arguments>>("rank_repr", {});
  expect_short(bytes_of_described(topology, product_of(sizes), static_cast<double>(filters.size())));
  json result = described(topology);
  result["filter_match"] = filter_answers(topology, filters);
  result["rank_repr"] = name_answers(topology, names);
  return result;
}

json process_topology(const Arguments& arguments) {
  return arguments.convention() == Convention::plumbline ? process_topology_as<StrictTopology>(arguments)
                                                         : process_topology_as<LenientTopology>(arguments);
}

// A method's arguments by name.
struct Keywords {
  Arguments fields;
  std::map<std::string, json> all;

  // Those that are positions.
  [[nodiscard]] NamedCoordinate coordinate(std::initializer_list<std::string_view> without = {}) const {
    NamedCoordinate at;
    for (const auto& [name, value] : all)
      if (std::ranges::find(without, name) == without.end()) at[name] = fields.get<int>(name);
    return at;
  }
};

// The world of a grid, as the convention reads it.
Topology read_topology(const Arguments& arguments, Convention convention) {
  const Names axes = read_axes(arguments);
  const auto sizes = arguments.get<Sizes>("dims");
  return convention == Convention::plumbline ? Topology::row_major(axes, sizes)
                                             : ProcessTopology(axes, sizes).topology();
}

// A method's call: of which topology, with which arguments.
template <class T>
struct Call {
  const Arguments& arguments;
  const T& topology;
  const Keywords& keywords;

  // The ranks of an answer that leaves none of them out.
  void expect_short_for(double ranks, double lists) const {
    expect_short(bytes_of(ranks, product_of(arguments.get<Sizes>("dims")), lists));
  }
};

// The rank of another stage; with the rank that asks beside the method's own arguments.
template <class T>
json stage_to_global(const Call<T>& call) {
  const auto [arguments, topology, keywords] = call;
  const Topology world = read_topology(arguments, T::kIsLenient ? Convention::deepspeed : Convention::plumbline);
  for (const char* own : {"rank", "stage_id"})
    if (world.has_axis(own))
      arguments.refuse(fmt::format("stage_to_global takes '{}' for its own argument, which is also an axis", own));
  const PipelineGrid grid(world.world_size(), world);
  return grid.stage_to_global(keywords.fields.template get<int>("rank"), keywords.fields.template get<int>("stage_id"),
                              keywords.coordinate({"rank", "stage_id"}));
}

template <class T>
json get_axis_comm_lists(const Call<T>& call) {
  const auto axis = call.keywords.fields.template get<std::string>("axis");
  call.expect_short_for(call.topology.world_size(), static_cast<double>(call.topology.count_axis_comm_lists(axis)));
  return call.topology.get_axis_comm_lists(axis);
}

// How many ranks a filter may match.
template <class T>
double count_matching(const T& topology, const NamedCoordinate& filter) {
  double ranks = topology.world_size();
  const Names axes = topology.get_axis_names();
  for (const auto& [axis, position] : filter)
    if (ranks > 0 && std::ranges::find(axes, axis) != axes.end()) ranks /= topology.get_dim(axis);
  return ranks;
}

template <class T>
json get_axis_list(const Call<T>& call) {
  const auto axis = call.keywords.fields.template get<std::string>("axis");
  call.expect_short_for(count_matching(call.topology, {{axis, 0}}), 1);
  return call.topology.get_axis_list(axis, call.keywords.fields.template get<int>("idx"));
}

template <class T>
json filter_match(const Call<T>& call) {
  const NamedCoordinate filter = call.keywords.coordinate();
  call.expect_short_for(count_matching(call.topology, filter), 1);
  return call.topology.filter_match(filter);
}

// A lenient one prints every coordinate, with all names.
template <class T>
json printed(const Call<T>& call) {
  double names = 30;
  for (const std::string& axis : call.topology.get_axis_names()) names += static_cast<double>(axis.size()) + 3;
  const double axes = static_cast<double>(call.topology.get_axis_names().size());
  if (T::kIsLenient) {
    expect_short(call.topology.world_size() * names);
    call.expect_short_for(call.topology.world_size() * (1 + axes), 0);
  }
  return call.topology.to_string();
}

template <class T>
using Method = json (*)(const Call<T>&);
template <class T>
const Choices<Method<T>> kMethods{
    {"get_rank", [](const Call<T>& call) -> json { return call.topology.get_rank(call.keywords.coordinate()); }},
    {"get_coord",
     [](const Call<T>& call) -> json {
       return call.topology.get_coord(call.keywords.fields.template get<int>("rank"));
     }},
    {"get_dim",
     [](const Call<T>& call) -> json {
       return call.topology.get_dim(call.keywords.fields.template get<std::string>("axis"));
     }},
    {"get_axis_names", [](const Call<T>& call) -> json { return call.topology.get_axis_names(); }},
    {"get_axis_comm_lists", get_axis_comm_lists<T>},
    {"get_axis_list", get_axis_list<T>},
    {"filter_match", filter_match<T>},
    {"get_rank_repr",
     [](const Call<T>& call) -> json {
       const auto rank = call.keywords.fields.template get<int>("rank");
       return call.topology.get_rank_repr(rank, read_style(call.keywords.fields));
     }},
    {"world_size", [](const Call<T>& call) -> json { return call.topology.world_size(); }},
    {"__str__", printed<T>},
    {"stage_to_global", stage_to_global<T>}};

template <class T>
json query_as(const Arguments& arguments, const Keywords& keywords) {
  const T topology(read_axes(arguments), arguments.get<Sizes>("dims"));
  const auto method = arguments.choice<Method<T>>("call", kMethods<T>);
  json answer = method({arguments, topology, keywords});
  keywords.fields.expect_no_others();
  return answer;
}

json query(const Arguments& arguments) {
  static const json kNone = json::object();
  const Keywords keywords{.fields = arguments.find<Arguments>("kwargs").value_or(Arguments("topology.query", kNone)),
                          .all = arguments.get<std::map<std::string, json>>("kwargs", {})};
  return {{"result", arguments.convention() == Convention::plumbline ? query_as<StrictTopology>(arguments, keywords)
                                                                     : query_as<LenientTopology>(arguments, keywords)}};
}

json prime_factors(const Arguments& arguments) {
  return {{"factors", topology::prime_factors(arguments.get<int>("n"))}};
}

PipelineGrid read_grid(const Arguments& arguments, Convention convention) {
  const auto world_size = arguments.get<int>("world_size");
  if (arguments.has("axes") != arguments.has("dims"))
    arguments.refuse("axes and dims must both be there, or both be null");
  if (!arguments.has("axes")) return PipelineGrid(world_size);
  return {world_size, read_topology(arguments, convention)};
}

// Nothing in the source asks these: they are what its recorder chose to ask, and a check reads what was asked. The
// first and the last position of each other axis, from the first stage; then the last of all, from the last stage.
json stages_elsewhere(const GridRank& me, const PipelineGrid& grid) {
  json rows = json::array();
  const auto add = [&](int stage, const NamedCoordinate& overrides) {
    json named = json::object();
    for (const auto& [axis, position] : overrides) named[axis] = position;
    rows.push_back({{"stage_id", stage}, {"override", named}, {"rank", me.stage_to_global(stage, overrides)}});
  };
  NamedCoordinate last;
  for (const topology::Axis& axis : grid.topology().axes()) {
    if (axis.name == "pipe") continue;
    add(0, {{axis.name, 0}});
    if (axis.size > 1) add(0, {{axis.name, axis.size - 1}});
    last[axis.name] = axis.size - 1;
  }
  add(grid.pipe_parallel_size() - 1, last);
  return rows;
}

json grid_rank(const PipelineGrid& grid, int rank) {
  const GridRank me(grid, rank);
  json row{{"rank", rank},
           {"get_global_rank", me.get_global_rank()},
           {"get_stage_id", me.get_stage_id()},
           {"get_data_parallel_id", me.get_data_parallel_id()},
           {"get_pipe_parallel_rank", me.get_pipe_parallel_rank()},
           {"get_pipe_parallel_world_size", me.get_pipe_parallel_world_size()},
           {"get_data_parallel_rank", me.get_data_parallel_rank()},
           {"get_data_parallel_world_size", me.get_data_parallel_world_size()},
           {"get_model_parallel_rank", me.get_model_parallel_rank()},
           {"get_model_parallel_world_size", me.get_model_parallel_world_size()},
           {"get_slice_parallel_rank", me.get_slice_parallel_rank()},
           {"get_slice_parallel_world_size", me.get_slice_parallel_world_size()},
           {"get_pipeline_model_parallel_rank", me.get_pipeline_model_parallel_rank()},
           {"get_pipeline_model_parallel_world_size", me.get_pipeline_model_parallel_world_size()},
           {"get_tensor_model_parallel_rank", me.get_tensor_model_parallel_rank()},
           {"get_tensor_model_parallel_world_size", me.get_tensor_model_parallel_world_size()},
           {"is_first_stage", me.is_first_stage()},
           {"is_last_stage", me.is_last_stage()},
           {"dp_group", me.get_data_parallel_group_ranks()},
           {"pp_group", me.get_pipe_parallel_group_ranks()},
           {"slice_group", me.get_slice_parallel_group_ranks()},
           {"get_data_parallel_group_ranks", me.get_data_parallel_group_ranks()},
           {"stage_to_global", json::array()},
           {"stage_to_global_overrides", stages_elsewhere(me, grid)},
           {"group_handles",
            {{"get_pipe_parallel_group", me.get_pipe_parallel_group()},
             {"get_data_parallel_group", me.get_data_parallel_group()},
             {"get_model_parallel_group", me.get_model_parallel_group()},
             {"get_slice_parallel_group", me.get_slice_parallel_group()}}}};
  for (int stage = 0; stage < grid.pipe_parallel_size(); ++stage)
    row["stage_to_global"].push_back(me.stage_to_global(stage));
  return row;
}

// A row is about as long as the last rank's, whose numbers are the longest; it is only made where it is short itself.
void expect_short(const PipelineGrid& grid) {
  const double ranks = grid.world_size();
  const double in_a_row =
      2.0 * grid.pipe_parallel_size() + 2.0 * grid.data_parallel_size() + grid.slice_parallel_size();
  expect_short(bytes_of(ranks * in_a_row, ranks));
  double bytes = ranks * static_cast<double>(grid_rank(grid, grid.world_size() - 1).dump().size() + 2);
  bytes += bytes_of(2 * ranks, ranks, ranks);  // pairs
  for (const GroupList& groups : grid.creation_order()) bytes += bytes_of(ranks, ranks, groups.size());
  expect_short(bytes);
}

json grid(const Arguments& arguments) {
  const PipelineGrid grid = read_grid(arguments, arguments.convention());
  expect_short(grid);
  json result{{"pipe_parallel_size", grid.pipe_parallel_size()},
              {"data_parallel_size", grid.data_parallel_size()},
              {"model_parallel_size", grid.slice_parallel_size()},  // the source's two words for one axis
              {"slice_parallel_size", grid.slice_parallel_size()},
              {"p2p_groups", grid.p2p_pairs()},
              {"new_group_calls", json::array()},
              {"ranks", json::array()}};
  for (const GroupList& groups : grid.creation_order())
    groups.for_each([&](std::span<const int> ranks) { result["new_group_calls"].push_back(ranks); });
  for (int rank = 0; rank < grid.world_size(); ++rank) result["ranks"].push_back(grid_rank(grid, rank));
  return result;
}

json rank_generator(const Arguments& arguments) {
  const auto rule =
      arguments.convention() == Convention::megatron ? topology::OrderRule::megatron : topology::OrderRule::plumbline;
  const topology::RankGenerator generator(arguments.get<std::map<std::string, int>>("sizes"),
                                          arguments.get<std::string>("order"), arguments.get<int>("rank_offset", 0),
                                          rule);
  const auto tokens = arguments.get<Names>("tokens", generator.topology().axis_names());
  const double ranks = generator.world_size(), most = generator.topology().offset() + ranks;
  double bytes = 0;
  for (const std::string& token : tokens) bytes += bytes_of(ranks, most, generator.groups(token).size());
  expect_short(bytes);
  json groups = json::object();
  for (const std::string& token : tokens) groups[token] = generator.groups(token).lists();
  return {{"normalized_order", generator.order()},
          {"ordered_size", generator.ordered_size()},
          {"world_size", generator.world_size()},
          {"groups", groups}};
}

// The dimensions along which groups are asked for, "a-b"; unless it is said, each name and each pair of them.
std::vector<Names> read_choices(const Arguments& arguments, const Names& names) {
  std::vector<Names> choices;
  if (const auto asked = arguments.find<Names>("dims")) {
    for (const std::string& words : *asked) choices.push_back(topology::split_names(words));
    return choices;
  }
  for (const std::string& name : names) choices.push_back({name});
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = i + 1; j < names.size(); ++j) choices.push_back({names[i], names[j]});
  return choices;
}

// What is asked of the grid itself or of a view.
struct AskedView {
  std::string view;
  std::vector<Names> choices;
};

AskedView read_view(const std::string& view, const Arguments& arguments, topology::HyperCommGrid& grid) {
  const Names names = read_axes(arguments, "dim_names");
  grid.register_view(view, names, arguments.get<Sizes>("shape"), arguments.get<Names>("shared", {}));
  return {view, read_choices(arguments, names)};
}

double bytes_of(const AskedView& asked, const topology::HyperCommGrid& grid) {
  const Topology& topology = grid.topology(asked.view);
  double bytes = 0;
  for (const Names& choice : asked.choices)
    bytes += bytes_of(topology.world_size(), double{1} * topology.offset() + topology.world_size(),
                      grid.groups(choice, asked.view).size());
  return bytes;
}

json groups_of(const AskedView& asked, const topology::HyperCommGrid& grid) {
  json groups = json::object();
  for (const Names& choice : asked.choices)
    groups[fmt::format("{}", fmt::join(choice, "-"))] = grid.groups(choice, asked.view).lists();
  return groups;
}

json owners_of(const AskedView& asked, const topology::HyperCommGrid& grid) {
  json owners = json::object();
  for (const Names& choice : asked.choices)
    owners[fmt::format("{}", fmt::join(choice, "-"))] = grid.owner(choice, asked.view);
  return owners;
}

json hyper_comm_grid(const Arguments& arguments) {
  const Names names = read_axes(arguments, "dim_names");
  topology::HyperCommGrid grid(names, arguments.get<Sizes>("shape"),
                               arguments.get<int>("world_size", std::numeric_limits<int>::max()),
                               arguments.get<int>("rank_offset", 0));
  std::vector<AskedView> asked{{std::string(topology::HyperCommGrid::kBase), read_choices(arguments, names)}};
  expect_short(bytes_of(asked.front(), grid));  // so that views, which are compared with it, are small as well
  for (const auto& [view, fields] : arguments.get<std::map<std::string, Arguments>>("views", {}))
    asked.push_back(read_view(view, fields, grid));
  double bytes = 0;
  for (const AskedView& one : asked) bytes += bytes_of(one, grid);
  expect_short(bytes);
  json result{{"groups", groups_of(asked.front(), grid)}, {"views", json::object()}};
  for (const AskedView& one : asked | std::views::drop(1))
    result["views"][one.view] = {{"groups", groups_of(one, grid)}, {"owners", owners_of(one, grid)}};
  return result;
}

json nested(std::span<const int> shape, std::span<const int> ranks) {
  if (shape.empty()) return ranks[0];
  json parts = json::array();
  const std::size_t step = ranks.size() / static_cast<std::size_t>(shape[0]);
  for (std::size_t at = 0; at < ranks.size(); at += step)
    parts.push_back(nested(shape.subspan(1), ranks.subspan(at, step)));
  return parts;
}

json mesh_rank(const topology::DeviceMesh& mesh, int rank, const Names& slices) {
  json row{{"rank", rank}, {"coordinate", mesh.coordinate(rank)}, {"slices", json::object()}};
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

void expect_short(const topology::DeviceMesh& mesh, const Names& slices) {
  const Topology& topology = mesh.topology();
  const double ranks = topology.world_size();
  double in_a_row = topology.axes().size() > 1 ? ranks : 0;  // flattened as a whole
  for (const topology::Axis& axis : topology.axes()) in_a_row += axis.size;
  for (const std::string& slice : slices) {
    double size = 1;
    for (const std::string& name : topology::split_names(slice)) size *= topology.dimension(name);
    in_a_row += size;
  }
  expect_short(bytes_of(ranks * in_a_row, ranks));
  double bytes = ranks * static_cast<double>(mesh_rank(mesh, topology.world_size() - 1, slices).dump().size() + 2);
  bytes += bytes_of(ranks, ranks, ranks);  // nested
  for (const topology::Axis& axis : topology.axes()) bytes += bytes_of(ranks, ranks, ranks / axis.size);
  expect_short(bytes);
}

json device_mesh(const Arguments& arguments) {
  const auto shape = arguments.get<Sizes>("shape");
  const topology::DeviceMesh mesh(shape, read_axes(arguments, "dim_names"), arguments.find<int>("world_size"));
  const auto slices = arguments.get<Names>("slices", {});
  expect_short(mesh, slices);
  json result{{"mesh", nested(shape, mesh.mesh().ranks)}, {"groups", json::object()}, {"ranks", json::array()}};
  for (const std::string& name : mesh.topology().axis_names()) result["groups"][name] = mesh.groups(name).lists();
  for (int rank = 0; rank < mesh.topology().world_size(); ++rank)
    result["ranks"].push_back(mesh_rank(mesh, rank, slices));
  return result;
}

json placement(const Arguments& arguments) {
  const Topology topology = read_topology(arguments, Convention::plumbline);
  const auto nodes = arguments.get<json>("ranks_per_node").is_array()
                         ? topology::Nodes::uneven(arguments.get<Sizes>("ranks_per_node"))
                         : topology::Nodes::uniform(arguments.get<int>("ranks_per_node"), topology.world_size());
  if (nodes.world_size() != topology.world_size())
    arguments.refuse(fmt::format("{} has {} ranks, the {} nodes have {} ranks", topology.to_string(),
                                 topology.world_size(), nodes.count(), nodes.world_size()));
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

void add_topology_operations(AdapterService& service) {
  const Words deepspeed{"plumbline", "deepspeed"}, megatron{"plumbline", "megatron"};
  const ArgumentRow axes{"axes", "list of text", "axis names, the slowest-varying first"},
      dims{"dims", "list of integer [axes]", "size of each axis"},
      names{"dim_names", "list of text", "names of the dimensions, the slowest-varying first"},
      shape{"shape", "list of integer [dim_names]", "size of each dimension"},
      offset{"rank_offset", "integer", "the first rank", "0"},
      omitted{"omit_axes", "list of text", "axes that the name leaves out; null: data and pipe", kOptional},
      inner{"inner_sep", "text", "between an axis and its position; null: _", kOptional},
      outer{"outer_sep", "text", "between axes; null: -", kOptional};
  const RefusalRow bad_grid{"invalid_argument",
                            "axes and dims have different lengths, a name occurs twice, a size is below 1, or the "
                            "world exceeds an int"},
      too_long{"unsupported", "the answer would not fit in a line, or there are more than 64 axes"},
      no_axis{"not_found", "an axis has another name"},
      no_position{"out_of_range", "a rank or a position does not exist"};
  service.add({"topology.process_topology",
               "describes a Cartesian grid of named axes: rank of each coordinate, groups along each axis",
               deepspeed,
               {axes, dims,
                with_fields({"filter_match", "list of object", "queries for the ranks at given positions", kOptional},
                            {{"filter", "map of integer", "position by axis"}}),
                with_fields({"rank_repr", "list of object", "queries for the printed name of a rank", kOptional},
                            {{"rank", "integer", "the rank"}, omitted, inner, outer})},
               {{"world_size", "integer", "number of ranks"},
                {"coords", "list of list of integer [ranks][axes]", "coordinate of each rank"},
                {"rank_of_coord", "list of integer [ranks]", "rank at each of coords"},
                {"get_dim", "map of integer", "size by axis; in convention deepspeed also of an axis named absent"},
                {"axis_comm_lists", "map of list of list of integer",
                 "groups along each axis; in convention deepspeed also of an axis named absent"},
                {"axis_list", "map of list of list of integer",
                 "ranks by axis and position; in convention deepspeed also one position past the last"},
                {"filter_match",
                 "list of object",
                 "the queries with their answers",
                 {{"filter", "map of integer", "as asked"}, {"ranks", "list of integer", "matching ranks, ascending"}}},
                {"rank_repr",
                 "list of object",
                 "the queries with their answers",
                 {{"rank", "integer", "as asked"},
                  {"omit_axes", "any", "as asked"},
                  {"inner_sep", "any", "as asked"},
                  {"outer_sep", "any", "as asked"},
                  {"repr", "text", "the printed name"}}}},
               R"({"axes": ["pipe", "data"], "dims": [2, 2], "filter_match": [{"filter": {"pipe": 1}}]})",
               {bad_grid, no_axis, no_position, too_long}},
              process_topology);
  service.add({"topology.query",
               "calls one method of a grid of named axes",
               deepspeed,
               {axes,
                dims,
                {"call", "text",
                 "get_rank, get_coord, get_dim, get_axis_names, get_axis_comm_lists, get_axis_list, filter_match, "
                 "get_rank_repr, "
                 "world_size, __str__ or stage_to_global",
                 kRequired},
                with_fields({"kwargs", "object",
                             "the method's keyword arguments; get_rank, filter_match and stage_to_global take "
                             "positions by axis",
                             kOptional},
                            {{"rank", "integer", "of get_coord and get_rank_repr; of stage_to_global the calling rank",
                              kOptional},
                             {"stage_id", "integer", "of stage_to_global: the stage", kOptional},
                             {"axis", "text", "of get_dim, get_axis_comm_lists and get_axis_list", kOptional},
                             {"idx", "integer", "of get_axis_list: the position", kOptional},
                             omitted,
                             inner,
                             outer,
                             {"*", "integer", "position on the axis of that name", kOptional}})},
               {{"result", "any", "the return value"}},
               R"({"axes": ["pipe", "data"], "dims": [2, 2], "call": "get_rank", "kwargs": {"pipe": 1, "data": 0}})",
               {bad_grid,
                {"invalid_argument", "kwargs lacks an axis or has a field that the method does not take"},
                no_axis,
                no_position,
                too_long}},
              query);
  service.add({"topology.prime_factors",
               "factors a world size into primes",
               deepspeed,
               {{"n", "integer", "the number, at least 1"}},
               {{"factors", "list of integer", "prime factors, ascending"}},
               R"({"n": 12})",
               {{"invalid_argument", "n is below 1"}}},
              prime_factors);
  service.add({"topology.grid",
               "describes a pipeline grid: its groups and every getter of each rank",
               deepspeed,
               {{"world_size", "integer", "number of ranks"},
                {"axes", "list of text",
                 "axis names, the slowest-varying first; null: pipe and data, sized by prime factors", kOptional},
                {"dims", "list of integer [axes]", "size of each axis; null exactly where axes is null", kOptional}},
               {{"pipe_parallel_size", "integer", "pipeline stages"},
                {"data_parallel_size", "integer", "data-parallel replicas"},
                {"model_parallel_size", "integer", "model-parallel ranks"},
                {"slice_parallel_size", "integer", "model_parallel_size under its other name"},
                {"p2p_groups", "list of list of integer", "each rank with the rank of the next stage"},
                {"new_group_calls", "list of list of integer", "groups in creation order"},
                {"ranks",
                 "list of object [world_size]",
                 "of each rank every getter of the grid by name, dp_group, pp_group and slice_group",
                 {{"rank", "integer", "the rank"},
                  {"stage_to_global", "list of integer", "rank of each stage in this rank's pipeline"},
                  {"stage_to_global_overrides", "list of object",
                   "the same at corners of the other axes: stage_id, override, rank"},
                  {"group_handles", "map of integer", "index in new_group_calls by getter"},
                  {"*", "any", "return value of the getter of that name"}}}},
               R"({"world_size": 2, "axes": ["pipe", "data"], "dims": [2, 1]})",
               {bad_grid,
                {"invalid_argument", "the axes do not have world_size ranks, or only one of axes and dims is null"},
                {"not_found", "the grid lacks the axis pipe or data"},
                no_position,
                too_long}},
              grid);
  service.add(
      {"topology.rank_generator",
       "derives groups from an order of parallelisms",
       megatron,
       {with_fields({"sizes", "map of integer", "size by parallelism"},
                    {{"*", "integer", "size of tp, pp, dp, ep, cp or gtp_remat", kOptional}}),
        {"order", "text", "parallelisms joined by -, the fastest-varying first, as tp-cp-ep-dp-pp"},
        offset,
        {"tokens", "list of text", "parallelisms joined by - whose groups are wanted; null: each one", kOptional}},
       {{"normalized_order", "text", "the order with every parallelism"},
        {"ordered_size", "list of integer", "sizes in that order"},
        {"world_size", "integer", "number of ranks"},
        {"groups", "map of list of list of integer", "groups by token"}},
       R"({"sizes": {"tp": 2, "dp": 2}, "order": "tp-dp", "tokens": ["tp", "dp"]})",
       {{"invalid_argument",
         "a size is below 1, an order repeats a name or lacks one of size above 1, or ep and cp both exceed 1"},
        {"not_found", "a token or order names another parallelism"},
        too_long}},
      rank_generator);
  service.add({"topology.hyper_comm_grid",
               "groups along dimensions of a grid and of views of it",
               megatron,
               {shape,
                names,
                {"world_size", "integer", "ranks of the world; null: as many as the grid needs", kOptional},
                offset,
                {"dims", "list of text", "dimensions joined by -; null: each dimension and each pair", kOptional},
                with_fields({"views", "map of object", "views by name", kOptional},
                            {{"*.shape", "list of integer", "size of each dimension"},
                             {"*.dim_names", "list of text", "names of its dimensions"},
                             {"*.shared", "list of text", "dimensions that it shares with the grid", kOptional},
                             {"*.dims", "list of text", "as dims, of the view", kOptional}})},
               {{"groups", "map of list of list of integer", "groups by dimensions"},
                {"views",
                 "map of object",
                 "by name",
                 {{"*.groups", "map of list of list of integer", "groups by dimensions"},
                  {"*.owners", "map of text", "by dimensions the view that owns the groups: its name, or base"}}}},
               R"({"shape": [2, 2], "dim_names": ["dp", "tp"], "dims": ["tp", "dp-tp"]})",
               {{"invalid_argument",
                 "shape and dim_names disagree, the grid exceeds world_size, or a view does not share what it names"},
                {"not_found", "a dimension has another name"},
                too_long}},
              hyper_comm_grid);
  service.add({"topology.device_mesh",
               "describes a device mesh: coordinates, groups and sub-meshes of each rank",
               {"plumbline", "torch"},
               {shape,
                names,
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
                too_long}},
              device_mesh);
  service.add(
      {"topology.placement",
       "what groups send between nodes under a placement, and the best order of axes",
       {"plumbline"},
       {axes,
        dims,
        {"ranks_per_node", "integer or list of integer [nodes]", "ranks of every node, or of each"},
        with_fields({"bytes", "map of number [bytes]", "what each rank sends along its group's ring, by axis"},
                    {{"*", "number [bytes]", "of the axis of that name", kOptional}})},
       {{"crossing_groups", "map of integer", "groups that span nodes, by axis"},
        {"crossing_bytes", "map of number [bytes]", "bytes between nodes, by axis"},
        {"total", "number [bytes]", "sum of crossing_bytes"},
        {"best_order", "list of text", "order of axes with the least total, the slowest-varying first"},
        {"best_total", "number [bytes]", "total of best_order"}},
       R"({"axes": ["data", "model"], "dims": [2, 2], "ranks_per_node": 2, "bytes": {"data": 100, "model": 1000}})",
       {bad_grid,
        {"invalid_argument", "the nodes do not hold exactly the grid's ranks, or bytes are negative"},
        {"not_found", "bytes names another axis"},
        {"out_of_range", "bytes exceed 63 bits"},
        too_long}},
      placement);
}

}  // namespace plumbline::adapter
