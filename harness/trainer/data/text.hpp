// harness/trainer/data/text.hpp: a few kilobytes of English for a small language model. Free of LibTorch.
//
// Model   A token is a byte. A sample is a window of the text; what is to be predicted of each token is the one after
//         it.
//         The last tenth of the text is held out.
// Source  text.txt was written for this project, and is under its licence.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace plumbline::training::data {

inline constexpr std::int64_t kTextTokens = 256;  // different ones

struct Text {
  std::string_view training;
  std::string_view held_out;
};
/// The text that is part of this library.
[[nodiscard]] Text text();
/// Any text, split in the same way.
[[nodiscard]] Text split_text(std::string_view whole);

struct TextBatch {
  std::vector<std::int64_t> x;  // [rows, length]
  std::vector<std::int64_t> y;  // the same, a token further
};
/// Windows at random places, a function of seed and step alone. Throws InvalidArgument for rows or length below 1, and
/// for a text that has not more than `length` bytes.
[[nodiscard]] TextBatch text_batch(std::string_view text, std::int64_t rows, std::int64_t length, std::uint64_t seed,
                                   std::int64_t step);

}  // namespace plumbline::training::data
