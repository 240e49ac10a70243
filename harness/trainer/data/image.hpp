// harness/trainer/data/image.hpp: a colour image of 8-bit numbers. Free of LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plumbline::training::data {

struct Image {
  static constexpr int kChannels = 3;  // red, green, blue

  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;  // [3, height, width], row by row

  Image() = default;
  /// Black.
  Image(int columns, int rows)
      : width(columns),
        height(rows),
        pixels(kChannels * static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}

  [[nodiscard]] std::size_t plane() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(height); }
  [[nodiscard]] std::size_t place(int channel, int row, int column) const {
    return static_cast<std::size_t>(channel) * plane() +
           static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + static_cast<std::size_t>(column);
  }
  [[nodiscard]] std::uint8_t at(int channel, int row, int column) const { return pixels[place(channel, row, column)]; }
  std::uint8_t& at(int channel, int row, int column) { return pixels[place(channel, row, column)]; }

  friend bool operator==(const Image&, const Image&) = default;
};

}  // namespace plumbline::training::data
