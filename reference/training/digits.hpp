// reference/training/digits.hpp: the handwritten digits that the training baselines learn. Free of LibTorch.
//
// Model   1,797 images of 8x8 pixels with a label 0..9. Every fifth row (0, 5, 10, …) is held out; the others
//         are for training. Pixels are handed out as value / 16, exact in float32 and in both half formats.
// Source  data/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace plumbline::training {

struct Digit {
  std::array<std::uint8_t, 64> pixels{};  // row by row, 0..16
  std::uint8_t label = 0;
};

struct Digits {
  std::vector<Digit> training;
  std::vector<Digit> held_out;
};

/// The images of a text in the form of data/digits.csv, split. Throws InvalidArgument naming `origin`, the
/// line, and what is wrong with it.
[[nodiscard]] Digits parse_digits(std::string_view text, std::string_view origin);
/// The same of a file. Throws NotFound, too.
[[nodiscard]] Digits read_digits(const std::filesystem::path& file);
/// The data set that is part of this library.
[[nodiscard]] Digits digits();

}  // namespace plumbline::training
