// harness/cli/schedule_partition.hpp: `plumbline schedule --layers`: which layers a stage gets, and what the choice
// costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/layer_file.hpp"
#include "harness/cli/schedule_view.hpp"
#include "reference/schedules/partition.hpp"

namespace plumbline::cli {

struct PartitionChoice {
  LayerFile layers;
  std::vector<schedules::PartitionFigures> candidates;
  std::size_t chosen = 0;
  std::optional<std::int64_t> memory;  // bytes a rank
};

/// The candidates for the requested schedule, of which `method` is chosen: uniform, parameters, optimal or
/// type:EXPRESSION, a candidate of its own. Throws InvalidArgument that names --partition, or the file and what does
/// not fit.
[[nodiscard]] PartitionChoice choose_partition(const ScheduleRequest& request, LayerFile layers,
                                               const std::string& method, std::optional<std::int64_t> memory);
/// The request with the times, messages and activations of the chosen partition's stages.
[[nodiscard]] ScheduleRequest with_partition(ScheduleRequest request, const PartitionChoice& choice);

/// The candidates side by side, and the chosen one's stages.
[[nodiscard]] std::string partition_text(const PartitionChoice& choice);

}  // namespace plumbline::cli
