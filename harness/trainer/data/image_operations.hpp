// harness/trainer/data/image_operations.hpp: what a loader does to images before training. Free of LibTorch.
//
// Exact   The bytes that torchvision makes of a PIL image (vectors/make_augmentation.py), for sides up to 4096:
//         Pillow's fixed-point arithmetic.
// Source  torchvision.transforms.functional.
#pragma once

#include "harness/trainer/data/image.hpp"

namespace plumbline::training::data {

/// The part of `width` x `height` whose first row and column are `top` and `left` of the image with a black border of
/// `padding` pixels around it. Throws InvalidArgument where that does not lie inside.
[[nodiscard]] Image padded_crop(const Image& image, int padding, int top, int left, int width, int height);
/// Scales so that the shorter side has `size` pixels, with bilinear filtering over all pixels that one pixel of the
/// result covers. The image itself where that is its size. Throws InvalidArgument for a size below 1 or an empty image.
[[nodiscard]] Image resize(const Image& image, int size);

}  // namespace plumbline::training::data
