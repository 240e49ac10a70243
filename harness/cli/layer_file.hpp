// harness/cli/layer_file.hpp: the layers of a model, and what each was measured to cost, from a file.
//
// Model   CSV: the first line names the columns, in any order; every other line is a layer, from the input on. Blanks
//         around a field and empty lines mean nothing; there are no quotes, so that no name has a comma.
//             name              any text
//             type              "Linear"; empty for a function without a name
//             parameters        trainable numbers
//             forward, backward seconds on one micro-batch
//             activation_bytes  kept of one micro-batch from its forward to its backward
//         and, where they are known,
//             weight_gradient   seconds of the backward that may wait: W; half of it unless told
//             parameter_bytes   kept throughout; bytes per parameter by default
//             output_bytes      sent to the next stage
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/schedules/partition.hpp"

namespace plumbline::cli {

struct LayerFile {
  std::string file;
  std::vector<std::string> names;
  std::vector<schedules::LayerDescription> descriptions;
  std::vector<schedules::LayerCost> costs;
  bool has_output_bytes = false;
};

/// Throws InvalidArgument "FILE:LINE:COLUMN: what is wrong", where a column is one of characters, from 1.
[[nodiscard]] LayerFile parse_layers(const std::string& file, std::string_view text, double bytes_per_parameter);

}  // namespace plumbline::cli
