#include "harness/trainer/models/perceptron.hpp"

#include <string>

#include <ATen/ops/flatten.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {

Blocks perceptron(const std::vector<std::int64_t>& sizes) {
  const bool positive = std::ranges::all_of(sizes, [](std::int64_t size) { return size >= 1; });
  if (sizes.size() < 2 || !positive)
    throw InvalidArgument(fmt::format("sizes [{}]; they must be two or more, each at least 1", fmt::join(sizes, ", ")));
  Blocks blocks;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const bool first = i == 0, last = i + 2 == sizes.size();
    const auto make = [=, in = sizes[i], out = sizes[i + 1]](StageTensors& tensors) -> Layer {
      const Layer linear = linear_layer(tensors, std::to_string(i), in, out);
      return [=](const at::Tensor& x, const Pass& pass) {
        const at::Tensor value = linear(first ? at::flatten(x, 1) : x, pass);
        return last ? value : at::relu(value);
      };
    };
    blocks.push_back({fmt::format("linear {} to {}", sizes[i], sizes[i + 1]), make});
  }
  return blocks;
}

}  // namespace plumbline::training
