// The map of coordinates to ranks: row-major, one to one, and the lists of ranks that follow from it.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "conformance/topology/shapes.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;
using suite::Context;

namespace {

json named(const Shape& shape, const Position& position) {
  json coordinate = json::object();
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) coordinate[shape.axes[axis]] = position[axis];
  return coordinate;
}

std::string problem_of_map(Adapter& adapter, const Shape& shape, const json& more, const JudgeResult& judge) {
  json args{{"axes", shape.axes}, {"dims", shape.dims}, {"filter_match", json::array()}, {"rank_repr", json::array()}};
  if (more.is_object()) args.update(more);
  return problem_of(adapter, "topology.process_topology", args, judge);
}

std::string problem_of_query(Adapter& adapter, const Shape& shape, const std::string& call, const json& kwargs,
                             const json& expected) {
  return problem_of(
      adapter, "topology.query", {{"axes", shape.axes}, {"dims", shape.dims}, {"call", call}, {"kwargs", kwargs}},
      [&](const json& result) {
        return first_difference(expected, result.at("result"), fmt::format("{}({})", call, kwargs.dump()));
      });
}

// ---- ranks and coordinates ----

void bijection(Context& context) {
  judge_shapes(context, [&](const Shape& shape) {
    return problem_of_map(context.adapter(), shape, {}, [&](const json& result) -> std::string {
      const auto coordinates = result.at("coords").get<std::vector<Position>>();
      if (static_cast<int>(coordinates.size()) != ranks_in(shape))
        return fmt::format("{} coordinates for {} ranks", coordinates.size(), ranks_in(shape));
      if (std::set(coordinates.begin(), coordinates.end()).size() != coordinates.size())
        return "two ranks have the same coordinate";
      for (const Position& position : coordinates)
        for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
          if (position.at(axis) < 0 || position[axis] >= shape.dims[axis])
            return fmt::format("coordinate [{}] is off axis {}", fmt::join(position, ","), shape.axes[axis]);
      Ranks back(coordinates.size());
      std::iota(back.begin(), back.end(), 0);
      return first_difference(back, result.at("rank_of_coord"), "rank_of_coord");
    });
  });
}

void row_major(Context& context) {
  judge_shapes(context, [&](const Shape& shape) {
    return problem_of_map(context.adapter(), shape, {}, [&](const json& result) {
      return first_difference(positions_in(shape, Fastest::last), result.at("coords"), "coords");
    });
  });
}

// ---- names ----

struct Style {
  json omit_axes, inner_sep, outer_sep;  // null: the default
};

std::string name_of(const Shape& shape, const Position& position, const Style& style) {
  const json omit = style.omit_axes.is_null() ? json{"data", "pipe"} : style.omit_axes;
  std::string name;
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
    if (std::ranges::count(omit, json(shape.axes[axis])) > 0) continue;
    std::string digits = std::to_string(position[axis]);
    if (digits.size() < 2) digits.insert(0, "0");
    if (!name.empty()) name += style.outer_sep.is_null() ? "-" : style.outer_sep.get<std::string>();
    name += shape.axes[axis] + (style.inner_sep.is_null() ? "_" : style.inner_sep.get<std::string>()) + digits;
  }
  return name;
}

// ---- single questions ----

// A single question and its answer.
struct Question {
  const char* call;
  json kwargs, expected;
};

std::vector<Question> questions_of_ranks(const Shape& shape, const std::vector<Position>& positions) {
  std::vector<Question> list;
  for (std::size_t rank = 0; rank < positions.size(); ++rank) {
    list.push_back({"get_rank", named(shape, positions[rank]), rank});
    list.push_back({"get_coord", {{"rank", rank}}, positions[rank]});
    list.push_back({"get_rank_repr",
                    {{"rank", rank}, {"omit_axes", {shape.axes.back()}}, {"outer_sep", "."}},
                    name_of(shape, positions[rank], {{shape.axes.back()}, nullptr, "."})});
  }
  return list;
}

std::vector<Question> questions_of_axes(const Shape& shape, const std::vector<Position>& positions) {
  std::vector<Question> list{
      {"world_size", json::object(), ranks_in(shape)},
      {"filter_match", json::object(), ranks_where(shape, positions, [](const Position&) { return true; })}};
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
    const std::string& name = shape.axes[axis];
    list.push_back({"get_dim", {{"axis", name}}, shape.dims[axis]});
    list.push_back({"get_axis_comm_lists", {{"axis", name}}, lists_along(shape, positions, {static_cast<int>(axis)})});
    for (int index = 0; index < shape.dims[axis]; ++index) {
      const json there =
          ranks_where(shape, positions, [&](const Position& position) { return position[axis] == index; });
      list.push_back({"get_axis_list", {{"axis", name}, {"idx", index}}, there});
      list.push_back({"filter_match", {{name, index}}, there});
    }
  }
  return list;
}

void single_questions(Context& context) {
  const auto problem = [&](const Shape& shape) {
    const std::vector<Position> positions = positions_in(shape, Fastest::last);
    for (const auto& list : {questions_of_ranks(shape, positions), questions_of_axes(shape, positions)})
      for (const Question& one : list)
        if (auto words = problem_of_query(context.adapter(), shape, one.call, one.kwargs, one.expected); !words.empty())
          return words;
    return std::string();
  };
  judge_shapes(context, problem, {.ranks = 12}, 60);
}

// Too many ranks to count: positions are drawn, and the rank is reckoned from them.
void large_worlds(Context& context) {
  static const std::map<std::string, std::vector<int>> kSizes{{"16_bits", {3, 97, 331}},
                                                              {"20_bits", {33, 1021, 37}},
                                                              {"24_bits", {333, 257, 301}},
                                                              {"31_bits", {7, 2999, 102001}},
                                                              {"largest", {1, 2147483647, 1}}};
  const Shape shape{.axes = {"pipe", "data", "model"}, .dims = kSizes.at(context.parameters().text("ranks"))};
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    Position position;
    for (const int size : shape.dims) position.push_back(trial == 0 ? size - 1 : random.between(0, size - 1));
    int rank = 0;
    for (std::size_t axis = 0; axis < position.size(); ++axis) rank = rank * shape.dims[axis] + position[axis];
    for (const Question& one :
         {Question{"get_rank", named(shape, position), rank}, Question{"get_coord", {{"rank", rank}}, position},
          Question{"get_rank_repr",
                   {{"rank", rank}, {"omit_axes", json::array()}},
                   name_of(shape, position, {json::array(), nullptr, nullptr})}})
      report_words(problem_of_query(context.adapter(), shape, one.call, one.kwargs, one.expected));
  }
}

void sizes_of_axes(Context& context) {
  judge_shapes(context, [&](const Shape& shape) {
    json dims = json::object();
    for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) dims[shape.axes[axis]] = shape.dims[axis];
    auto words = problem_of_map(context.adapter(), shape, {}, [&](const json& result) {
      return first_difference({{"world_size", ranks_in(shape)}, {"get_dim", dims}}, result);
    });
    return words.empty() ? problem_of_query(context.adapter(), shape, "get_axis_names", json::object(), shape.axes)
                         : words;
  });
}

// ---- groups along an axis ----

using Groups = std::map<std::string, std::vector<Ranks>>;

void judge_groups(Context& context, const std::function<std::string(const Shape&, const Groups&)>& judge) {
  judge_shapes(context, [&](const Shape& shape) {
    return problem_of_map(context.adapter(), shape, {}, [&](const json& result) {
      Groups groups;
      for (const std::string& axis : shape.axes)
        groups[axis] = result.at("axis_comm_lists").at(axis).get<std::vector<Ranks>>();
      return judge(shape, groups);
    });
  });
}

std::string problem_of_partition(const Shape& shape, const Groups& groups) {
  for (const auto& [axis, lists] : groups) {
    const int size = shape.dims[static_cast<std::size_t>(number_of(shape, axis))];
    std::vector<int> times(static_cast<std::size_t>(ranks_in(shape)));
    for (const Ranks& ranks : lists) {
      if (static_cast<int>(ranks.size()) != size)
        return fmt::format("axis {} of size {} has a group [{}]", axis, size, fmt::join(ranks, ","));
      for (const int rank : ranks)
        if (++times.at(static_cast<std::size_t>(rank)) > 1)
          return fmt::format("rank {} is in two groups of axis {}", rank, axis);
    }
    if (const auto none = std::ranges::find(times, 0); none != times.end())
      return fmt::format("rank {} is in no group of axis {}", none - times.begin(), axis);
  }
  return {};
}

std::string problem_of_meeting(const Shape& shape, const Groups& groups) {
  if (auto words = problem_of_partition(shape, groups); !words.empty()) return words;
  for (const auto& [one, lists] : groups)
    for (const auto& [other, others] : groups) {
      if (one == other) continue;
      for (const Ranks& ranks : lists)
        for (const Ranks& more : others)
          if (std::ranges::count_if(ranks, [&](int rank) { return std::ranges::count(more, rank) > 0; }) > 1)
            return fmt::format("[{}] along {} and [{}] along {} meet in more than one rank", fmt::join(ranks, ","), one,
                               fmt::join(more, ","), other);
    }
  return {};
}

std::string problem_of_order(const Shape& shape, const Groups& groups) {
  const std::vector<Position> positions = positions_in(shape, Fastest::last);
  for (const auto& [axis, lists] : groups)
    if (auto words =
            first_difference(lists_along(shape, positions, {number_of(shape, axis)}), lists, "groups of " + axis);
        !words.empty())
      return words;
  return {};
}

void partition(Context& context) { judge_groups(context, problem_of_partition); }
void meeting(Context& context) { judge_groups(context, problem_of_meeting); }
void order(Context& context) { judge_groups(context, problem_of_order); }

// ---- lists of ranks ----

void axis_lists(Context& context) {
  judge_shapes(context, [&](const Shape& shape) {
    const std::vector<Position> positions = positions_in(shape, Fastest::last);
    json expected = json::object();
    for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
      for (int index = 0; index < shape.dims[axis]; ++index)
        expected[shape.axes[axis]].push_back(
            ranks_where(shape, positions, [&](const Position& position) { return position[axis] == index; }));
    return problem_of_map(context.adapter(), shape, {}, [&](const json& result) {
      return first_difference(expected, result.at("axis_list"), "axis_list");
    });
  });
}

// Positions on no axis, on each alone, and on those of a few more coordinates with one axis left out.
json filters_of(const Shape& shape, const std::vector<Position>& positions) {
  json filters = json::array({json::object()});
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
    filters.push_back({{shape.axes[axis], shape.dims[axis] - 1}});
  for (std::size_t rank = 0; rank < positions.size(); rank += 5) {
    json filter = named(shape, positions[rank]);
    filter.erase(shape.axes[rank % shape.axes.size()]);
    filters.push_back(filter);
  }
  return filters;
}

void filters(Context& context) {
  judge_shapes(context, [&](const Shape& shape) {
    const std::vector<Position> positions = positions_in(shape, Fastest::last);
    json asked = json::array(), expected = json::array();
    for (const json& filter : filters_of(shape, positions)) {
      const auto fits = [&](const Position& position) {
        return std::ranges::all_of(filter.items(), [&](const auto& wanted) {
          return position[static_cast<std::size_t>(number_of(shape, wanted.key()))] ==
                 wanted.value().template get<int>();
        });
      };
      asked.push_back({{"filter", filter}});
      expected.push_back({{"filter", filter}, {"ranks", ranks_where(shape, positions, fits)}});
    }
    return problem_of_map(context.adapter(), shape, {{"filter_match", asked}}, [&](const json& result) {
      return first_difference(expected, result.at("filter_match"), "filter_match");
    });
  });
}

// ---- names of ranks ----

std::string problem_of_names(Adapter& adapter, const Shape& shape, const std::vector<Style>& styles) {
  const std::vector<Position> positions = positions_in(shape, Fastest::last);
  json asked = json::array(), expected = json::array();
  for (std::size_t rank = 0; rank < positions.size(); ++rank)
    for (const Style& style : styles) {
      asked.push_back({{"rank", rank},
                       {"omit_axes", style.omit_axes},
                       {"inner_sep", style.inner_sep},
                       {"outer_sep", style.outer_sep}});
      expected.push_back({{"rank", rank}, {"repr", name_of(shape, positions[rank], style)}});
    }
  return problem_of_map(adapter, shape, {{"rank_repr", asked}}, [&](const json& result) {
    return first_difference(expected, result.at("rank_repr"), "rank_repr");
  });
}

void names(Context& context) {
  judge_shapes(
      context,
      [&](const Shape& shape) {
        return problem_of_names(context.adapter(), shape,
                                {{json::array(), nullptr, nullptr},
                                 {json::array(), "", "/"},
                                 {json::array({shape.axes.front()}), "=", nullptr},
                                 {json::array({shape.axes[shape.axes.size() / 2]}), nullptr, "+"},
                                 {json::array({shape.axes.back(), shape.axes.front()}), nullptr, nullptr}});
      },
      {.ranks = 30}, 300);
}

void default_names(Context& context) {
  judge_shapes(
      context,
      [&](const Shape& shape) {
        return problem_of_names(context.adapter(), shape, {{nullptr, nullptr, nullptr}, {nullptr, "=", "+"}});
      },
      {.ranks = 30}, 300);
}

// ---- as DeepSpeed is asked ----

void five_axes(Context& context) {
  const ShapeLimits limits{.axes = 7, .ranks = 200};
  const auto problem = [&](const Shape& shape) {
    const std::vector<Position> positions = positions_in(shape, Fastest::last);
    json expected{{"world_size", ranks_in(shape)}, {"coords", positions}};
    for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
      expected["get_dim"][shape.axes[axis]] = shape.dims[axis];
      expected["axis_comm_lists"][shape.axes[axis]] = lists_along(shape, positions, {static_cast<int>(axis)});
    }
    return problem_of_map(context.adapter(), shape, {{"convention", "deepspeed"}},
                          [&](const json& result) { return first_difference(expected, result); });
  };
  judge_shapes(context, problem, limits, 200);
}

suite::Check map_check(std::string id, std::string verifies, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {shapes()},
          .operations = {"topology.process_topology"},
          .body = std::move(body)};
}

}  // namespace

void add_map_checks(suite::Suite& suite) {
  suite.add(map_check("topology.map.bijection", "TOPO-001@c301", bijection));
  suite.add(map_check("topology.map.row_major", "TOPO-002@48f6", row_major));
  suite::Check questions = map_check("topology.map.single_questions", "TOPO-003@662b", single_questions);
  questions.axes = {shapes({"5", "3x2", "2x3x1", "random"})};
  questions.operations = {"topology.query"};
  suite.add(std::move(questions));
  suite::Check large = map_check("topology.map.large_worlds", "TOPO-056@276f", large_worlds);
  large.axes = {{"ranks", {"16_bits", "20_bits", "24_bits", "31_bits", "largest"}}};
  large.operations = {"topology.query"};
  suite.add(std::move(large));
  suite::Check lenient = map_check("topology.deepspeed.map", "TOPO-057@a43f", five_axes);
  lenient.convention = "deepspeed";
  suite.add(std::move(lenient));
  suite::Check sized = map_check("topology.map.sizes", "TOPO-004@51ee", sizes_of_axes);
  sized.operations.emplace_back("topology.query");
  suite.add(std::move(sized));
  suite.add(map_check("topology.groups.partition", "TOPO-005@0bbb", partition));
  suite.add(map_check("topology.groups.meet_once", "TOPO-006@cc7b", meeting));
  suite.add(map_check("topology.groups.order", "TOPO-007@afe5", order));
  suite.add(map_check("topology.lists.of_a_position", "TOPO-008@4152", axis_lists));
  suite.add(map_check("topology.lists.of_a_filter", "TOPO-009@908c", filters));
  suite::Check long_axis = map_check("topology.names.any_style", "TOPO-010@e8f3", names);
  long_axis.axes = {shapes({"5", "3x2", "2x3x1", "1x101", "2x2x1x2", "1x1001", "random"})};
  suite.add(std::move(long_axis));
  suite.add(map_check("topology.names.default_style", "TOPO-011@158b", default_names));
}

}  // namespace plumbline::conformance
