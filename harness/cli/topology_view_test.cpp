// The view's groups against the plans of the conventions, at shapes with pairwise different sizes and sizes of 1.
#include "harness/cli/topology_view.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

constexpr int kShapes[][3] = {{2, 3, 4}, {3, 2, 1}, {1, 3, 2}, {4, 1, 3}, {1, 1, 1}, {2, 5, 3}};

std::vector<std::vector<int>> lists_of(const std::vector<GroupKind>& kinds) {
  std::vector<std::vector<int>> lists;
  for (const GroupKind& kind : kinds)
    for (const std::vector<int>& list : kind.groups.lists()) lists.push_back(list);
  return lists;
}

TEST(TopologyView, creates_what_the_conventions_plan_creates) {
  for (const std::string_view convention : groups::convention_names())
    for (const auto& [pipe, data, model] : kShapes) {
      const TopologyView view = view_of(
          {.axes = {"pipe", "data", "model"}, .dims = {pipe, data, model}, .convention = std::string(convention)});
      std::vector<std::vector<int>> expected;
      for (const groups::Creation& creation :
           groups::convention_plan(convention, {.pipeline = pipe, .data = data, .tensor = model}).creations)
        expected.push_back(creation.ranks);
      EXPECT_EQ(lists_of(view.creations), expected) << convention << ' ' << pipe << 'x' << data << 'x' << model;
    }
}

TEST(TopologyView, own_orders_do_not_depend_on_the_order_given) {
  for (const char* convention : {"megatron", "colossalai"}) {
    const TopologyView one = view_of({.axes = {"pp", "dp", "tp"}, .dims = {2, 3, 4}, .convention = convention});
    const TopologyView other = view_of({.axes = {"tp", "pp", "dp"}, .dims = {4, 2, 3}, .convention = convention});
    EXPECT_EQ(one.topology, other.topology) << convention;
  }
}

TEST(TopologyView, finds_the_group_of_a_rank) {
  const TopologyView view =
      view_of({.axes = {"data", "pipe", "expert", "model"}, .dims = {3, 2, 2, 2}, .convention = "deepspeed"});
  ASSERT_EQ(view.creations.size(), 4U);
  for (const GroupKind& kind : view.creations)
    for (int rank = 0; rank < view.topology.world_size(); ++rank) {
      const std::vector<int> group = kind.groups[index_in(kind, view.topology, rank)];
      EXPECT_EQ(std::ranges::count(group, rank), 1) << kind.title() << " of " << rank;
    }
}

TEST(TopologyView, counts_groups_that_cross_nodes) {
  const TopologyView view =
      view_of({.axes = {"pipe", "data", "model"}, .dims = {2, 4, 2}, .convention = "plumbline", .ranks_per_node = 6});
  EXPECT_EQ(node_count(view), 3);
  for (const GroupKind& kind : view.along) {
    int crossing = 0;
    for (const std::vector<int>& group : kind.groups.lists()) crossing += group.front() / 6 != group.back() / 6;
    EXPECT_EQ(crossing_groups(view, kind), crossing) << kind.title();
  }
}

TEST(TopologyView, refuses_axes_that_a_convention_has_not) {
  EXPECT_THROW((void)view_of({.axes = {"pipe", "expert"}, .dims = {2, 2}, .convention = "megatron"}), InvalidArgument);
  EXPECT_THROW((void)view_of({.axes = {"model", "tensor"}, .dims = {2, 2}, .convention = "colossalai"}),
               InvalidArgument);
  EXPECT_THROW((void)sizes_of({.axes = {"tp", "tensor"}, .dims = {2, 2}}), InvalidArgument);
  EXPECT_FALSE(view_of({.axes = {"pp", "dp"}, .dims = {2, 2}, .convention = "deepspeed"}).grid) << "not its names";
  EXPECT_TRUE(view_of({.axes = {"pp", "dp"}, .dims = {2, 2}, .convention = "torch"}).grid);
}

TEST(TopologyView, a_comparison_has_modes_conventions_lists_and_orders) {
  const std::vector<std::string_view> both{"megatron", "colossalai"};
  EXPECT_EQ(comparison_text(groups::compare_conventions({.pipeline = 2, .data = 2, .tensor = 1}, both)),
            "mode       conventions          groups\n"
            "data       megatron             [0 1] [2 3]\n"
            "           colossalai           [0 2] [1 3]\n"
            "pipeline   megatron             [0 2] [1 3]\n"
            "           colossalai           [0 1] [2 3]\n"
            "tensor     megatron colossalai  [0] [1] [2] [3]\n"
            "model      megatron             [0 2] [1 3]\n"
            "           colossalai           [0 1] [2 3]\n"
            "\n"
            "order of creation\n"
            "megatron   data, model, tensor, pipeline\n"
            "colossalai data, model, pipeline, tensor\n");
  EXPECT_NE(comparison_text(groups::compare_conventions({.data = 20})).find("[11] … (20 groups)"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::cli
