#include "harness/trainer/data/image_operations.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training::data {
namespace {

// What a pixel of the result is made of: source pixels from `first` on, with weights in 22-bit fixed point.
struct Weights {
  static constexpr int kBits = 22;
  int first = 0;
  std::vector<int> values;
};

std::vector<Weights> bilinear(int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double support = std::max(scale, 1.0);  // half the width of the triangle
  std::vector<Weights> list;
  for (int pixel = 0; pixel < to; ++pixel) {
    const double centre = (pixel + 0.5) * scale;
    const int first = std::max(static_cast<int>(centre - support + 0.5), 0);
    const int end = std::min(static_cast<int>(centre + support + 0.5), from);
    std::vector<double> weights;
    double sum = 0;
    for (int source = first; source < end; ++source) {
      weights.push_back(std::max(0.0, 1 - std::fabs((source - centre + 0.5) / support)));
      sum += weights.back();
    }
    Weights one{.first = first, .values = {}};
    for (const double weight : weights)
      one.values.push_back(static_cast<int>(0.5 + weight / sum * (1 << Weights::kBits)));
    list.push_back(std::move(one));
  }
  return list;
}

template <class Source>
std::uint8_t weighted(const Weights& weights, const Source& source) {
  int sum = 1 << (Weights::kBits - 1);
  for (std::size_t i = 0; i < weights.values.size(); ++i)
    sum += source(weights.first + static_cast<int>(i)) * weights.values[i];
  return static_cast<std::uint8_t>(std::clamp(sum >> Weights::kBits, 0, 255));
}

Image resized_across(const Image& image, int width) {
  if (width == image.width) return image;
  const std::vector<Weights> weights = bilinear(image.width, width);
  Image out(width, image.height);
  for (int channel = 0; channel < Image::kChannels; ++channel)
    for (int y = 0; y < out.height; ++y)
      for (int x = 0; x < out.width; ++x)
        out.at(channel, y, x) = weighted(weights[static_cast<std::size_t>(x)],
                                         [&](int column) { return int{image.at(channel, y, column)}; });
  return out;
}

Image resized_down(const Image& image, int height) {
  if (height == image.height) return image;
  const std::vector<Weights> weights = bilinear(image.height, height);
  Image out(image.width, height);
  for (int channel = 0; channel < Image::kChannels; ++channel)
    for (int y = 0; y < out.height; ++y)
      for (int x = 0; x < out.width; ++x)
        out.at(channel, y, x) =
            weighted(weights[static_cast<std::size_t>(y)], [&](int row) { return int{image.at(channel, row, x)}; });
  return out;
}

}  // namespace

Image padded_crop(const Image& image, int padding, int top, int left, int width, int height) {
  const std::int64_t border = 2 * std::int64_t{padding};
  if (padding < 0 || top < 0 || left < 0 || width < 0 || height < 0 ||
      std::int64_t{top} + height > image.height + border || std::int64_t{left} + width > image.width + border)
    throw InvalidArgument(
        fmt::format("crop of {} x {} at row {}, column {}; it must lie inside the image of {} x {} with a border of {}",
                    width, height, top, left, image.width, image.height, padding));
  Image out(width, height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const int row = top + y - padding, column = left + x - padding;
      if (row < 0 || row >= image.height || column < 0 || column >= image.width) continue;
      for (int channel = 0; channel < Image::kChannels; ++channel)
        out.at(channel, y, x) = image.at(channel, row, column);
    }
  return out;
}

Image resize(const Image& image, int size) {
  if (size < 1 || image.width < 1 || image.height < 1)
    throw InvalidArgument(
        fmt::format("size {} for an image of {} x {}; all must be at least 1", size, image.width, image.height));
  const bool upright = image.width <= image.height;
  const int shorter = upright ? image.width : image.height;
  const auto longer =
      static_cast<int>(static_cast<std::int64_t>(size) * (upright ? image.height : image.width) / shorter);
  return resized_down(resized_across(image, upright ? size : longer), upright ? longer : size);
}

}  // namespace plumbline::training::data
