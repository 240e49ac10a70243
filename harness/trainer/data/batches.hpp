// harness/trainer/data/batches.hpp: rows of a data set in batches, as tensors' values. Free of LibTorch.
//
// Model   The order of rows in an epoch is a function of seed and epoch alone, and what is drawn for a row's
//         augmentation one of seed, epoch and the row's number. So no state needs to be kept: any batch of any epoch
//         can be made again, on any rank, which is what a run that is continued needs.
// Ranks   The data ranks deal the rows of an epoch out in turn; the first rows are used again where the ranks do not
//         divide their number, so that all have equally many batches; or, uneven, each row once.
// Source  torch.utils.data.DistributedSampler for the dealing; ColossalAI's ResNet example for crop and normalisation.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/trainer/data/cifar10.hpp"
#include "harness/trainer/data/image.hpp"
#include "reference/training/detail/random.hpp"

namespace plumbline::training::data {

struct BatchPlan {
  std::size_t rows = 0;   // of the data set
  std::size_t batch = 1;  // rows of a batch of one data rank
  std::uint64_t seed = 0;
  bool shuffle = true;     // else the order is that of the data set, in every epoch
  bool drop_last = false;  // leave out the last batch where it has fewer rows
  std::size_t parts = 1;   // of a batch, all of as many rows: what the last one has beyond is left out
  int rank = 0;            // data rank
  int ranks = 1;
  bool uneven = false;  // no row is used again: the first ranks may have one more
};
/// How many batches an epoch has. Throws InvalidArgument for a plan without rows or with a batch of none, for a rank
/// that there is not, and where no batch is left or `parts` do not divide it.
[[nodiscard]] std::size_t batches_per_epoch(const BatchPlan& plan);
/// The row numbers of each batch. Throws as batches_per_epoch().
[[nodiscard]] std::vector<std::vector<std::size_t>> batches_of_epoch(const BatchPlan& plan, int epoch);

/// Means and standard deviations of red, green and blue over CIFAR-10, as ColossalAI's example has them.
inline constexpr std::array<float, 3> kCifar10Mean{0.4914f, 0.4822f, 0.4465f};
inline constexpr std::array<float, 3> kCifar10Deviation{0.2023f, 0.1994f, 0.2010f};

/// (value / 255 - mean) / deviation in single precision, bitwise as torchvision's ToTensor and Normalize. Throws
/// InvalidArgument unless `out` has as many places as the image numbers.
void normalise(const Image& image, std::span<float> out);
/// A random part of 32 x 32 pixels of the image in a black border of 4.
[[nodiscard]] Image augmented(const Image& image, Random& random);

struct ImageBatch {
  std::vector<float> x;         // [rows, 3, 32, 32]
  std::vector<std::int64_t> y;  // [rows]
  [[nodiscard]] std::vector<std::int64_t> shape() const {
    return {static_cast<std::int64_t>(y.size()), Image::kChannels, LabelledImages::kSide, LabelledImages::kSide};
  }
};
/// Rows to train on: augmented, then normalised. Throws OutOfRange for a row that there is not.
[[nodiscard]] ImageBatch training_batch(const LabelledImages& images, std::span<const std::size_t> rows,
                                        std::uint64_t seed, int epoch);
/// Rows to test on: 32 pixels wide and high, normalised.
[[nodiscard]] ImageBatch test_batch(const LabelledImages& images, std::span<const std::size_t> rows);

}  // namespace plumbline::training::data
