// DeepSpeed's ProcessTopology beyond legal sizes, held to its source, which builds a table of the world and searches
// it.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"
#include "conformance/topology/shape.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;
using suite::Context;

namespace {

// ---- the source's table: each coordinate with the last of its ranks ----

using Table = std::vector<std::pair<Position, int>>;

Table table_of(const Shape& shape) {
  Table table;
  if (std::ranges::any_of(shape.dims, [](int size) { return size < 1; })) return table;
  const std::vector<Position> all = positions_in({.axes = {}, .dims = shape.dims}, Fastest::last);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Position key(all[rank].begin(), all[rank].begin() + static_cast<std::ptrdiff_t>(shape.axes.size()));
    if (table.empty() || table.back().first != key) table.emplace_back(key, 0);
    table.back().second = static_cast<int>(rank);
  }
  return table;
}

// Of a method: the value that it returns, or nothing where it raises.
using Returned = std::optional<json>;

Returned rank_at(const Table& table, const Position& position) {
  const auto found = std::ranges::find(table, position, &Table::value_type::first);
  return found == table.end() ? Returned() : found->second;
}

Returned coordinate_of(const Table& table, int rank) {
  const auto found = std::ranges::find(table, rank, &Table::value_type::second);
  return found == table.end() ? Returned() : json(found->first);
}

json ranks_at(const Table& table, const std::map<std::size_t, int>& filter) {
  json ranks = json::array();
  for (const auto& [position, rank] : table)
    if (std::ranges::all_of(filter, [&](const auto& at) { return position[at.first] == at.second; }))
      ranks.push_back(rank);
  return ranks;
}

// A size that the source reads of an axis; an axis may be beyond the sizes.
std::optional<int> size_at(const Shape& shape, std::size_t axis) {
  return axis < shape.dims.size() ? std::optional(shape.dims[axis]) : std::nullopt;
}

// One group for each coordinate on the other axes, with the rank of each position on this one.
Returned table_groups_along(const Shape& shape, const Table& table, std::size_t axis) {
  Shape others;
  for (std::size_t other = 0; other < shape.axes.size(); ++other) {
    const std::optional<int> size = other == axis ? 1 : size_at(shape, other);
    if (!size) return {};
    others.dims.push_back(*size);
  }
  json groups = json::array();
  if (std::ranges::any_of(others.dims, [](int size) { return size < 1; })) return groups;
  const std::optional<int> size = size_at(shape, axis);
  if (!size) return {};
  for (Position position : positions_in(others, Fastest::last)) {
    json group = json::array();
    for (position[axis] = 0; position[axis] < *size; ++position[axis]) {
      const Returned rank = rank_at(table, position);
      if (!rank) return {};
      group.push_back(*rank);
    }
    groups.push_back(group);
  }
  return groups;
}

Returned repr_of(const Shape& shape, const Table& table, int rank, const std::vector<std::string>& omitted) {
  std::vector<std::string> parts;
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
    if (std::ranges::count(omitted, shape.axes[axis]) > 0) continue;
    const Returned coordinate = coordinate_of(table, rank);
    if (!coordinate) return {};
    parts.push_back(fmt::format("{}_{:02}", shape.axes[axis], coordinate->at(axis).get<int>()));
  }
  return fmt::format("{}", fmt::join(parts, "-"));
}

std::string printed(const Shape& shape, const Table& table) {
  std::vector<std::string> entries;
  for (const auto& [position, rank] : table) {
    std::vector<std::string> fields;
    for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
      fields.push_back(fmt::format("{}={}", shape.axes[axis], position[axis]));
    entries.push_back(fmt::format("ProcessCoord({}): {}", fmt::join(fields, ", "), rank));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

// ---- questions ----

struct Method {
  const char* call;
  json kwargs;
  Returned expected;
};

// What is asked of a shape, with what the source's table says.
using Methods = std::function<std::vector<Method>(const Shape&, const Table&, Random&)>;

// What was given, and what is not there.
std::vector<Method> methods_of_shape(const Shape& shape, const Table& table, Random&) {
  std::vector<Method> list{{"world_size", json::object(), table.size()},
                           {"get_axis_names", json::object(), shape.axes},
                           {"__str__", json::object(), printed(shape, table)},
                           {"get_dim", {{"axis", "absent"}}, 0},
                           {"get_axis_comm_lists", {{"axis", "absent"}}, json::array()},
                           {"get_axis_list", {{"axis", "absent"}, {"idx", 0}}, {}}};
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
    const std::optional<int> size = size_at(shape, axis);
    list.push_back({"get_dim", {{"axis", shape.axes[axis]}}, size ? Returned(*size) : Returned()});
  }
  return list;
}

std::vector<Method> methods_of_groups(const Shape& shape, const Table& table, Random&) {
  std::vector<Method> list;
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
    list.push_back({"get_axis_comm_lists", {{"axis", shape.axes[axis]}}, table_groups_along(shape, table, axis)});
  return list;
}

// Each that is there, those between them that surplus sizes count, and those one and many beyond the ends.
Ranks ranks_to_ask(const Table& table) {
  const int end = table.empty() ? 1 : table.back().second + 1;
  Ranks ranks{-1, -end, 2 * end - 1, 1000 * end - 1, 1000 * end, std::numeric_limits<int>::max()};
  for (int rank = 0; rank <= end; ++rank) ranks.push_back(rank);
  return ranks;
}

std::vector<Method> methods_of_ranks(const Shape&, const Table& table, Random&) {
  std::vector<Method> list;
  for (const int rank : ranks_to_ask(table))
    list.push_back({"get_coord", {{"rank", rank}}, coordinate_of(table, rank)});
  return list;
}

std::vector<Method> methods_of_names(const Shape& shape, const Table& table, Random&) {
  std::vector<Method> list;
  for (const int rank : ranks_to_ask(table))
    for (const std::vector<std::string>& omitted : {std::vector<std::string>{"pipe", "data"}, shape.axes, {}})
      list.push_back({"get_rank_repr", {{"rank", rank}, {"omit_axes", omitted}}, repr_of(shape, table, rank, omitted)});
  return list;
}

// Any positions on all axes, and on some; an axis in eight is off by one.
std::vector<Method> methods_of_positions(const Shape& shape, const Table& table, Random& random) {
  std::vector<Method> list;
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
    for (int position = -1; position <= size_at(shape, axis).value_or(1); ++position)
      list.push_back(
          {"get_axis_list", {{"axis", shape.axes[axis]}, {"idx", position}}, ranks_at(table, {{axis, position}})});
  for (int trial = 0; trial < 6; ++trial) {
    Position position;
    json coordinate = json::object(), some = json::object();
    std::map<std::size_t, int> filter;
    for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
      const int size = std::max(size_at(shape, axis).value_or(1), 1);
      position.push_back(random.between(0, 7) > 0 ? random.between(0, size - 1) : random.one_of<int>({-1, size}));
      coordinate[shape.axes[axis]] = position.back();
      if (random.between(0, 1) == 0) continue;
      some[shape.axes[axis]] = filter[axis] = position.back();
    }
    list.push_back({"get_rank", coordinate, rank_at(table, position)});
    list.push_back({"filter_match", some, ranks_at(table, filter)});
  }
  return list;
}

std::string problem_of_method(Adapter& adapter, const Shape& shape, const Method& method) {
  const json args{{"convention", "deepspeed"},
                  {"axes", shape.axes},
                  {"dims", shape.dims},
                  {"call", method.call},
                  {"kwargs", method.kwargs}};
  if (!method.expected) return problem_of_refusal_beside_answers(adapter, "topology.query", args);
  return problem_of(adapter, "topology.query", args, [&](const json& result) {
    return first_difference(*method.expected, result.at("result"),
                            fmt::format("{}({})", method.call, method.kwargs.dump()));
  });
}

std::string problem_of_methods(Adapter& adapter, const Shape& shape, const std::vector<Methods>& asked,
                               std::uint64_t seed) {
  Random random(seed + shape.dims.size());
  const Table table = table_of(shape);
  for (const Methods& methods : asked)
    for (const Method& method : methods(shape, table, random))
      if (std::string words = problem_of_method(adapter, shape, method); !words.empty()) return words;
  return {};
}

std::string text_of_sizes(const Shape& shape) {
  return fmt::format("axes [{}] of sizes [{}]", fmt::join(shape.axes, ","), fmt::join(shape.dims, ","));
}

std::vector<std::string> draw_names(Random& random, int most) {
  auto names = random.shuffled(std::vector<std::string>{"pipe", "data", "model", "expert"});
  names.resize(static_cast<std::size_t>(random.between(0, most)));
  return names;
}

Shape draw_legal(Random& random) { return draw_shape(random, {.axes = 3, .ranks = 12}); }

Shape draw_surplus(Random& random) {
  Shape shape{.axes = draw_names(random, 2), .dims = {}};
  const int sizes = static_cast<int>(shape.axes.size()) + random.between(1, 2);
  while (static_cast<int>(shape.dims.size()) < sizes) shape.dims.push_back(random.between(1, 3));
  return shape;
}

// More axes than sizes, as many, and fewer; one size at least is below 1.
Shape draw_empty(Random& random) {
  Shape shape{.axes = draw_names(random, 4), .dims = {}};
  const int sizes = std::max(1, static_cast<int>(shape.axes.size()) + random.between(-1, 1));
  while (static_cast<int>(shape.dims.size()) < sizes) shape.dims.push_back(random.between(-1, 3));
  if (std::ranges::all_of(shape.dims, [](int size) { return size > 0; }))
    shape.dims[static_cast<std::size_t>(random.between(0, sizes - 1))] = random.between(-1, 0);
  return shape;
}

Shape draw_any(Random& random) {
  const int kind = random.between(0, 2);
  return kind == 0 ? draw_legal(random) : kind == 1 ? draw_surplus(random) : draw_empty(random);
}

void judge_methods(Context& context, Shape (*draw)(Random&), const std::vector<Methods>& asked) {
  const Property<Shape> property{
      .draw = draw,
      .problem =
          [&](const Shape& shape) { return problem_of_methods(context.adapter(), shape, asked, context.seed()); },
      .smaller = [](const Shape&) { return std::vector<Shape>(); },
      .words = text_of_sizes};
  report_words(search(property, context.seed(), 60));
}

void positions(Context& context) { judge_methods(context, draw_legal, {methods_of_positions}); }

void surplus_sizes(Context& context) {
  judge_methods(context, draw_surplus, {methods_of_ranks, methods_of_positions, methods_of_groups});
}

void empty_worlds(Context& context) {
  judge_methods(context, draw_empty, {methods_of_ranks, methods_of_positions, methods_of_groups});
}

void shapes_as_given(Context& context) { judge_methods(context, draw_any, {methods_of_shape}); }

void names_of_ranks(Context& context) { judge_methods(context, draw_any, {methods_of_names}); }

// A grid asks for the coordinates of ranks 0 to W-1.
void grids_of_surplus_sizes(Context& context) {
  const auto question = [](const json& dims) -> json {
    return {{"convention", "deepspeed"}, {"world_size", 4}, {"axes", {"pipe", "data"}}, {"dims", dims}};
  };
  for (const json& dims : {json{2, 2}, json{2, 2, 1}, json{2, 2, 1, 1}})
    report_words(problem_of(context.adapter(), "topology.grid", question(dims), [&](const json& result) {
      const json groups{{0, 2}, {1, 3}, {0, 1}, {2, 3}, {0, 2}, {1, 3}, {0}, {1}, {2}, {3}};
      return first_difference(json{{"pipe_parallel_size", 2}, {"new_group_calls", groups}}, result,
                              "sizes " + dims.dump());
    }));
  for (const json& dims : {json{2, 2, 2}, json{2, 2, 1, 3}, json{-2, -2}, json{2, 2, 0}})
    if (const std::string words = problem_of_refusal_beside_answers(context.adapter(), "topology.grid", question(dims));
        !words.empty())
      return report_words(words);
}

// ---- names ----

// keyword.kwlist of Python 3.
constexpr auto kKeywords =
    std::to_array<const char*>({"False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
                                "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
                                "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
                                "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"});

json axis_named(const std::string& axis) {
  return {{"convention", "deepspeed"},
          {"axes", {axis, "data"}},
          {"dims", {2, 3}},
          {"call", "get_axis_names"},
          {"kwargs", json::object()}};
}

void field_names(Context& context) {
  const auto refused = [&](const std::string& axis) {
    const std::string words = problem_of_refusal_beside_answers(context.adapter(), "topology.query", axis_named(axis));
    if (!words.empty()) report_words(words);
  };
  const auto taken = [&](const std::string& axis) {
    report_words(problem_of(context.adapter(), "topology.query", axis_named(axis), [&](const json& result) {
      return first_difference(json{axis, "data"}, result.at("result"), "get_axis_names()");
    }));
  };
  for (const std::string keyword : kKeywords) {
    refused(keyword);
    taken(keyword + "_");
    taken("x" + keyword);
  }
  for (const char* axis : {"", "_pipe", "_", "1pipe", "pi pe", "pi-pe", "pipe.", "data"}) refused(axis);
  for (const char* axis : {"x", "Z", "pipe1", "p_", "none", "tensor_model_2", "z9", "A0"}) taken(axis);
}

suite::Check deepspeed_check(std::string id, std::string verifies, std::function<void(Context&)> body,
                             const char* operation = "topology.query") {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {},
          .operations = {operation},
          .convention = "deepspeed",
          .body = std::move(body)};
}

}  // namespace

void add_deepspeed_checks(suite::Suite& suite) {
  suite.add(deepspeed_check("topology.deepspeed.positions", "TOPO-061@e56e", positions));
  suite.add(deepspeed_check("topology.deepspeed.surplus_sizes", "TOPO-062@9743", surplus_sizes));
  suite.add(deepspeed_check("topology.deepspeed.empty_worlds", "TOPO-063@18fe", empty_worlds));
  suite.add(deepspeed_check("topology.deepspeed.field_names", "TOPO-064@49bd", field_names));
  suite.add(deepspeed_check("topology.deepspeed.shapes_as_given", "TOPO-076@a547", shapes_as_given));
  suite.add(deepspeed_check("topology.deepspeed.names_of_ranks", "TOPO-077@efde", names_of_ranks));
  suite.add(deepspeed_check("topology.deepspeed.grids_of_surplus_sizes", "TOPO-078@c1c4", grids_of_surplus_sizes,
                            "topology.grid"));
}

}  // namespace plumbline::conformance
