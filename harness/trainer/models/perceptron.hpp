// harness/trainer/models/perceptron.hpp: a multi-layer perceptron, a block a linear layer.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/trainer/models/blocks.hpp"

namespace plumbline::training {

/// Linear layers from sizes[0] features to sizes[1], and so on, with relu between them; all dimensions of a row are
/// taken as one. Names "0.weight", "0.bias", "1.weight", …, by block. Throws InvalidArgument for fewer than two sizes,
/// or one below 1.
[[nodiscard]] Blocks perceptron(const std::vector<std::int64_t>& sizes);

}  // namespace plumbline::training
