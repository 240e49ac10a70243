#include "reference/topology/grid.hpp"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/topology/deepspeed.hpp"

namespace plumbline::topology {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;
using Names = std::vector<std::string>;
using Sizes = std::vector<int>;
using Lists = std::vector<std::vector<int>>;

PipelineGrid grid_of(const Names& names, const Sizes& sizes) {
  const Topology topology = Topology::row_major(names, sizes);
  return {topology.world_size(), topology};
}

// Geometries with axes of size 1, without model, in other orders, and with an extra axis.
const std::vector<PipelineGrid> kGrids{
    grid_of({"pipe", "data"}, {4, 2}),
    grid_of({"pipe", "data"}, {1, 1}),
    grid_of({"pipe", "data"}, {3, 1}),
    grid_of({"data", "pipe"}, {3, 4}),
    grid_of({"pipe", "data", "model"}, {2, 3, 1}),
    grid_of({"pipe", "data", "model"}, {2, 3, 4}),
    grid_of({"model", "pipe", "data"}, {2, 3, 2}),
    grid_of({"pipe", "data", "model", "expert"}, {2, 2, 1, 2}),
    grid_of({"expert", "model", "data", "pipe"}, {2, 3, 2, 4}),
};

template <class Check>
void for_all_ranks(Check check) {
  for (const PipelineGrid& grid : kGrids) {
    SCOPED_TRACE(grid.topology().to_string());
    for (int rank = 0; rank < grid.world_size(); ++rank) check(grid, GridRank(grid, rank));
  }
}

Lists creations(const PipelineGrid& grid) {
  Lists all;
  for (const GroupList& groups : grid.creation_order()) std::ranges::move(groups.lists(), std::back_inserter(all));
  return all;
}

int index_in(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

TEST(PipelineGrid, MakesGroupsInTheSourcesOrder) {
  EXPECT_EQ(creations(grid_of({"pipe", "data"}, {2, 3})), (Lists{{0, 3},
                                                                 {1, 4},
                                                                 {2, 5},  // of each data index
                                                                 {0, 1, 2},
                                                                 {3, 4, 5},  // data
                                                                 {0, 3},
                                                                 {1, 4},
                                                                 {2, 5},  // pipe
                                                                 {0},
                                                                 {1},
                                                                 {2},
                                                                 {3},
                                                                 {4},
                                                                 {5}}));  // slices
  EXPECT_EQ(creations(grid_of({"pipe", "data", "model"}, {2, 1, 2})),
            (Lists{{0, 1, 2, 3}, {0}, {1}, {2}, {3}, {0, 2}, {1, 3}, {0, 1}, {2, 3}}));
}

TEST(PipelineGrid, ModelGroupsAreTheRanksOfADataIndex) {
  for (const PipelineGrid& grid : kGrids) {
    Lists wanted;
    for (int i = 0; i < grid.data_parallel_size(); ++i) wanted.push_back(grid.topology().matching({{"data", i}}));
    EXPECT_EQ(grid.model_groups().lists(), wanted) << grid.topology().to_string();
  }
}

TEST(PipelineGrid, PairsWrapAroundInsideEachPipeline) {
  for (const PipelineGrid& grid : kGrids) {
    SCOPED_TRACE(grid.topology().to_string());
    const auto pairs = grid.p2p_pairs();
    ASSERT_EQ(static_cast<int>(pairs.size()), grid.world_size());
    for (const auto& [rank, next] : pairs) {
      const std::vector<int> pipeline = grid.topology().group_of(rank, "pipe");
      const auto at = static_cast<std::size_t>(index_in(pipeline, rank));
      EXPECT_EQ(next, pipeline[(at + 1) % pipeline.size()]);
      EXPECT_EQ(grid.previous(next), rank);
      EXPECT_EQ(rank, static_cast<int>(&*std::ranges::find(pairs, std::array{rank, next}) - pairs.data()));
    }
  }
}

TEST(GridRank, AnswersInEveryGeometry) {
  for_all_ranks([](const PipelineGrid& grid, const GridRank& me) {
    const int rank = me.get_global_rank();
    const Topology& topology = grid.topology();
    const int stage = topology.position(rank, "pipe");
    EXPECT_EQ(me.get_stage_id(), stage);
    EXPECT_EQ(me.get_pipe_parallel_rank(), stage);
    EXPECT_EQ(me.get_pipeline_model_parallel_rank(), stage);
    EXPECT_EQ(me.is_first_stage(), stage == 0);
    EXPECT_EQ(me.is_last_stage(), stage + 1 == topology.dimension("pipe"));
    EXPECT_EQ(me.get_pipe_parallel_world_size(), topology.dimension("pipe"));
    EXPECT_EQ(me.get_pipeline_model_parallel_world_size(), topology.dimension("pipe"));
    EXPECT_EQ(me.get_data_parallel_id(), topology.position(rank, "data"));
    EXPECT_EQ(me.get_data_parallel_rank(), topology.position(rank, "data"));
    EXPECT_EQ(me.get_data_parallel_world_size(), topology.dimension("data"));
    const int slice = topology.has_axis("model") ? topology.position(rank, "model") : 0;
    const int slices = topology.has_axis("model") ? topology.dimension("model") : 1;
    EXPECT_EQ(me.get_slice_parallel_rank(), slice);
    EXPECT_EQ(me.get_tensor_model_parallel_rank(), slice);
    EXPECT_EQ(me.get_slice_parallel_world_size(), slices);
    EXPECT_EQ(me.get_tensor_model_parallel_world_size(), slices);
  });
}

TEST(GridRank, IsInItsGroupsAtItsRank) {
  for_all_ranks([](const PipelineGrid& grid, const GridRank& me) {
    const Lists all = creations(grid);
    const auto made = [&](std::int64_t handle) { return all.at(static_cast<std::size_t>(handle)); };
    const int rank = me.get_global_rank();
    EXPECT_EQ(made(me.get_data_parallel_group()), me.get_data_parallel_group_ranks());
    EXPECT_EQ(made(me.get_pipe_parallel_group()), me.get_pipe_parallel_group_ranks());
    EXPECT_EQ(made(me.get_pipeline_model_parallel_group()), me.get_pipe_parallel_group_ranks());
    EXPECT_EQ(made(me.get_slice_parallel_group()), me.get_slice_parallel_group_ranks());
    EXPECT_EQ(made(me.get_tensor_model_parallel_group()), me.get_slice_parallel_group_ranks());
    EXPECT_EQ(index_in(made(me.get_model_parallel_group()), rank), me.get_model_parallel_rank());
    EXPECT_EQ(static_cast<int>(made(me.get_model_parallel_group()).size()), me.get_model_parallel_world_size());
    EXPECT_EQ(index_in(me.get_data_parallel_group_ranks(), rank), me.get_data_parallel_rank());
    EXPECT_EQ(index_in(me.get_pipe_parallel_group_ranks(), rank), me.get_pipe_parallel_rank());
    EXPECT_EQ(index_in(me.get_slice_parallel_group_ranks(), rank), me.get_slice_parallel_rank());
    EXPECT_EQ(static_cast<int>(me.get_slice_parallel_group_ranks().size()), me.get_slice_parallel_world_size());
  });
}

TEST(GridRank, KeepsItsOwnPipelineWithAnExtraAxis) {
  const GridRank me(grid_of({"pipe", "data", "model", "expert"}, {2, 2, 1, 2}), 5);
  EXPECT_EQ(me.get_slice_parallel_rank(), 0);
  EXPECT_EQ(me.get_model_parallel_rank(), 3);
  EXPECT_THAT(me.get_data_parallel_group_ranks(), ElementsAre(5, 7));
  EXPECT_THAT(me.get_pipe_parallel_group_ranks(), ElementsAre(1, 5));
  EXPECT_EQ(me.next_stage_rank(), 1);
  EXPECT_EQ(me.previous_stage_rank(), 1);
}

TEST(GridRank, FindsStagesOfItsOwnPipelineAndOfOthers) {
  for_all_ranks([](const PipelineGrid& grid, const GridRank& me) {
    for (int stage = 0; stage < grid.pipe_parallel_size(); ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      EXPECT_EQ(me.stage_to_global(stage), me.get_pipe_parallel_group_ranks().at(at));
      const int last = grid.data_parallel_size() - 1;
      const int other = me.get_data_parallel_group_ranks().at(static_cast<std::size_t>(last));
      EXPECT_EQ(me.stage_to_global(stage, {{"data", last}}),
                GridRank(grid, other).get_pipe_parallel_group_ranks().at(at));
    }
  });
}

TEST(PipelineGrid, TakesTheDefaultGridAndBigWorlds) {
  EXPECT_EQ(PipelineGrid(12).topology(), Topology::row_major(Names{"pipe", "data"}, Sizes{6, 2}));
  EXPECT_THROW(PipelineGrid(0), InvalidArgument);
  const PipelineGrid big(1 << 20);
  EXPECT_EQ(big.p2p_pairs().back(), (std::array{(1 << 20) - 1, (1 << 10) - 1}));
  EXPECT_EQ(GridRank(big, (1 << 20) - 1).get_pipe_parallel_group(), (1 << 10) * 3 - 1);
}

constexpr int kMost = std::numeric_limits<int>::max();

TEST(PipelineGrid, WrapsAroundInTheLongestPipeline) {
  const PipelineGrid longest = grid_of({"pipe", "data"}, {kMost, 1});
  EXPECT_EQ(longest.next(kMost - 1), 0);
  EXPECT_EQ(longest.next(kMost - 2), kMost - 1);
  EXPECT_EQ(longest.previous(0), kMost - 1);
  EXPECT_EQ(longest.previous(kMost - 1), kMost - 2);
  EXPECT_EQ(longest.stage_to_global(kMost - 1, kMost - 2, {{"data", 0}}), kMost - 2);
}

TEST(GridRank, NumbersGroupsOfTheLargestWorlds) {
  const int stages = 1 << 15, rest = (1 << 15) - 1;
  const PipelineGrid grid = grid_of({"pipe", "data"}, {stages, rest});
  const GridRank last(grid, grid.world_size() - 1);
  EXPECT_EQ(last.get_slice_parallel_group(), std::int64_t{stages} * rest + rest + stages + rest - 1);
  const GridRank alone(grid_of({"pipe", "data"}, {1, kMost}), kMost - 1);
  EXPECT_EQ(alone.get_data_parallel_group(), std::int64_t{kMost});
  EXPECT_EQ(alone.get_pipe_parallel_group(), std::int64_t{kMost} + 1 + kMost - 1);
  EXPECT_EQ(alone.get_slice_parallel_group(), std::int64_t{3} * kMost);
}

TEST(PipelineGrid, RefusesWhatIsNoGrid) {
  EXPECT_THAT([] { PipelineGrid(8, Topology::row_major(Names{"pipe", "data", "model"}, Sizes{2, 2, 3})); },
              ThrowsMessage<InvalidArgument>(
                  "grid: Invalid Grid: pipe=2 data=2 model=3 has 12 ranks from 0 on, the world has 8"));
  EXPECT_THROW(PipelineGrid(4, Topology::row_major(Names{"pipe", "data"}, Sizes{2, 2}, 1)), InvalidArgument);
  EXPECT_THROW(PipelineGrid(3, Topology::row_major(Names{"pipe", "data"}, Sizes{2, 2})), InvalidArgument);
  EXPECT_THAT([] { (void)grid_of({"pipe"}, {4}); },
              ThrowsMessage<InvalidArgument>("grid: no axis 'data' in [pipe]; a grid needs pipe and data"));
  EXPECT_THAT([] { (void)grid_of({"data", "model"}, {2, 2}); },
              ThrowsMessage<InvalidArgument>("grid: no axis 'pipe' in [data, model]; a grid needs pipe and data"));
}

TEST(PipelineGrid, RefusesPlacesThatItDoesNotHave) {
  const PipelineGrid grid(4, Topology::row_major(Names{"pipe", "data"}, Sizes{2, 2}));
  EXPECT_THROW(GridRank(grid, 4), OutOfRange);
  EXPECT_THROW((void)grid.next(-1), OutOfRange);
  EXPECT_THROW((void)grid.stage_to_global(4, 0), OutOfRange);
  EXPECT_THAT([&] { (void)grid.stage_to_global(0, 2); },
              ThrowsMessage<OutOfRange>("topology: position 2 on axis 'pipe' of size 2"));
  EXPECT_THROW((void)grid.stage_to_global(0, 0, {{"data", 2}}), OutOfRange);
  EXPECT_THAT([&] { (void)grid.stage_to_global(0, 0, {{"model", 0}}); },
              ThrowsMessage<NotFound>("topology: no axis 'model'; there are [pipe, data]"));
  EXPECT_THAT([&] { (void)grid.stage_to_global(0, 0, {{"pipe", 1}}); },
              ThrowsMessage<InvalidArgument>("grid: stage_to_global of stage 0 may not override pipe, got pipe=1"));
}

}  // namespace
}  // namespace plumbline::topology
