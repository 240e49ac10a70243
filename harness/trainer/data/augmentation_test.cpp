// The loader's transforms against what torchvision made of the same images.
#include <bit>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/trainer/data/batches.hpp"
#include "harness/trainer/data/image_operations.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::training::data {
namespace {

using nlohmann::json;

Image image_of(int width, int height, const std::string& digits) {
  Image image(width, height);
  EXPECT_EQ(digits.size(), 2 * image.pixels.size());
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<std::uint8_t>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  return image;
}

struct Recorded {
  std::map<std::string, Image> images;
  std::map<std::string, std::vector<json>> cases;  // by kind

  Recorded() {
    std::ifstream file(PLUMBLINE_AUGMENTATION_VECTORS);
    for (std::string line; std::getline(file, line);) {
      const json one = json::parse(line);
      const std::string kind = one.value("kind", "provenance");
      if (kind == "image")
        images[one.at("name")] = image_of(one.at("width"), one.at("height"), one.at("pixels"));
      else
        cases[kind].push_back(one);
    }
  }
  [[nodiscard]] const Image& image(const json& one) const { return images.at(one.at("image")); }
};

const Recorded& recorded() {
  static const Recorded all;
  return all;
}

TEST(Augmentation, CropsAndResizesAsTorchvision) {
  for (const json& one : recorded().cases.at("crop"))
    EXPECT_EQ(padded_crop(recorded().image(one), one.at("padding"), one.at("top"), one.at("left"), 10, 8),
              image_of(10, 8, one.at("out")));
  for (const json& one : recorded().cases.at("resize"))
    EXPECT_EQ(resize(recorded().image(one), one.at("size")), image_of(one.at("width"), one.at("height"), one.at("out")))
        << one.at("image") << " to " << one.at("size");
  EXPECT_THROW((void)padded_crop(Image(4, 4), 1, 3, 0, 4, 4), InvalidArgument);
  EXPECT_THROW((void)padded_crop(Image(4, 4), 1, 0, -1, 4, 4), InvalidArgument);
  EXPECT_THROW((void)resize(Image(4, 4), 0), InvalidArgument);
}

TEST(Augmentation, NormalisesToTorchvisionsBits) {
  Image ramp(16, 16);
  for (std::size_t i = 0; i < ramp.pixels.size(); ++i) ramp.pixels[i] = static_cast<std::uint8_t>(i % 256);
  std::vector<float> values(ramp.pixels.size());
  normalise(ramp, values);
  const json& bits = recorded().cases.at("normalise").at(0).at("bits");
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), bits[i / 256][i % 256].get<std::uint32_t>()) << i;
  EXPECT_THROW(normalise(ramp, std::span(values).first(5)), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::training::data
