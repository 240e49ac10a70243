// harness/trainer/data/cifar10.hpp: CIFAR-10 in its binary version. Free of LibTorch.
//
// Model   A file is a list of records of 3,073 bytes: a label 0 to 9, then 1,024 bytes each of red, green and blue, row
//         by row. The data set is six such files: data_batch_1.bin to data_batch_5.bin to train on, test_batch.bin to
//         test, 10,000 records each. Files with another number of records are read as well: a small data set in this
//         form trains without the real one.
// Errors  NotFound for a file that cannot be read, InvalidArgument for one that is not of this form; one line that
//         names the file, what is there and what would be right.
// Source  A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009;
//         https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version". 60,000 images, not part of this project: who
//         wants them downloads cifar-10-binary.tar.gz (162 MB) there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/trainer/data/image.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::training::data {

/// Images of 32 x 32 pixels with a label each.
class LabelledImages {
 public:
  static constexpr int kSide = 32;
  static constexpr std::size_t kPixels = 3 * 32 * 32;
  static constexpr int kClasses = 10;

  [[nodiscard]] std::size_t size() const { return labels_.size(); }
  /// Throws OutOfRange for a number that there is not.
  [[nodiscard]] Image image(std::size_t number) const;
  [[nodiscard]] std::uint8_t label(std::size_t number) const;
  /// Throws InvalidArgument for an image of another size or a label above 9.
  void add(const Image& image, std::uint8_t label);
  /// All of the other after all of these.
  void append(const LabelledImages& other);

  friend bool operator==(const LabelledImages&, const LabelledImages&) = default;

 private:
  friend LabelledImages read_cifar10_file(const std::filesystem::path& file);
  std::vector<std::uint8_t> labels_;
  std::vector<std::uint8_t> pixels_;  // kPixels an image
};

struct Cifar10 {
  LabelledImages training;
  LabelledImages test;
};

[[nodiscard]] LabelledImages read_cifar10_file(const std::filesystem::path& file);
/// Throws RuntimeFailure where the file cannot be written.
void write_cifar10_file(const LabelledImages& images, const std::filesystem::path& file);

/// The six files of a folder, or of its sub-folder cifar-10-batches-bin, as the archive makes it.
[[nodiscard]] Cifar10 read_cifar10(const std::filesystem::path& folder);
/// Writes the six files, the images to train on spread over five as evenly as can be. Makes the folder. Throws
/// InvalidArgument for fewer than five images to train on or none to test.
void write_cifar10(const Cifar10& data, const std::filesystem::path& folder);

/// The digits as such a data set: each pixel four by four, in shades of grey; the held-out ones are the test. At most
/// `most` of either, the first ones.
[[nodiscard]] Cifar10 cifar10_of_digits(const Digits& digits, std::size_t most);

}  // namespace plumbline::training::data
