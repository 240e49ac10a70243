// topology.process_topology, topology.query, topology.prime_factors: a Cartesian grid of named axes.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "reference/topology/deepspeed.hpp"
#include "reference/topology/detail/operations.hpp"
#include "reference/topology/grid.hpp"

namespace plumbline::topology::operations {
namespace {

double product_of(const Sizes& sizes) {
  double product = 1;
  for (const int size : sizes) product *= size;
  return product;
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
  [[nodiscard]] int count_axis_comm_lists(std::string_view axis) const { return topology_.groups(axis).size(); }
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
    bytes += bytes_of(ranks, size) + bytes_of(2 * ranks, most, size + 1 + topology.count_axis_comm_lists(axis));
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
  call.expect_short_for(call.topology.world_size(), call.topology.count_axis_comm_lists(axis));
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

}  // namespace

void add_process_topology(AdapterService& service) {
  const SharedRows shared;
  service.add({"topology.process_topology",
               "describes a Cartesian grid of named axes: rank of each coordinate, groups along each axis",
               Words{"plumbline", "deepspeed"},
               {shared.axes, shared.dims,
                with_fields({"filter_match", "list of object", "queries for the ranks at given positions", kOptional},
                            {{"filter", "map of integer", "position by axis"}}),
                with_fields({"rank_repr", "list of object", "queries for the printed name of a rank", kOptional},
                            {{"rank", "integer", "the rank"}, shared.omitted, shared.inner, shared.outer})},
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
               {shared.bad_grid, shared.no_axis, shared.no_position, shared.too_long}},
              process_topology);
}

void add_query(AdapterService& service) {
  const SharedRows shared;
  service.add({"topology.query",
               "calls one method of a grid of named axes",
               Words{"plumbline", "deepspeed"},
               {shared.axes,
                shared.dims,
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
                             shared.omitted,
                             shared.inner,
                             shared.outer,
                             {"*", "integer", "position on the axis of that name", kOptional}})},
               {{"result", "any", "the return value"}},
               R"({"axes": ["pipe", "data"], "dims": [2, 2], "call": "get_rank", "kwargs": {"pipe": 1, "data": 0}})",
               {shared.bad_grid,
                {"invalid_argument", "kwargs lacks an axis or has a field that the method does not take"},
                shared.no_axis,
                shared.no_position,
                shared.too_long}},
              query);
}

void add_prime_factors(AdapterService& service) {
  service.add({"topology.prime_factors",
               "factors a world size into primes",
               Words{"plumbline", "deepspeed"},
               {{"n", "integer", "the number, at least 1"}},
               {{"factors", "list of integer", "prime factors, ascending"}},
               R"({"n": 12})",
               {{"invalid_argument", "n is below 1"}}},
              prime_factors);
}

}  // namespace plumbline::topology::operations
