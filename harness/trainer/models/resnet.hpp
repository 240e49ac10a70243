// harness/trainer/models/resnet.hpp: residual networks as six blocks: stem, four layers, classifier.
//
// Model   Layer l (0 to 3) has planes x 2^l planes; all but the first halve height and width, or dilate their
//         convolutions instead. A basic block is two 3x3 convolutions; a bottleneck a 1x1, a 3x3 and a 1x1 one, with
//         four times its planes at the end.
// Names   As torch.nn.Sequential names the same model: "0.0.weight", "3.1.conv2.weight", "1.0.downsample.1.bias",
//         "5.fc.weight".
// Source  He et al., arXiv:1512.03385; ResNeXt, arXiv:1611.05431 (groups, width); torchvision's models.resnet, whose
//         defaults, shapes and first values these are; ColossalAI's pipeline example, which cuts it into these six.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "harness/trainer/models/blocks.hpp"

namespace plumbline::training {

enum class ResidualBlock { basic, bottleneck };

struct ResNet {
  ResidualBlock block = ResidualBlock::bottleneck;
  std::array<int, 4> layers{3, 4, 6, 3};  // blocks of each
  std::int64_t classes = 1000;
  bool zero_init_residual = false;  // the last scale of each block starts at 0, so that a block starts as the identity
  std::int64_t groups = 1;
  std::int64_t width_per_group = 64;
  std::vector<bool> replace_stride_with_dilation{};  // of layers 1 to 3; empty: of none
  NormLayer norm = batch_norm_layer;
  std::int64_t planes = 64;  // of the stem and layer 0
};

/// Throws InvalidArgument for settings that make no network, with what would be right.
[[nodiscard]] Blocks resnet(const ResNet& settings);
/// With the defaults: 161 parameters of 25,557,032 numbers.
[[nodiscard]] Blocks resnet50();

}  // namespace plumbline::training
