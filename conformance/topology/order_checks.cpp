// Megatron-LM's orders: the first name fastest, merged axes, expert grids, spans that begin beyond rank 0.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "conformance/support/refusal.hpp"
#include "conformance/support/words.hpp"
#include "conformance/topology/shapes.hpp"
#include "conformance/topology/topology_checks.hpp"
#include "reference/comm/errors.hpp"
#include "reference/topology/topology.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

// The order names all axes; those that it leaves out have size 1.
json generator_args(const Shape& shape, const std::vector<std::string>& tokens) {
  json sizes{{"tp", 1}, {"ep", 1}, {"dp", 1}, {"pp", 1}, {"cp", 1}, {"gtp_remat", 1}};
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) sizes[shape.axes[axis]] = shape.dims[axis];
  return {{"sizes", sizes},
          {"order", fmt::format("{}", fmt::join(shape.axes, "-"))},
          {"rank_offset", shape.offset},
          {"tokens", tokens}};
}

// The order names the axes that were given first, and the sizes are theirs; what it is completed with has one rank.
std::string problem_of_generated(const Shape& shape, const json& groups, const json& result) {
  const auto order = result.at("normalized_order").get<std::string>();
  if (!(order + "-").starts_with(fmt::format("{}-", fmt::join(shape.axes, "-"))))
    return fmt::format("the order is {}", order);
  auto sizes = shape.dims;
  sizes.resize(std::max(sizes.size(), result.at("ordered_size").size()), 1);
  return first_difference({{"world_size", ranks_in(shape)}, {"ordered_size", sizes}, {"groups", groups}}, result);
}

std::string problem_of_groups(suite::Adapter& adapter, const Shape& shape,
                              const std::map<std::string, std::set<std::string>>& tokens) {
  std::vector<std::string> asked;
  json expected = json::object();
  for (const auto& [words, axes] : tokens) {
    asked.push_back(words);
    expected[words] = lists_of(shape, axes);
  }
  return problem_of(adapter, "topology.rank_generator", generator_args(shape, asked),
                    [&](const json& result) { return problem_of_generated(shape, expected, result); });
}

// The fixed shapes have Megatron-LM's names.
Shape renamed(Shape shape, const std::vector<std::string>& names) {
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
    if (const auto& name = shape.axes[axis]; std::ranges::count(names, name) == 0) shape.axes[axis] = names[axis];
  return shape;
}

void judge_orders(Context& context, const std::vector<std::string>& names, int offset,
                  const std::function<std::string(const Shape&)>& problem) {
  judge_shapes(
      context, [&](const Shape& shape) { return problem(renamed(shape, names)); },
      {.axes = 4, .ranks = 48, .offset = offset, .names = names}, 500);
}

const std::vector<std::string> kNames{"tp", "cp", "dp", "pp"};

void first_fastest(Context& context) {
  judge_orders(context, kNames, 0, [&](const Shape& shape) {
    std::map<std::string, std::set<std::string>> tokens;
    for (const std::string& axis : shape.axes) tokens[axis] = {axis};
    return problem_of_groups(context.adapter(), shape, tokens);
  });
}

// The ranks of experts are a grid of their own, with ep where the other has cp.
void expert_grids(Context& context) {
  judge_orders(context, {"ep", "tp", "dp", "pp", "gtp_remat"}, 0, [&](const Shape& shape) {
    std::map<std::string, std::set<std::string>> tokens;
    if (number_of(shape, "ep") < 0) return std::string();
    for (const std::string& axis : shape.axes)
      if (axis != "ep") {
        tokens["ep-" + axis] = {"ep", axis};
        tokens[axis] = {axis};
      }
    for (std::size_t axis = 1; axis < shape.axes.size(); ++axis)
      for (std::size_t other = 0; other < axis; ++other) {
        const std::string &one = shape.axes[axis], &two = shape.axes[other];
        if (one != "ep" && two != "ep") tokens["ep-" + one + "-" + two] = {"ep", one, two};
      }
    tokens["ep"] = {"ep"};
    return problem_of_groups(context.adapter(), shape, tokens);
  });
}

void merged(Context& context) {
  judge_orders(context, kNames, 0, [&](const Shape& shape) {
    std::map<std::string, std::set<std::string>> tokens;
    for (const std::string& one : shape.axes)
      for (const std::string& other : shape.axes)
        if (one != other) tokens[one + "-" + other] = {one, other};
    for (const std::string& one : shape.axes) tokens[one + "-" + one] = {one};  // twice is once
    if (shape.axes.size() > 2)
      tokens[fmt::format("{}-{}-{}", shape.axes[2], shape.axes[0], shape.axes[1])] = {shape.axes[0], shape.axes[1],
                                                                                      shape.axes[2]};
    return problem_of_groups(context.adapter(), shape, tokens);
  });
}

void offsets(Context& context) {
  const std::string& begin = context.parameters().text("begin");
  judge_orders(context, {"tp", "ep", "dp", "pp", "gtp_remat"}, 0, [&](Shape shape) {
    shape.offset = begin == "last" ? std::numeric_limits<int>::max() - (ranks_in(shape) - 1) : std::stoi(begin);
    std::map<std::string, std::set<std::string>> tokens;
    for (const std::string& axis : shape.axes) {
      tokens[axis] = {axis};
      if (axis != shape.axes.front()) tokens[shape.axes.front() + "-" + axis] = {shape.axes.front(), axis};
    }
    return problem_of_groups(context.adapter(), shape, tokens);
  });
}

// ---- of one rank ----

std::string problem_of_group(const topology::Topology& grid, const Shape& shape, std::size_t axis, int index,
                             const Ranks& ranks) {
  const std::string& name = shape.axes[axis];
  for (const int rank : ranks) {
    if (const int got = grid.group_index(rank, name); got != index)
      return fmt::format("rank {} is in group {} along {}, expected {}", rank, got, name, index);
    for (const Ranks& got : {grid.group_of(rank, name), grid.merged_group_of(rank, std::span(&name, 1))})
      if (got != ranks)
        return fmt::format("the group of rank {} along {} is [{}], expected [{}]", rank, name, fmt::join(got, " "),
                           fmt::join(ranks, " "));
  }
  return {};
}

// Ranks beside those of the shape: below its first, after its last.
std::string problem_of_outsiders(const topology::Topology& grid, const Shape& shape) {
  for (const int rank : {-1, shape.offset / 2, shape.offset - 1, shape.offset + ranks_in(shape)}) {
    if (rank >= shape.offset && rank < shape.offset + ranks_in(shape)) continue;
    for (const auto& ask : std::vector<std::function<void()>>{[&] { (void)grid.coordinate(rank); },
                                                              [&] { (void)grid.group_index(rank, shape.axes.front()); },
                                                              [&] { (void)grid.merged_group_of(rank, shape.axes); }})
      if (const std::string said = refusal<OutOfRange>(ask); !has_word(said, std::to_string(rank)))
        return fmt::format("rank {} is outside: {}", rank, said);
  }
  return {};
}

// By the order of axes that a mesh has: the last one fastest.
void groups_of_ranks(Context& context) {
  judge_shapes(context, [&](Shape shape) -> std::string {
    shape.offset = static_cast<int>(context.parameters().number("begin"));
    const auto grid = topology::Topology::row_major(shape.axes, shape.dims, shape.offset);
    const std::vector<Position> positions = positions_in(shape, Fastest::last);
    for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
      for (int index = 0; const Ranks& ranks : lists_along(shape, positions, {static_cast<int>(axis)}))
        if (std::string words = problem_of_group(grid, shape, axis, index++, ranks); !words.empty()) return words;
    return problem_of_outsiders(grid, shape);
  });
}

// ---- spans ----

void spans(Context& context) {
  judge_orders(context, kNames, 40, [&](const Shape& shape) {
    json groups = json::object();
    for (std::size_t one = 0; one < shape.axes.size(); ++one) {
      groups[shape.axes[one]] = lists_of(shape, {shape.axes[one]});
      for (std::size_t other = one + 1; other < shape.axes.size(); ++other)
        groups[shape.axes[one] + "-" + shape.axes[other]] = lists_of(shape, {shape.axes[one], shape.axes[other]});
    }
    const json args{{"shape", shape.dims},
                    {"dim_names", shape.axes},
                    {"world_size", shape.offset + ranks_in(shape) + 3},
                    {"rank_offset", shape.offset}};
    return problem_of(context.adapter(), "topology.hyper_comm_grid", args,
                      [&](const json& result) { return first_difference(groups, result.at("groups"), "groups"); });
  });
}

suite::Check order_check(std::string id, std::string verifies, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {shapes({"5", "3x2", "2x3x1", "2x3x2x2", "random"})},
          .operations = {"topology.rank_generator"},
          .body = std::move(body)};
}

}  // namespace

void add_order_checks(suite::Suite& suite) {
  suite.add(order_check("topology.orders.first_fastest", "TOPO-031@68b7", first_fastest));
  suite.add(order_check("topology.orders.merged", "TOPO-032@e8f1", merged));
  suite::Check experts = order_check("topology.orders.expert_grids", "TOPO-033@edb9", expert_grids);
  experts.axes = {shapes({"1x4", "3x2", "2x3x1", "2x3x2x2", "random"})};
  suite.add(std::move(experts));
  suite::Check shifted = order_check("topology.orders.offset", "TOPO-034@3c39", offsets);
  shifted.axes = {shapes({"5", "3x2", "2x3x1", "random"}), {"begin", {"0", "7", "64", "last"}}};
  suite.add(std::move(shifted));
  suite.add({.id = "topology.orders.groups_of_ranks",
             .verifies = {"TOPO-034@3c39", "TOPO-013@f506"},
             .axes = {shapes({"5", "3x2", "2x3x1", "random"}), {"begin", {"0", "7", "64"}}, suite::worlds({1})},
             .body = groups_of_ranks});
  suite::Check span = order_check("topology.orders.spans", "TOPO-035@9592", spans);
  span.operations = {"topology.hyper_comm_grid"};
  suite.add(std::move(span));
}

}  // namespace plumbline::conformance
