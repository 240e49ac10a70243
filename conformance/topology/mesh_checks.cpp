// torch's device meshes: nested rank lists, sub-meshes by name, flattened sub-meshes.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/topology/shapes.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

const ShapeLimits kMeshes{.axes = 4, .ranks = 30};
constexpr int kMeshTrials = 300;

// Ranks as nested lists of these sizes, in the order given.
json nested(const Ranks& ranks, const std::vector<int>& sizes, std::size_t depth = 0) {
  if (depth + 1 >= sizes.size()) return ranks;
  json lists = json::array();
  const std::size_t length = ranks.size() / static_cast<std::size_t>(sizes[depth]);
  for (std::size_t at = 0; at < ranks.size(); at += length)
    lists.push_back(nested(Ranks(ranks.begin() + static_cast<std::ptrdiff_t>(at),
                                 ranks.begin() + static_cast<std::ptrdiff_t>(at + length)),
                           sizes, depth + 1));
  return lists;
}

// Axis numbers, ascending: those whose bit is set.
std::vector<int> axes_in(unsigned bits, const Shape& shape) {
  std::vector<int> axes;
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
    if ((bits >> axis & 1u) != 0) axes.push_back(static_cast<int>(axis));
  return axes;
}

std::string words_of(const std::vector<int>& axes, const Shape& shape) {
  std::vector<std::string> names;
  for (const int axis : axes) names.push_back(shape.axes[static_cast<std::size_t>(axis)]);
  return fmt::format("{}", fmt::join(names, "-"));
}

std::vector<int> sizes_of(const std::vector<int>& axes, const Shape& shape) {
  std::vector<int> sizes;
  for (const int axis : axes) sizes.push_back(shape.dims[static_cast<std::size_t>(axis)]);
  return sizes;
}

void judge_meshes(Context& context, const std::function<std::vector<std::string>(const Shape&)>& slices,
                  const std::function<json(const Shape&)>& expected) {
  judge_shapes(
      context,
      [&](const Shape& shape) {
        const json args{{"shape", shape.dims},
                        {"dim_names", shape.axes},
                        {"slices", slices(shape)},
                        {"world_size", ranks_in(shape)}};
        return problem_of(context.adapter(), "topology.device_mesh", args,
                          [&](const json& result) { return first_difference(expected(shape), result); });
      },
      kMeshes, kMeshTrials);
}

std::vector<std::string> no_slices(const Shape&) { return {}; }

// All sub-meshes but the whole.
std::vector<std::string> all_slices(const Shape& shape) {
  std::vector<std::string> words;
  for (unsigned bits = 1; bits + 1 < 1u << shape.axes.size(); ++bits)
    words.push_back(words_of(axes_in(bits, shape), shape));
  return words;
}

void meshes(Context& context) {
  judge_meshes(context, no_slices, [](const Shape& shape) -> json {
    const std::vector<Position> positions = positions_in(shape, Fastest::last);
    Ranks all;
    json groups = json::object();
    for (int rank = 0; rank < ranks_in(shape); ++rank) all.push_back(rank);
    for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
      groups[shape.axes[axis]] = lists_along(shape, positions, {static_cast<int>(axis)});
    return {{"mesh", nested(all, shape.dims)}, {"groups", groups}};
  });
}

void places(Context& context) {
  judge_meshes(context, no_slices, [](const Shape& shape) -> json {
    const std::vector<Position> positions = positions_in(shape, Fastest::last);
    json ranks = json::array();
    for (int rank = 0; rank < ranks_in(shape); ++rank) {
      json local = json::object(), groups = json::object();
      for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
        local[shape.axes[axis]] = positions[static_cast<std::size_t>(rank)][axis];
        groups[shape.axes[axis]] = list_with(lists_along(shape, positions, {static_cast<int>(axis)}), rank);
      }
      ranks.push_back({{"rank", rank},
                       {"coordinate", positions[static_cast<std::size_t>(rank)]},
                       {"local_rank", local},
                       {"group_ranks", groups}});
    }
    return {{"ranks", ranks}};
  });
}

// What each rank is told of the sub-meshes that it is in: `field` as `told` makes it of the sub-mesh's ranks and sizes.
void judge_slices(Context& context, const char* field,
                  const std::function<json(const Ranks&, const std::vector<int>& sizes)>& told) {
  judge_meshes(context, all_slices, [&](const Shape& shape) -> json {
    const std::vector<Position> positions = positions_in(shape, Fastest::last);
    json ranks = json::array();
    for (int rank = 0; rank < ranks_in(shape); ++rank) {
      json slices = json::object();
      const bool is_flat = std::string(field) == "flatten";
      for (unsigned bits = 1; bits < 1u << shape.axes.size(); ++bits) {
        const std::vector<int> axes = axes_in(bits, shape);
        if (is_flat ? axes.size() < 2 : axes.size() == shape.axes.size())
          continue;  // of several dimensions, the whole too
        const Ranks members = list_with(lists_along(shape, positions, axes), rank);
        slices[words_of(axes, shape)] = told(members, sizes_of(axes, shape));
      }
      if (!slices.empty()) ranks.push_back({{field, slices}});
    }
    return ranks.empty() ? json::object() : json{{"ranks", ranks}};
  });
}

void mesh_slices(Context& context) {
  judge_slices(context, "slices",
               [](const Ranks& ranks, const std::vector<int>& sizes) { return nested(ranks, sizes); });
}

void flattened(Context& context) {
  judge_slices(context, "flatten", [](const Ranks& ranks, const std::vector<int>&) { return json(ranks); });
}

void out_of_order(Context& context) {
  const std::string& slice = context.parameters().text("slice");
  const json args{{"shape", {2, 3, 2}}, {"dim_names", {"a", "b", "c"}}, {"slices", {slice}}};
  if (slice == "a-c") {  // of rank 0, which is at 0 on b
    report_words(problem_of(context.adapter(), "topology.device_mesh", args, [](const json& result) {
      return first_difference({{0, 1}, {6, 7}}, result.at("ranks").at(0).at("slices").at("a-c"), "a-c");
    }));
    return;
  }
  report_words(problem_of_control(context.adapter(), "topology.device_mesh", args));
  const Answer answer = answer_to(context.adapter(), "topology.device_mesh", args);
  if (!answer.is_refused())
    report_words(fmt::format("the slice {} of [a,b,c] is taken: {}", slice, answer.result.dump().substr(0, 120)));
  else if (!refuses_bad_value(answer, args))
    report_words(fmt::format("the slice {} is refused as '{}', which says nothing of it: {}", slice, answer.kind,
                             answer.message));
}

suite::Check mesh_check(std::string id, std::string verifies, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {shapes({"5", "3x2", "2x3x1", "2x3x4", "random"})},
          .operations = {"topology.device_mesh"},
          .body = std::move(body)};
}

}  // namespace

void add_mesh_checks(suite::Suite& suite) {
  suite.add(mesh_check("topology.meshes.row_major", "TOPO-037@15bc", meshes));
  suite.add(mesh_check("topology.meshes.places", "TOPO-038@30f6", places));
  suite.add(mesh_check("topology.meshes.slices", "TOPO-039@2829", mesh_slices));
  suite.add(mesh_check("topology.meshes.flattened", "TOPO-040@0fa0", flattened));
  suite::Check order = mesh_check("topology.meshes.slices_in_order", "TOPO-041@45f0", out_of_order);
  order.axes = {{"slice", {"a-c", "c-a", "b-a", "a-c-b", "a-a"}}};
  suite.add(std::move(order));
}

}  // namespace plumbline::conformance
