#include "harness/trainer/data/cifar10.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training::data {
namespace {

constexpr std::size_t kRecord = 1 + LabelledImages::kPixels;
constexpr int kTrainingFiles = 5;
constexpr std::size_t kRealRecords = 10'000;

std::string name_of_part(int part) { return fmt::format("data_batch_{}.bin", part + 1); }
constexpr const char* kTestFile = "test_batch.bin";

void check_size(const std::filesystem::path& file, std::uintmax_t bytes) {
  if (bytes != 0 && bytes % kRecord == 0) return;
  const auto right =
      fmt::format("records of {} bytes, {} for the {} of CIFAR-10", kRecord, kRecord * kRealRecords, kRealRecords);
  if (bytes == 0) throw InvalidArgument(fmt::format("'{}' is empty; it must have {}", file.string(), right));
  throw InvalidArgument(fmt::format("'{}' has {} bytes and ends inside record {}; it must have whole {}", file.string(),
                                    bytes, bytes / kRecord, right));
}

[[noreturn]] void cannot_read(const std::filesystem::path& file, const std::string& why) {
  throw NotFound(
      fmt::format("'{}' cannot be read: {}; it must be a file of CIFAR-10's binary version, of which a folder "
                  "has data_batch_1.bin to data_batch_5.bin and test_batch.bin",
                  file.string(), why));
}

std::vector<std::uint8_t> read_bytes(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) cannot_read(file, "it is a folder");
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error) cannot_read(file, error.message());
  check_size(file, bytes);
  std::ifstream stream(file, std::ios::binary);
  std::vector<std::uint8_t> all(bytes);
  if (!stream.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(bytes)))
    cannot_read(file, std::strerror(errno));
  return all;
}

// Images first, first + 1, … of which there are `count`.
LabelledImages part_of(const LabelledImages& images, std::size_t first, std::size_t count) {
  LabelledImages part;
  for (std::size_t i = first; i < first + count; ++i) part.add(images.image(i), images.label(i));
  return part;
}

Image enlarged(const Digit& digit) {
  constexpr int kSide = 8, kTimes = LabelledImages::kSide / kSide, kBrightest = 16;
  Image image(LabelledImages::kSide, LabelledImages::kSide);
  for (int channel = 0; channel < Image::kChannels; ++channel)
    for (int y = 0; y < image.height; ++y)
      for (int x = 0; x < image.width; ++x) {
        const int value = digit.pixels[static_cast<std::size_t>(y / kTimes * kSide + x / kTimes)];
        image.at(channel, y, x) = static_cast<std::uint8_t>(value * 255 / kBrightest);
      }
  return image;
}

LabelledImages images_of(const std::vector<Digit>& digits, std::size_t most) {
  LabelledImages images;
  for (std::size_t i = 0; i < std::min(most, digits.size()); ++i) images.add(enlarged(digits[i]), digits[i].label);
  return images;
}

}  // namespace

Image LabelledImages::image(std::size_t number) const {
  if (number >= size()) throw OutOfRange(fmt::format("image {}; there are {}", number, size()));
  Image image(kSide, kSide);
  std::copy_n(pixels_.begin() + static_cast<std::ptrdiff_t>(number * kPixels), kPixels, image.pixels.begin());
  return image;
}

std::uint8_t LabelledImages::label(std::size_t number) const {
  if (number >= size()) throw OutOfRange(fmt::format("label {}; there are {}", number, size()));
  return labels_[number];
}

void LabelledImages::add(const Image& image, std::uint8_t label) {
  if (image.width != kSide || image.height != kSide)
    throw InvalidArgument(
        fmt::format("an image of {} x {}; it must have {} x {}", image.width, image.height, kSide, kSide));
  if (label >= kClasses) throw InvalidArgument(fmt::format("label {}; it must be 0 to {}", label, kClasses - 1));
  labels_.push_back(label);
  pixels_.insert(pixels_.end(), image.pixels.begin(), image.pixels.end());
}

void LabelledImages::append(const LabelledImages& other) {
  labels_.insert(labels_.end(), other.labels_.begin(), other.labels_.end());
  pixels_.insert(pixels_.end(), other.pixels_.begin(), other.pixels_.end());
}

LabelledImages read_cifar10_file(const std::filesystem::path& file) {
  const std::vector<std::uint8_t> bytes = read_bytes(file);
  LabelledImages images;
  images.pixels_.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
    if (bytes[at] >= LabelledImages::kClasses)
      throw InvalidArgument(fmt::format("'{}': record {} (of {}, from 0) has label {}; labels are 0 to {}",
                                        file.string(), at / kRecord, bytes.size() / kRecord, bytes[at],
                                        LabelledImages::kClasses - 1));
    images.labels_.push_back(bytes[at]);
    const auto pixels = bytes.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    images.pixels_.insert(images.pixels_.end(), pixels, pixels + LabelledImages::kPixels);
  }
  return images;
}

void write_cifar10_file(const LabelledImages& images, const std::filesystem::path& file) {
  std::ofstream stream(file, std::ios::binary);
  for (std::size_t i = 0; i < images.size(); ++i) {
    const Image image = images.image(i);
    stream.put(static_cast<char>(images.label(i)));
    stream.write(reinterpret_cast<const char*>(image.pixels.data()), static_cast<std::streamsize>(image.pixels.size()));
  }
  if (!stream.flush()) throw RuntimeFailure(fmt::format("'{}' cannot be written", file.string()));
}

Cifar10 read_cifar10(const std::filesystem::path& folder) {
  const std::filesystem::path inner = folder / "cifar-10-batches-bin";
  std::error_code ignored;
  const std::filesystem::path& place = std::filesystem::is_directory(inner, ignored) ? inner : folder;
  Cifar10 data;
  for (int part = 0; part < kTrainingFiles; ++part) data.training.append(read_cifar10_file(place / name_of_part(part)));
  data.test = read_cifar10_file(place / kTestFile);
  return data;
}

void write_cifar10(const Cifar10& data, const std::filesystem::path& folder) {
  const std::size_t count = data.training.size();
  if (count < kTrainingFiles || data.test.size() == 0)
    throw InvalidArgument(fmt::format("{} images to train on and {} to test; at least {} and 1 are needed", count,
                                      data.test.size(), kTrainingFiles));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RuntimeFailure(fmt::format("'{}' cannot be made a folder: {}", folder.string(), error.message()));
  std::size_t first = 0;
  for (std::size_t part = 0; part < kTrainingFiles; ++part) {
    const std::size_t next = count * (part + 1) / kTrainingFiles;
    write_cifar10_file(part_of(data.training, first, next - first), folder / name_of_part(static_cast<int>(part)));
    first = next;
  }
  write_cifar10_file(data.test, folder / kTestFile);
}

Cifar10 cifar10_of_digits(const Digits& digits, std::size_t most) {
  return {.training = images_of(digits.training, most), .test = images_of(digits.held_out, most)};
}

}  // namespace plumbline::training::data
