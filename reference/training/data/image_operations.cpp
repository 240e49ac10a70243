#include "reference/training/data/image_operations.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training::data {
namespace {

// Where a pixel comes from: x' = a x + b y + c, y' = d x + e y + f, at the pixels' centres.
struct Affine {
  double a = 1, b = 0, c = 0;
  double d = 0, e = 1, f = 0;
};

// 16 bits behind the point.
int fixed(double value) { return static_cast<int>(std::floor(value * 65536 + 0.5)); }

Image transformed(const Image& image, const Affine& from) {
  Image out(image.width, image.height);
  const int a = fixed(from.a), b = fixed(from.b), d = fixed(from.d), e = fixed(from.e);
  const int c = fixed(from.c + from.a * 0.5 + from.b * 0.5), f = fixed(from.f + from.d * 0.5 + from.e * 0.5);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) {
      const int column = (c + a * x + b * y) >> 16;
      const int row = (f + d * x + e * y) >> 16;
      if (column < 0 || column >= image.width || row < 0 || row >= image.height) continue;
      for (int channel = 0; channel < Image::kChannels; ++channel)
        out.at(channel, y, x) = image.at(channel, row, column);
    }
  return out;
}

// From `other` to `image`, and beyond. Single precision, and cut off at the end, as Pillow does.
Image blended(const Image& other, const Image& image, double factor) {
  const auto alpha = static_cast<float>(factor);
  if (alpha == 0.0f) return other;
  if (alpha == 1.0f) return image;
  Image out(image.width, image.height);
  for (std::size_t i = 0; i < out.pixels.size(); ++i) {
    const int from = other.pixels[i], to = image.pixels[i];
    const float value = static_cast<float>(from) + alpha * static_cast<float>(to - from);
    out.pixels[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
  }
  return out;
}

// ITU-R 601-2's luma in 16-bit fixed point, a number a pixel.
std::vector<std::uint8_t> grey(const Image& image) {
  std::vector<std::uint8_t> values(image.plane());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned red = image.pixels[i], green = image.pixels[image.plane() + i],
                   blue = image.pixels[2 * image.plane() + i];
    values[i] = static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
  }
  return values;
}

// A weighted mean of each pixel and its eight neighbours, the pixel five times; the border stays.
Image smoothed(const Image& image) {
  constexpr float kOther = 1.0f / 13, kOwn = 5.0f / 13;
  Image out = image;
  for (int channel = 0; channel < Image::kChannels; ++channel)
    for (int y = 1; y < image.height - 1; ++y)
      for (int x = 1; x < image.width - 1; ++x) {
        const auto row = [&](int number, float middle) {
          return static_cast<float>(image.at(channel, number, x - 1)) * kOther +
                 static_cast<float>(image.at(channel, number, x)) * middle +
                 static_cast<float>(image.at(channel, number, x + 1)) * kOther;
        };
        float sum = 0.5f;
        sum += row(y + 1, kOther);
        sum += row(y, kOwn);
        sum += row(y - 1, kOther);
        out.at(channel, y, x) = static_cast<std::uint8_t>(std::clamp(sum, 0.0f, 255.0f));
      }
  return out;
}

using Table = std::array<std::uint8_t, 256>;

Table identity() {
  Table table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i);
  return table;
}

// Replaces each value of a channel by that of its table, which may depend on the channel.
template <class TableOf>
Image mapped(const Image& image, const TableOf& table_of) {
  Image out = image;
  for (int channel = 0; channel < Image::kChannels; ++channel) {
    const auto begin = out.pixels.begin() + static_cast<std::ptrdiff_t>(image.place(channel, 0, 0));
    const auto end = begin + static_cast<std::ptrdiff_t>(image.plane());
    std::array<int, 256> histogram{};
    for (auto pixel = begin; pixel != end; ++pixel) ++histogram[*pixel];
    const Table table = table_of(histogram);
    std::transform(begin, end, begin, [&](std::uint8_t value) { return table[value]; });
  }
  return out;
}

Table stretched(const std::array<int, 256>& histogram) {
  const auto used = [](int count) { return count != 0; };
  const auto low = std::ranges::find_if(histogram, used) - histogram.begin();
  const auto high = 255 - (std::find_if(histogram.rbegin(), histogram.rend(), used) - histogram.rbegin());
  Table table = identity();
  if (high <= low) return table;
  const double scale = 255.0 / static_cast<double>(high - low);
  const double offset = -static_cast<double>(low) * scale;
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<std::uint8_t>(std::clamp(static_cast<int>(static_cast<double>(i) * scale + offset), 0, 255));
  return table;
}

Table equalized(const std::array<int, 256>& histogram) {
  int pixels = 0, last = 0, different = 0;
  for (const int count : histogram) {
    if (count == 0) continue;
    pixels += count;
    last = count;
    ++different;
  }
  Table table = identity();
  const int step = (pixels - last) / 255;
  if (different <= 1 || step == 0) return table;
  int sum = step / 2;
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::uint8_t>(std::min(sum / step, 255));
    sum += histogram[i];
  }
  return table;
}

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

Image shear_x(const Image& image, double slope) { return transformed(image, {.b = slope}); }
Image shear_y(const Image& image, double slope) { return transformed(image, {.d = slope}); }
Image translate_x(const Image& image, int pixels) { return transformed(image, {.c = -static_cast<double>(pixels)}); }
Image translate_y(const Image& image, int pixels) { return transformed(image, {.f = -static_cast<double>(pixels)}); }

Image rotate(const Image& image, double degrees) {
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  const double x = image.width / 2.0, y = image.height / 2.0;  // the centre
  return transformed(image, {.a = cosine,
                             .b = sine,
                             .c = -cosine * x - sine * y + x,
                             .d = -sine,
                             .e = cosine,
                             .f = sine * x - cosine * y + y});
}

Image color(const Image& image, double factor) {
  Image other = image;
  const std::vector<std::uint8_t> luma = grey(image);
  for (int channel = 0; channel < Image::kChannels; ++channel)
    std::ranges::copy(luma, other.pixels.begin() + static_cast<std::ptrdiff_t>(image.place(channel, 0, 0)));
  return blended(other, image, factor);
}

Image contrast(const Image& image, double factor) {
  const std::vector<std::uint8_t> luma = grey(image);
  std::int64_t sum = 0;
  for (const std::uint8_t value : luma) sum += value;
  const double mean = luma.empty() ? 0 : static_cast<double>(sum) / static_cast<double>(luma.size());
  Image other = image;
  std::ranges::fill(other.pixels, static_cast<std::uint8_t>(mean + 0.5));
  return blended(other, image, factor);
}

Image sharpness(const Image& image, double factor) { return blended(smoothed(image), image, factor); }
Image brightness(const Image& image, double factor) { return blended(Image(image.width, image.height), image, factor); }

Image posterize(const Image& image, int bits) {
  const int mask = ~((1 << (8 - std::clamp(bits, 0, 8))) - 1);
  Image out = image;
  for (std::uint8_t& value : out.pixels) value = static_cast<std::uint8_t>(value & mask);
  return out;
}

Image solarize(const Image& image, double threshold) {
  Image out = image;
  for (std::uint8_t& value : out.pixels)
    if (value >= threshold) value = static_cast<std::uint8_t>(255 - value);
  return out;
}

Image auto_contrast(const Image& image) { return mapped(image, stretched); }
Image equalize(const Image& image) { return mapped(image, equalized); }
Image invert(const Image& image) { return solarize(image, 0); }

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
