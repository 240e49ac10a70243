// The operations, the policy and the loader's transforms against what torchvision made of the same images.
#include <bit>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"
#include "reference/training/data/auto_augment.hpp"
#include "reference/training/data/batches.hpp"
#include "reference/training/data/image_operations.hpp"

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

Operation operation_of(const std::string& name) {
  for (int i = 0; i < kOperations; ++i)
    if (name_of(static_cast<Operation>(i)) == name) return static_cast<Operation>(i);
  throw NotFound(name);
}

TEST(Augmentation, OperationsMakeTheBytesOfTorchvision) {
  std::set<std::string> seen;
  for (const json& one : recorded().cases.at("operation")) {
    const Image& image = recorded().image(one);
    const Image got = applied(image, operation_of(one.at("name")), one.at("magnitude"));
    EXPECT_EQ(got, image_of(image.width, image.height, one.at("out")))
        << one.at("name") << " level " << one.at("level") << " sign " << one.at("sign") << " on " << one.at("image");
    seen.insert(one.at("name"));
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kOperations));
}

TEST(Augmentation, LevelsAreTorchvisionsMagnitudesToTheLastBit) {
  for (const json& one : recorded().cases.at("operation")) {
    const Operation operation = operation_of(one.at("name"));
    const double sign = one.at("sign");
    EXPECT_TRUE(sign > 0 || is_signed(operation));
    EXPECT_EQ(sign * static_cast<double>(magnitude_of(operation, one.at("level"), recorded().image(one))),
              one.at("magnitude").get<double>())
        << one.at("name") << " level " << one.at("level");
  }
  EXPECT_THROW((void)magnitude_of(Operation::rotate, 10, Image(1, 1)), OutOfRange);
}

TEST(Augmentation, ThePolicyIsTheOneForCifar10) {
  const json& table = recorded().cases.at("policy").at(0).at("table");
  ASSERT_EQ(table.size(), cifar10_policy().size());
  for (std::size_t i = 0; i < table.size(); ++i)
    for (std::size_t part = 0; part < 2; ++part) {
      const SubPolicyPart& got = cifar10_policy()[i][part];
      const json level = got.level ? json(*got.level) : json();
      EXPECT_EQ(json({name_of(got.operation), got.probability, level}), table[i][part]) << "sub-policy " << i;
    }
}

TEST(Augmentation, AChoiceMakesWhatTorchvisionMakesOfIt) {
  for (const json& one : recorded().cases.at("augment")) {
    const auto draws = one.at("draws").get<std::array<double, 2>>();
    const auto signs = one.at("signs").get<std::array<int, 2>>();
    const AugmentChoice choice{
        .sub_policy = one.at("sub_policy"), .draws = draws, .positive = {signs[0] == 1, signs[1] == 1}};
    const Image& image = recorded().image(one);
    EXPECT_EQ(auto_augment(image, choice), image_of(image.width, image.height, one.at("out"))) << one.at("sub_policy");
  }
  EXPECT_THROW((void)auto_augment(Image(1, 1), {.sub_policy = 25}), OutOfRange);
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

TEST(Augmentation, DrawsEverySubPolicyAndPlaceAboutEquallyOften) {
  Random random(7, 1);
  std::map<std::size_t, int> policies;
  std::array<int, 2> positive{};
  for (int i = 0; i < 5000; ++i) {
    const AugmentChoice choice = draw_augment(random);
    ++policies[choice.sub_policy];
    for (std::size_t part = 0; part < 2; ++part) positive[part] += choice.positive[part] ? 1 : 0;
  }
  EXPECT_EQ(policies.size(), 25u);
  for (const auto& [policy, count] : policies) EXPECT_NEAR(count, 200, 75) << policy;  // five standard deviations
  for (const int count : positive) EXPECT_NEAR(count, 2500, 180);
}

}  // namespace
}  // namespace plumbline::training::data
