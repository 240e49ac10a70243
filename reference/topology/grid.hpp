// reference/topology/grid.hpp: the grid of a pipeline: the groups that all ranks make, and one rank's place in them.
//
// Model   A PipelineGrid is a topology with axes pipe and data, and perhaps model and others, and the groups that are
//         made of it, in one order on all ranks: of each data index all its ranks ("model" groups, which find an
//         overflow anywhere in a replica), the data groups, the pipe groups, the slice groups (along axis model; each
//         rank alone where there is no such axis, or one of size 1). Built once for all ranks; GridRank is what one
//         rank sees.
// Words   stage: position on pipe. slice, and tensor-model in current frameworks: position on model. pipeline-model:
//         pipe.
// Cost    A grid is as large as its axes' names. Groups are streamed; pairs and one rank's answers are computed.
// Source  DeepSpeed runtime/pipe/topology.py (PipelineParallelGrid), 0.6.3 and 0.19.8.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reference/topology/topology.hpp"

namespace plumbline::topology {

class PipelineGrid {
 public:
  /// Axes pipe and data, from the prime factors of the world size: default_grid(). Throws InvalidArgument below 1.
  explicit PipelineGrid(int world_size);
  /// Throws InvalidArgument without an axis pipe or data, or when its ranks are not those from 0 to the world size
  /// ("Invalid Grid" in the source).
  PipelineGrid(int world_size, Topology topology);

  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] int world_size() const { return topology_.world_size(); }
  [[nodiscard]] int pipe_parallel_size() const { return topology_.dimension("pipe"); }
  [[nodiscard]] int data_parallel_size() const { return topology_.dimension("data"); }
  /// The size of axis model; 1 without such an axis.
  [[nodiscard]] int slice_parallel_size() const { return has_slices() ? topology_.dimension("model") : 1; }

  /// One for each data index, its ranks ascending: a whole model.
  [[nodiscard]] GroupList model_groups() const;
  [[nodiscard]] GroupList data_groups() const { return topology_.groups("data"); }
  [[nodiscard]] GroupList pipe_groups() const { return topology_.groups("pipe"); }
  [[nodiscard]] GroupList slice_groups() const;
  /// Model, data, pipe and slice groups: all groups in the order in which every rank makes them.
  [[nodiscard]] std::array<GroupList, 4> creation_order() const;

  /// The rank of the next stage in the same pipeline; the first after the last. Throws OutOfRange.
  [[nodiscard]] int next(int rank) const { return stages_on(rank, 1); }
  /// The rank of the stage before; the last before the first. Throws OutOfRange.
  [[nodiscard]] int previous(int rank) const { return stages_on(rank, pipe_parallel_size() - 1); }
  /// Each rank and its next one, in the order of ranks. No groups are made for them.
  [[nodiscard]] std::vector<std::array<int, 2>> p2p_pairs() const;

  /// The rank of `stage` that shares the other positions with `rank`, or has those of `overrides` instead. Throws
  /// OutOfRange, NotFound, and InvalidArgument for an override of pipe.
  [[nodiscard]] int stage_to_global(int rank, int stage, const NamedCoordinate& overrides = {}) const;

  bool operator==(const PipelineGrid&) const = default;

 private:
  friend class GridRank;
  // The rank `stages` stages further on in the same pipeline, the first stage after the last.
  [[nodiscard]] int stages_on(int rank, int stages) const;
  [[nodiscard]] bool has_slices() const { return topology_.has_axis("model"); }

  Topology topology_;
};

/// A rank's place in a grid: what training frameworks ask of a "model parallel unit", under the names that they use.
/// Every getter answers in every geometry. A plain value. A group's handle is its number in
/// PipelineGrid::creation_order(), of which there may be more than an int counts.
class GridRank {
 public:
  /// Throws OutOfRange.
  GridRank(PipelineGrid grid, int rank);

  [[nodiscard]] int get_global_rank() const { return rank_; }
  [[nodiscard]] int get_stage_id() const { return position("pipe"); }
  [[nodiscard]] int get_data_parallel_id() const { return position("data"); }
  [[nodiscard]] bool is_first_stage() const { return get_stage_id() == 0; }
  [[nodiscard]] bool is_last_stage() const { return get_stage_id() == grid_.pipe_parallel_size() - 1; }
  [[nodiscard]] int next_stage_rank() const { return grid_.next(rank_); }
  [[nodiscard]] int previous_stage_rank() const { return grid_.previous(rank_); }
  [[nodiscard]] int stage_to_global(int stage, const NamedCoordinate& overrides = {}) const {
    return grid_.stage_to_global(rank_, stage, overrides);
  }

  [[nodiscard]] int get_pipe_parallel_rank() const { return get_stage_id(); }
  [[nodiscard]] int get_pipe_parallel_world_size() const { return grid_.pipe_parallel_size(); }
  [[nodiscard]] std::int64_t get_pipe_parallel_group() const;
  [[nodiscard]] std::vector<int> get_pipe_parallel_group_ranks() const { return topology().group_of(rank_, "pipe"); }
  [[nodiscard]] int get_pipeline_model_parallel_rank() const { return get_pipe_parallel_rank(); }
  [[nodiscard]] int get_pipeline_model_parallel_world_size() const { return get_pipe_parallel_world_size(); }
  [[nodiscard]] std::int64_t get_pipeline_model_parallel_group() const { return get_pipe_parallel_group(); }

  [[nodiscard]] int get_data_parallel_rank() const { return get_data_parallel_id(); }
  [[nodiscard]] int get_data_parallel_world_size() const { return grid_.data_parallel_size(); }
  [[nodiscard]] std::int64_t get_data_parallel_group() const;
  [[nodiscard]] std::vector<int> get_data_parallel_group_ranks() const { return topology().group_of(rank_, "data"); }

  /// In the group of all ranks of its data index, not among the slices.
  [[nodiscard]] int get_model_parallel_rank() const;
  [[nodiscard]] int get_model_parallel_world_size() const { return grid_.world_size() / grid_.data_parallel_size(); }
  [[nodiscard]] std::int64_t get_model_parallel_group() const { return get_data_parallel_id(); }

  [[nodiscard]] int get_slice_parallel_rank() const { return grid_.has_slices() ? position("model") : 0; }
  [[nodiscard]] int get_slice_parallel_world_size() const { return grid_.slice_parallel_size(); }
  [[nodiscard]] std::int64_t get_slice_parallel_group() const;
  [[nodiscard]] std::vector<int> get_slice_parallel_group_ranks() const;
  [[nodiscard]] int get_tensor_model_parallel_rank() const { return get_slice_parallel_rank(); }
  [[nodiscard]] int get_tensor_model_parallel_world_size() const { return get_slice_parallel_world_size(); }
  [[nodiscard]] std::int64_t get_tensor_model_parallel_group() const { return get_slice_parallel_group(); }

 private:
  [[nodiscard]] const Topology& topology() const { return grid_.topology(); }
  [[nodiscard]] int position(std::string_view axis) const { return topology().position(rank_, axis); }

  PipelineGrid grid_;
  int rank_;
};

}  // namespace plumbline::topology
