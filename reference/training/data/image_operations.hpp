// reference/training/data/image_operations.hpp: the operations of AutoAugment, and what a loader does beside. Free of
// LibTorch.
//
// Model   Pure functions of an image; the result has its size unless the name says otherwise. Geometric operations take the
//         nearest pixel, and black where there is none.
// Exact   Each gives the bytes that torchvision makes of a PIL image (vectors/make_augmentation.py), for sides up to 4096.
//         That follows Pillow's arithmetic: 16-bit fixed point for positions, single precision for blends, a truncation
//         and no rounding at the end.
// Source  Cubuk et al., AutoAugment, arXiv:1805.09501, table 6, for what the operations are; torchvision
//         transforms.functional and Pillow's ImageOps, ImageEnhance and Image.transform for how each is computed.
#pragma once

#include "reference/training/data/image.hpp"

namespace plumbline::training::data {

/// Each row is moved by `slope` times its number; likewise each column.
[[nodiscard]] Image shear_x(const Image& image, double slope);
[[nodiscard]] Image shear_y(const Image& image, double slope);
/// Moves to the right, or down, by whole pixels.
[[nodiscard]] Image translate_x(const Image& image, int pixels);
[[nodiscard]] Image translate_y(const Image& image, int pixels);
/// Counter-clockwise about the centre.
[[nodiscard]] Image rotate(const Image& image, double degrees);

// A factor of 1 gives the image itself, 0 what is named; beyond 1 it goes away from that.
/// From the grey image.
[[nodiscard]] Image color(const Image& image, double factor);
/// From the mean grey.
[[nodiscard]] Image contrast(const Image& image, double factor);
/// From a smoothed image.
[[nodiscard]] Image sharpness(const Image& image, double factor);
/// From black.
[[nodiscard]] Image brightness(const Image& image, double factor);

/// Keeps the upper `bits` bits, 0 to 8.
[[nodiscard]] Image posterize(const Image& image, int bits);
/// Inverts what is not below the threshold.
[[nodiscard]] Image solarize(const Image& image, double threshold);
/// Stretches each channel to 0 to 255.
[[nodiscard]] Image auto_contrast(const Image& image);
/// Makes each channel's histogram as flat as can be.
[[nodiscard]] Image equalize(const Image& image);
[[nodiscard]] Image invert(const Image& image);

/// The part of `width` x `height` whose first row and column are `top` and `left` of the image with a black border of
/// `padding` pixels around it. Throws InvalidArgument where that does not lie inside.
[[nodiscard]] Image padded_crop(const Image& image, int padding, int top, int left, int width, int height);
/// Scales so that the shorter side has `size` pixels, with bilinear filtering over all pixels that one pixel of the result
/// covers. The image itself where that is its size. Throws InvalidArgument for a size below 1 or an empty image.
[[nodiscard]] Image resize(const Image& image, int size);

}  // namespace plumbline::training::data
