#include "harness/trainer/oracles/cut_layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/trainer/models/transformer.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/detail/gradients.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kRows = 3, kLength = 4;
constexpr double kWeights = 0.3;

// The layer, and whether only a part of its input or of its output is here.
struct Made {
  Layer layer;
  std::int64_t in = 0, out = 0;
};

Made layer_of(const CutLayer& settings, Products& products, const TensorGroup* group) {
  const std::int64_t width = settings.width, hidden = settings.hidden;
  const auto whole = [group](const at::Tensor& part, std::int64_t features) {
    return group == nullptr ? part : gathered_from(*group, part, features);
  };
  if (settings.kind == "column") {
    const Layer column = products.column("layer", width, hidden, kWeights);
    return {[=](const at::Tensor& x, const Pass& pass) { return whole(column(x, pass), hidden); }, width, hidden};
  }
  if (settings.kind == "row") {
    const Layer row = products.row("layer", hidden, width, kWeights);
    return {[=](const at::Tensor& x, const Pass& pass) {
              return row(group == nullptr ? x : scattered_to(*group, x), pass);
            },
            hidden, width};
  }
  if (settings.kind == "perceptron")
    return {perceptron_of(products, "layer", width, hidden, kWeights, kWeights), width, width};
  if (settings.kind == "block")
    return {transformer_block(products, "layer",
                              {.tokens = 1, .length = kLength, .width = width, .heads = settings.heads, .layers = 1}),
            width, width};
  throw NotFound(fmt::format("no layer '{}' is cut; there are {}", settings.kind, fmt::join(kCutLayers, ", ")));
}

// Parts are added up where they belong, zeros elsewhere; what is whole is not exchanged.
std::vector<double> joined(const TensorGroup* group, const ParameterParts& parts, const std::string& name,
                           const at::Tensor& gradient) {
  const auto found = parts.find(name);
  if (found == parts.end()) return to_doubles(gradient);
  const ParameterPart& place = found->second;
  std::vector<float> whole(static_cast<std::size_t>(place.outer * place.count * place.inner));
  put_part(to_floats(gradient), place, whole);
  const comm::Buffer buffer{whole.data(), static_cast<std::int64_t>(whole.size()), comm::DType::f32};
  group->group->all_reduce(buffer, buffer, comm::ReduceOp::sum);
  return {whole.begin(), whole.end()};
}

}  // namespace

LayerOutcome outcome_of(const CutLayer& settings, const TensorGroup* group, Arithmetic arithmetic) {
  TensorStore store(settings.seed, c10::DeviceType::CPU, arithmetic == Arithmetic::float64 ? at::kDouble : at::kFloat);
  StageTensors tensors(store);
  Products products(tensors, group, uniform(0.5));
  const Made made = layer_of(settings, products, group);
  const at::Tensor x = store.parameter("input", {kRows, kLength, made.in}, normal(1));
  const at::Tensor weights = store.parameter("weights", {kRows, kLength, made.out}, normal(1)).detach();
  const at::Tensor output = made.layer(x, {});
  output.mul(weights).sum().backward();
  LayerOutcome outcome{.output = to_doubles(output), .input_gradient = to_doubles(x.grad()), .gradients = {}};
  for (const NamedTensor& one : tensors.parameters())
    outcome.gradients[one.name] = joined(group, products.parts(), one.name, one.tensor.grad());
  return outcome;
}

}  // namespace plumbline::training
