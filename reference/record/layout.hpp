// reference/record/layout.hpp: what follows from a run specification: who holds which parameter, who uses
// which rows.
//
// Model   Pure functions of a specification that passes problem_of(). Parameters are named as
//         torch.nn.Sequential names them: "<layer>.weight", "<layer>.bias", "<layer>.up.<expert>".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/record/run_spec.hpp"
#include "reference/topology/topology.hpp"

namespace plumbline::job {

struct Parameter {
  std::string name;  // "0.weight"
  int layer = 0;
  Shape shape;      // as torch.nn has it
  int expert = -1;  // in a layer of experts, the number of its expert; -1: it is of none
};
/// All parameters, in the order of the layers, weight before bias. A tied_linear has none of its own; a moe has its
/// router's weight, and then of each expert "<layer>.up.<expert>" and "<layer>.down.<expert>".
[[nodiscard]] std::vector<Parameter> parameters_of(const RunSpec& spec);

/// Whether a parameter has a gradient; else it is frozen.
[[nodiscard]] bool trains(const RunSpec& spec, const Parameter& parameter);

/// The world as a grid with axes pipeline, data and tensor, in the run's order.
[[nodiscard]] topology::Topology grid_of(const Parallel& parallel);
/// A rank's place in it.
struct Coordinates {
  int pipeline = 0;
  int data = 0;
  int tensor = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};
/// Both throw OutOfRange for what is not in it.
[[nodiscard]] Coordinates coordinates_of(const Parallel& parallel, int rank);
[[nodiscard]] int rank_of(const Parallel& parallel, const Coordinates& at);

/// Whether a schedule lays a rank's second stages in the opposite order: zbv, v-half, v-min, dualpipev.
[[nodiscard]] bool goes_back(std::string_view schedule);
/// The stage of a layer, and the pipeline rank of a stage.
[[nodiscard]] int stage_of_layer(const RunSpec& spec, int layer);
[[nodiscard]] int pipeline_rank_of_stage(const RunSpec& spec, int stage);
/// The pipeline ranks that hold a parameter, ascending: its layer's, and those of the layers tied to it.
[[nodiscard]] std::vector<int> holders_of(const RunSpec& spec, const Parameter& parameter);
/// Whether a data rank holds a parameter: all but experts of other expert ranks.
[[nodiscard]] bool is_on_data_rank(const RunSpec& spec, const Parameter& parameter, int data_rank);
/// The pipeline rank of the last stage, which computes the loss.
[[nodiscard]] int last_pipeline_rank(const RunSpec& spec);

/// Rows first_row .. first_row+rows-1 of one batch.
struct RowRange {
  std::int64_t batch = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};
/// The micro-batches of data rank d in a step, in the order in which a single device would take them.
[[nodiscard]] std::vector<RowRange> micro_batches_of(const RunSpec& spec, int step, int data_rank);

/// The shape of one row after all layers, given that of one row of "x". Throws InvalidArgument naming the
/// layer that does not fit, and what it was given.
[[nodiscard]] Shape output_shape(const RunSpec& spec, const Shape& row);

}  // namespace plumbline::job
