// Views of a grid over a span: other axes of the same ranks, some of them shared.
#include <algorithm>

#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/topology/shapes.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr const char* kOperation = "topology.hyper_comm_grid";
// Of a shape, the last axis is one that grid and view share, and of three axes or more the one before it, too.
const ShapeLimits kShapes{.axes = 4, .ranks = 40, .offset = 20, .names = {"tp", "cp", "dp", "ep", "pp"}};

// The same ranks with the unshared axes as one, in front of the shared ones: as many groups along each shared axis, and
// the same ones.
Shape view_of(const Shape& base) {
  Shape view{.axes = {"rest"}, .dims = {ranks_in(base)}, .offset = base.offset};
  for (std::size_t axis = base.axes.size() - (base.axes.size() > 2 ? 2 : 1); axis < base.axes.size(); ++axis) {
    view.axes.push_back(base.axes[axis]);
    view.dims.push_back(base.dims[axis]);
    view.dims.front() /= base.dims[axis];
  }
  return view;
}

json fields_of(const Shape& shape) { return {{"dim_names", shape.axes}, {"shape", shape.dims}}; }

json question_of(const Shape& base, const Shape& view, const std::vector<std::string>& shared) {
  json args = fields_of(base);
  args["rank_offset"] = base.offset;
  args["views"]["other"] = fields_of(view);
  args["views"]["other"]["shared"] = shared;
  return args;
}

void judge_views(Context& context, const std::function<json(const Shape& view)>& expected) {
  judge_shapes(
      context,
      [&](const Shape& shape) {
        const Shape view = view_of(shape);
        return problem_of(context.adapter(), kOperation,
                          question_of(shape, view, {view.axes.begin() + 1, view.axes.end()}), [&](const json& result) {
                            return first_difference(expected(view), result.at("views").at("other"), "views.other");
                          });
      },
      kShapes, 300);
}

void groups(Context& context) {
  judge_views(context, [](const Shape& view) -> json {
    json groups = json::object();
    for (const std::string& axis : view.axes) groups[axis] = lists_of(view, {axis});
    return {{"groups", groups}};
  });
}

void owners(Context& context) {
  judge_views(context, [](const Shape& view) -> json {
    json owners{{"rest", "other"}};
    for (std::size_t axis = 1; axis < view.axes.size(); ++axis) {
      owners[view.axes[axis]] = "base";
      owners["rest-" + view.axes[axis]] = "other";
    }
    if (view.axes.size() > 2) owners[view.axes[1] + "-" + view.axes[2]] = "base";
    return {{"owners", owners}};
  });
}

// A grid of tp 2, dp 4 and pp 3, and views that are none.
struct BadView {
  std::string fault;
  Shape view;
  std::vector<std::string> shared;
};
const std::vector<BadView>& bad_views() {
  static const std::vector<BadView> list{
      {"fewer_ranks", {.axes = {"a", "pp"}, .dims = {7, 3}}, {}},
      {"more_ranks", {.axes = {"a", "pp"}, .dims = {9, 3}}, {}},
      {"other_groups", {.axes = {"pp", "a"}, .dims = {3, 8}}, {"pp"}},
      {"other_size", {.axes = {"a", "pp"}, .dims = {4, 6}}, {"pp"}},
      {"not_in_the_view", {.axes = {"a", "b"}, .dims = {8, 3}}, {"pp"}},
      {"not_in_the_grid", {.axes = {"a", "pp"}, .dims = {8, 3}}, {"a"}},
      {"groups_further_apart", {.axes = {"a", "tp"}, .dims = {12, 2}}, {"tp"}},
      {"other_size_of_the_first", {.axes = {"tp", "a"}, .dims = {4, 6}}, {"tp"}},
      {"smaller_size_of_the_first", {.axes = {"tp", "a"}, .dims = {1, 24}}, {"tp"}},
      {"second_of_two", {.axes = {"tp", "pp", "a"}, .dims = {2, 3, 4}}, {"tp", "pp"}},
      {"two_exchanged", {.axes = {"tp", "pp", "dp"}, .dims = {2, 3, 4}}, {"tp", "dp", "pp"}},
      {"shared_twice", {.axes = {"a", "pp"}, .dims = {8, 3}}, {"pp", "pp"}},
  };
  return list;
}

void refused(Context& context) {
  const BadView& bad = *std::ranges::find(bad_views(), context.parameters().text("fault"), &BadView::fault);
  const Shape base{.axes = {"tp", "dp", "pp"}, .dims = {2, 4, 3}};
  report_words(problem_of_control(context.adapter(), kOperation, {}));
  const Answer answer = answer_to(context.adapter(), kOperation, question_of(base, bad.view, bad.shared));
  if (!answer.is_refused()) return report_words(text_of(bad.view) + " is taken as a view of " + text_of(base));
  if (answer.kind != "invalid_argument" && answer.kind != "not_found")
    report_words(text_of(bad.view) + " is refused as '" + answer.kind +
                 "', which says nothing of it: " + answer.message);
}

void view_named_base(Context& context) {
  const Shape base{.axes = {"tp", "dp"}, .dims = {2, 4}}, view{.axes = {"dp", "tp"}, .dims = {4, 2}};
  json args = question_of(base, view, {});
  args["views"] = {{"base", args["views"]["other"]}};
  report_words(problem_of_refusal(context.adapter(), kOperation, args));
}

suite::Check view_check(std::string id, std::string verifies, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {shapes({"5", "3x2", "2x3x1", "2x3x2x2", "random"})},
          .operations = {kOperation},
          .body = std::move(body)};
}

}  // namespace

void add_view_checks(suite::Suite& suite) {
  suite.add(view_check("topology.views.groups", "TOPO-051@10f1", groups));
  suite.add(view_check("topology.views.owners", "TOPO-052@1e4f", owners));
  suite::Check bad = view_check("topology.refusals.views", "TOPO-053@6dca", refused);
  suite::Axis faults{"fault", {}};
  for (const BadView& view : bad_views()) faults.values.push_back(view.fault);
  bad.axes = {std::move(faults)};
  suite.add(std::move(bad));
  suite::Check named = view_check("topology.refusals.view_named_base", "TOPO-066@2386", view_named_base);
  named.axes = {};
  suite.add(std::move(named));
}

}  // namespace plumbline::conformance
