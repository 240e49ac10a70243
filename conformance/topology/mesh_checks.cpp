// torch's device meshes, of all ranks in order and of given ranks: nested rank lists, sub-meshes by name, flattened
// ones.
#include <algorithm>
#include <cstdint>

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
constexpr int kMeshTrials = 300, kGivenTrials = 60;

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

// ---- meshes of given ranks ----

// A shape and the ranks at its positions, in row-major order.
struct Placed {
  Shape shape;
  Ranks ranks;
  int world = 0;
  std::vector<Position> positions;  // of each of the ranks

  [[nodiscard]] json question(const std::string& convention, const std::vector<std::string>& slices) const {
    return {{"convention", convention}, {"shape", shape.dims}, {"dim_names", shape.axes},
            {"ranks", ranks},           {"slices", slices},    {"world_size", world}};
  }
  // Of those that differ from the one at `index` on these axes alone, in the order of the mesh.
  [[nodiscard]] Ranks beside(std::size_t index, const std::vector<int>& axes) const {
    Ranks list;
    for (const int place : list_with(lists_along(shape, positions, axes), static_cast<int>(index)))
      list.push_back(ranks[static_cast<std::size_t>(place)]);
    return list;
  }
};

// All ranks of the world in any order, or some of a larger one.
Placed placed(const Shape& shape, const std::string& kind, std::uint64_t seed) {
  Random random(seed + static_cast<std::uint64_t>(ranks_in(shape)));
  Placed one{.shape = shape, .ranks = {}, .world = ranks_in(shape), .positions = positions_in(shape, Fastest::last)};
  if (kind == "subset") one.world += random.between(1, 5);
  Ranks all;
  for (int rank = 0; rank < one.world; ++rank) all.push_back(rank);
  all = random.shuffled(all);
  one.ranks.assign(all.begin(), all.begin() + ranks_in(shape));
  return one;
}

using JudgePlaced = std::string (*)(const Placed& placed, std::size_t index, const json& row);

std::string at_its_coordinate(const Placed& placed, std::size_t index, const json& row) {
  return first_difference(placed.positions[index], row.at("coordinate"), "coordinate");
}

std::string in_its_groups(const Placed& placed, std::size_t index, const json& row) {
  for (std::size_t axis = 0; axis < placed.shape.axes.size(); ++axis) {
    std::string problem = problem_of_group(row, placed.shape.axes[axis], placed.ranks[index],
                                           placed.beside(index, {static_cast<int>(axis)}));
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string in_its_slices(const Placed& placed, std::size_t index, const json& row) {
  const Shape& shape = placed.shape;
  for (unsigned bits = 1; bits < 1u << shape.axes.size(); ++bits) {
    const std::vector<int> axes = axes_in(bits, shape);
    const std::string words = words_of(axes, shape);
    const Ranks ranks = placed.beside(index, axes);
    std::string problem;
    if (axes.size() < shape.axes.size())
      problem = first_difference(nested(ranks, sizes_of(axes, shape)), row.at("slices").at(words), words);
    if (problem.empty() && axes.size() > 1)
      problem = first_difference(ranks, row.at("flatten").at(words), "flattened " + words);
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string problem_of_placed(const Placed& placed, const json& result, JudgePlaced judge) {
  if (std::string problem = first_difference(nested(placed.ranks, placed.shape.dims), result.at("mesh"), "mesh");
      !problem.empty())
    return problem;
  const json& rows = result.at("ranks");
  if (rows.size() != static_cast<std::size_t>(placed.world)) return fmt::format("{} ranks answer", rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const auto found = std::ranges::find(placed.ranks, static_cast<int>(rank));
    if (found == placed.ranks.end()) {
      if (!rows[rank].at("coordinate").is_null())
        return fmt::format("rank {}, not in the mesh, has a coordinate", rank);
      continue;
    }
    const std::string problem = judge(placed, static_cast<std::size_t>(found - placed.ranks.begin()), rows[rank]);
    if (!problem.empty()) return fmt::format("rank {}: {}", rank, problem);
  }
  return {};
}

template <JudgePlaced judge>
void given_ranks(Context& context, const std::string& convention) {
  const std::string& kind = context.parameters().text("ranks");
  judge_shapes(
      context,
      [&](const Shape& shape) {
        const Placed one = placed(shape, kind, context.seed());
        const json args = one.question(convention, all_slices(shape));
        return problem_of(context.adapter(), "topology.mesh_of_ranks", args,
                          [&](const json& result) { return problem_of_placed(one, result, judge); });
      },
      kMeshes, kGivenTrials);
}

void given_ranks_refused(Context& context, const std::string& convention) {
  const std::string& fault = context.parameters().text("fault");
  json args{{"convention", convention},    {"shape", {2, 3}}, {"dim_names", {"a", "b"}}, {"slices", json::array()},
            {"ranks", {5, 1, 0, 3, 2, 4}}, {"world_size", 6}};
  if (fault == "twice") args["ranks"] = {5, 1, 0, 3, 1, 4};
  if (fault == "outside") args["ranks"] = {5, 1, 0, 3, 2, 6};
  if (fault == "below_zero") args["ranks"] = {5, 1, 0, 3, 2, -1};
  if (fault == "one_less") args["ranks"] = {5, 1, 0, 3, 2};
  if (fault == "one_more") args.update({{"ranks", {5, 1, 0, 3, 2, 4, 6}}, {"world_size", 7}});
  report_words(problem_of_refusal(context.adapter(), "topology.mesh_of_ranks", args));
}

void add_checks_of_given_ranks(suite::Suite& suite) {
  using Body = void (*)(Context&, const std::string& convention);
  const auto add = [&](const std::string& name, const char* requirement, const std::vector<suite::Axis>& axes,
                       Body body) {
    for (const std::string convention : {"plumbline", "torch"}) {
      suite::Check check{.id = fmt::format("topology.meshes.{}{}", convention == "torch" ? "torch_" : "", name),
                         .verifies = {requirement},
                         .door = suite::Door::adapter,
                         .axes = axes,
                         .operations = {"topology.mesh_of_ranks"},
                         .convention = convention,
                         .body = [body, convention](Context& context) { body(context, convention); }};
      // Of a framework only what its own code answers quickly: it makes each group on each rank.
      if (convention == "torch" && axes.front().name == "shape") check.axes.front() = shapes({"5", "3x2", "2x3x2"});
      suite.add(std::move(check));
    }
  };
  const std::vector<suite::Axis> axes{shapes({"5", "3x2", "2x3x4", "random"}), {"ranks", {"permuted", "subset"}}};
  add("given_ranks", "TOPO-081@0655", axes, given_ranks<at_its_coordinate>);
  add("groups_of_given_ranks", "TOPO-082@d232", axes, given_ranks<in_its_groups>);
  add("slices_of_given_ranks", "TOPO-083@d9ff", axes, given_ranks<in_its_slices>);
  add("refused_ranks", "TOPO-084@3443", {{"fault", {"twice", "outside", "below_zero", "one_less", "one_more"}}},
      given_ranks_refused);
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
  add_checks_of_given_ranks(suite);
}

}  // namespace plumbline::conformance
