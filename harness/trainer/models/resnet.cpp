#include "harness/trainer/models/resnet.hpp"

#include <string>

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kUsualWidth = 64;

std::int64_t expansion_of(ResidualBlock block) { return block == ResidualBlock::bottleneck ? 4 : 1; }

// One block of a layer.
struct BlockPlan {
  std::int64_t in = 0;  // channels
  std::int64_t planes = 0;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
};

void check(const ResNet& settings) {
  if (settings.replace_stride_with_dilation.size() != 0 && settings.replace_stride_with_dilation.size() != 3)
    throw InvalidArgument(fmt::format("replace_stride_with_dilation has {} elements; it must have 3, or none",
                                      settings.replace_stride_with_dilation.size()));
  for (const auto& [name, value] :
       {std::pair{"classes", settings.classes}, std::pair{"groups", settings.groups},
        std::pair{"width_per_group", settings.width_per_group}, std::pair{"planes", settings.planes}})
    if (value < 1) throw InvalidArgument(fmt::format("{} = {}; it must be at least 1", name, value));
  for (const int blocks : settings.layers)
    if (blocks < 1) throw InvalidArgument(fmt::format("a layer of {} blocks; it must have at least 1", blocks));
  if (settings.block == ResidualBlock::bottleneck) return;
  if (settings.groups != 1 || settings.width_per_group != kUsualWidth)
    throw InvalidArgument(fmt::format("groups = {} and width_per_group = {}; a basic block has 1 and {}",
                                      settings.groups, settings.width_per_group, kUsualWidth));
  for (const bool dilate : settings.replace_stride_with_dilation)
    if (dilate) throw InvalidArgument("replace_stride_with_dilation is true; a basic block is never dilated");
}

// Makes the parts of one network.
class Maker {
 public:
  Maker(const ResNet& settings, StageTensors& tensors) : settings_(settings), tensors_(tensors) {}

  Layer stem(const std::string& name) {
    const Convolution wide{.in = 3, .out = settings_.planes, .kernel = 7, .stride = 2, .padding = 3};
    return sequence({convolution_layer(tensors_, name + ".0", wide), norm(name + ".1", settings_.planes), relu,
                     [](const at::Tensor& x, const Pass&) { return at::max_pool2d(x, 3, 2, 1); }});
  }
  Layer classifier(const std::string& name, std::int64_t channels) {
    const auto pool = [](const at::Tensor& x, const Pass&) {
      return at::flatten(at::adaptive_avg_pool2d(x, {1, 1}), 1);
    };
    return sequence({pool, linear_layer(tensors_, name + ".fc", channels, settings_.classes)});
  }
  // The input is added before the last activation, made to fit where it does not.
  Layer residual(const std::string& name, const BlockPlan& plan) {
    const std::int64_t out = plan.planes * expansion_of(settings_.block);
    const Layer main = settings_.block == ResidualBlock::bottleneck ? bottleneck(name, plan) : basic(name, plan);
    if (plan.stride == 1 && plan.in == out)
      return [main](const at::Tensor& x, const Pass& pass) { return at::relu(main(x, pass).add(x)); };
    const Layer fitted = sequence({convolution_layer(tensors_, name + ".downsample.0",
                                                     {.in = plan.in, .out = out, .kernel = 1, .stride = plan.stride}),
                                   norm(name + ".downsample.1", out)});
    return [=](const at::Tensor& x, const Pass& pass) {
      const at::Tensor value = main(x, pass);
      return at::relu(value.add(fitted(x, pass)));
    };
  }

 private:
  Layer norm(const std::string& name, std::int64_t channels, bool last = false) {
    return settings_.norm(tensors_, name, channels, last && settings_.zero_init_residual ? 0.0f : 1.0f);
  }
  Layer three(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t dilation,
              std::int64_t groups) {
    return convolution_layer(tensors_, name,
                             {.in = in,
                              .out = out,
                              .kernel = 3,
                              .stride = stride,
                              .padding = dilation,
                              .dilation = dilation,
                              .groups = groups});
  }
  Layer basic(const std::string& name, const BlockPlan& plan) {
    std::vector<Layer> layers;
    layers.push_back(three(name + ".conv1", plan.in, plan.planes, plan.stride, 1, 1));
    layers.push_back(norm(name + ".bn1", plan.planes));
    layers.emplace_back(relu);
    layers.push_back(three(name + ".conv2", plan.planes, plan.planes, 1, 1, 1));
    layers.push_back(norm(name + ".bn2", plan.planes, true));
    return sequence(std::move(layers));
  }
  Layer bottleneck(const std::string& name, const BlockPlan& plan) {
    const std::int64_t width = plan.planes * settings_.width_per_group / kUsualWidth * settings_.groups;
    const std::int64_t out = plan.planes * expansion_of(settings_.block);
    std::vector<Layer> layers;
    layers.push_back(convolution_layer(tensors_, name + ".conv1", {.in = plan.in, .out = width}));
    layers.push_back(norm(name + ".bn1", width));
    layers.emplace_back(relu);
    layers.push_back(three(name + ".conv2", width, width, plan.stride, plan.dilation, settings_.groups));
    layers.push_back(norm(name + ".bn2", width));
    layers.emplace_back(relu);
    layers.push_back(convolution_layer(tensors_, name + ".conv3", {.in = width, .out = out}));
    layers.push_back(norm(name + ".bn3", out, true));
    return sequence(std::move(layers));
  }

  const ResNet& settings_;
  StageTensors& tensors_;
};

// The blocks of all four layers. The first block of a layer has the stride, and the dilation of the layer before.
std::array<std::vector<BlockPlan>, 4> plans_of(const ResNet& settings) {
  std::array<std::vector<BlockPlan>, 4> plans;
  std::int64_t in = settings.planes, dilation = 1;
  for (std::size_t layer = 0; layer < plans.size(); ++layer) {
    const std::int64_t planes = settings.planes << layer;
    const bool dilates =
        layer > 0 && !settings.replace_stride_with_dilation.empty() && settings.replace_stride_with_dilation[layer - 1];
    std::int64_t stride = layer == 0 ? 1 : 2;
    const std::int64_t before = dilation;
    if (dilates) dilation *= std::exchange(stride, 1);
    plans[layer].push_back({in, planes, stride, before});
    in = planes * expansion_of(settings.block);
    for (int i = 1; i < settings.layers[layer]; ++i) plans[layer].push_back({in, planes, 1, dilation});
  }
  return plans;
}

}  // namespace

Blocks resnet(const ResNet& settings) {
  check(settings);
  const auto plans = plans_of(settings);
  const std::string kind = settings.block == ResidualBlock::bottleneck ? "bottleneck" : "basic";
  Blocks blocks{{"stem", [=](StageTensors& tensors) { return Maker(settings, tensors).stem("0"); }}};
  for (std::size_t layer = 0; layer < plans.size(); ++layer) {
    const auto make = [settings, plan = plans[layer], name = std::to_string(layer + 1)](StageTensors& tensors) {
      Maker maker(settings, tensors);
      std::vector<Layer> layers;
      for (std::size_t i = 0; i < plan.size(); ++i)
        layers.push_back(maker.residual(fmt::format("{}.{}", name, i), plan[i]));
      return sequence(std::move(layers));
    };
    blocks.push_back({fmt::format("layer{} ({} {})", layer + 1, plans[layer].size(), kind), make});
  }
  const std::int64_t channels = settings.planes * 8 * expansion_of(settings.block);
  blocks.push_back(
      {"classifier", [=](StageTensors& tensors) { return Maker(settings, tensors).classifier("5", channels); }});
  return blocks;
}

Blocks resnet50() { return resnet({}); }

}  // namespace plumbline::training
