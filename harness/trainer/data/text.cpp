#include "harness/trainer/data/text.hpp"

#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/random.hpp"

// data/text.txt, compiled in.
extern const std::string_view plumbline_training_text;

namespace plumbline::training::data {
namespace {

constexpr std::uint64_t kTextStream = std::uint64_t{3} << 62;

}  // namespace

Text split_text(std::string_view whole) {
  const std::size_t kept = whole.size() - whole.size() / 10;
  return {.training = whole.substr(0, kept), .held_out = whole.substr(kept)};
}

Text text() { return split_text(plumbline_training_text); }

TextBatch text_batch(std::string_view text, std::int64_t rows, std::int64_t length, std::uint64_t seed,
                     std::int64_t step) {
  if (rows < 1 || length < 1)
    throw InvalidArgument(fmt::format("{} rows of {} tokens; both must be at least 1", rows, length));
  if (std::cmp_less_equal(text.size(), length))
    throw InvalidArgument(
        fmt::format("a text of {} bytes; it must be longer than a sample of {} tokens", text.size(), length));
  const auto tokens = static_cast<std::size_t>(length);
  Random random(seed, kTextStream + static_cast<std::uint64_t>(step));
  TextBatch batch;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::string_view window = text.substr(random.below(text.size() - tokens), tokens + 1);
    for (std::size_t i = 0; i < tokens; ++i) {
      batch.x.push_back(static_cast<unsigned char>(window[i]));
      batch.y.push_back(static_cast<unsigned char>(window[i + 1]));
    }
  }
  return batch;
}

}  // namespace plumbline::training::data
