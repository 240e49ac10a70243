#include "harness/trainer/data/batches.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "harness/trainer/data/image_operations.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::training::data {
namespace {

// Streams of the seed: orders of epochs, and the augmentation of rows from there on.
constexpr std::uint64_t kOrderStream = std::uint64_t{1} << 62;
constexpr std::uint64_t kAugmentStream = std::uint64_t{2} << 62;
constexpr int kRowBits = 32;

std::size_t rows_of_a_rank(const BatchPlan& plan) {
  if (plan.rows == 0) throw InvalidArgument("rows = 0; a data set has at least one row");
  if (plan.batch == 0) throw InvalidArgument("batch = 0; a batch has at least one row");
  if (plan.ranks < 1 || plan.rank < 0 || plan.rank >= plan.ranks)
    throw InvalidArgument(fmt::format("data rank {} of {}; ranks are 0 to their number - 1", plan.rank, plan.ranks));
  if (plan.parts == 0 || plan.batch % plan.parts != 0)
    throw InvalidArgument(fmt::format("batch = {}; it must be a multiple of its {} parts", plan.batch, plan.parts));
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  const std::size_t most = (plan.rows + ranks - 1) / ranks;
  const bool has_one_less =
      plan.uneven && plan.rows % ranks != 0 && static_cast<std::size_t>(plan.rank) >= plan.rows % ranks;
  return has_one_less ? most - 1 : most;
}

// Those that are in batches.
std::size_t rows_in_batches(const BatchPlan& plan) {
  const std::size_t rows = rows_of_a_rank(plan), last = rows % plan.batch;
  return plan.drop_last ? rows - last : rows - last % plan.parts;
}

}  // namespace

std::size_t batches_per_epoch(const BatchPlan& plan) {
  const std::size_t rows = rows_in_batches(plan);
  if (rows == 0)
    throw InvalidArgument(fmt::format("batch = {}; a data rank has {} rows, and {} is left out", plan.batch,
                                      rows_of_a_rank(plan),
                                      plan.drop_last ? std::string("a smaller last batch")
                                                     : fmt::format("what {} equal parts do not use", plan.parts)));
  return (rows + plan.batch - 1) / plan.batch;
}

std::vector<std::vector<std::size_t>> batches_of_epoch(const BatchPlan& plan, int epoch) {
  std::vector<std::vector<std::size_t>> batches(batches_per_epoch(plan));
  std::vector<std::size_t> order(plan.rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Random random(plan.seed, kOrderStream + static_cast<std::uint64_t>(epoch));
  if (plan.shuffle) shuffle(order, random);
  const std::size_t rows = rows_in_batches(plan);
  for (std::size_t i = 0; i < batches.size(); ++i)
    for (std::size_t row = i * plan.batch; row < std::min((i + 1) * plan.batch, rows); ++row)
      batches[i].push_back(
          order[(row * static_cast<std::size_t>(plan.ranks) + static_cast<std::size_t>(plan.rank)) % plan.rows]);
  return batches;
}

void normalise(const Image& image, std::span<float> out) {
  if (out.size() != image.pixels.size())
    throw InvalidArgument(fmt::format("{} places for an image of {} numbers", out.size(), image.pixels.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t channel = i / image.plane();
    out[i] = (static_cast<float>(image.pixels[i]) / 255.0f - kCifar10Mean[channel]) / kCifar10Deviation[channel];
  }
}

Image augmented(const Image& image, Random& random) {
  constexpr int kBorder = 4, kSide = LabelledImages::kSide;
  const auto top = static_cast<int>(random.below(static_cast<std::size_t>(image.height + 2 * kBorder - kSide + 1)));
  const auto left = static_cast<int>(random.below(static_cast<std::size_t>(image.width + 2 * kBorder - kSide + 1)));
  return padded_crop(image, kBorder, top, left, kSide, kSide);
}

namespace {

template <class Transform>
ImageBatch batch_of(const LabelledImages& images, std::span<const std::size_t> rows, const Transform& transform) {
  ImageBatch batch{.x = std::vector<float>(rows.size() * LabelledImages::kPixels), .y = {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    normalise(transform(images.image(rows[i]), rows[i]),
              std::span(batch.x).subspan(i * LabelledImages::kPixels, LabelledImages::kPixels));
    batch.y.push_back(images.label(rows[i]));
  }
  return batch;
}

}  // namespace

ImageBatch training_batch(const LabelledImages& images, std::span<const std::size_t> rows, std::uint64_t seed,
                          int epoch) {
  return batch_of(images, rows, [&](const Image& image, std::size_t row) {
    Random random(seed, kAugmentStream + (static_cast<std::uint64_t>(epoch) << kRowBits) + row);
    return augmented(image, random);
  });
}

ImageBatch test_batch(const LabelledImages& images, std::span<const std::size_t> rows) {
  return batch_of(images, rows, [](const Image& image, std::size_t) { return resize(image, LabelledImages::kSide); });
}

}  // namespace plumbline::training::data
