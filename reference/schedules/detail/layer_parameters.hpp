// reference/schedules/detail/layer_parameters.hpp: how many trainable numbers a layer has, from its configuration
// alone.
//
// Model   Balancing stages by parameters needs counts before any layer is built. A layer is described as torch.nn's
//         constructor takes it: a type and its named arguments; arguments that are left out have torch's defaults.
// Source  ColossalAI builder/pipeline.py (count_layer_params), which builds each layer to count; torch.nn for the
//         shapes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace plumbline::schedules {

struct Layer {
  using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;
  std::string type;                        // "Conv2d"
  std::map<std::string, Value> arguments;  // "kernel_size": 7
};

/// The layer's trainable parameters. Throws NotFound for a type that is not known here, InvalidArgument for an argument
/// that is missing, unknown, below 1 where it is a size, of another type, or that torch's constructor refuses beside
/// the others (groups that do not divide the channels), and OutOfRange where no 64-bit number holds the count.
[[nodiscard]] std::int64_t trainable_parameters(const Layer& layer);
/// Of each layer; errors name its position.
[[nodiscard]] std::vector<std::int64_t> trainable_parameters(std::span<const Layer> layers);

}  // namespace plumbline::schedules
