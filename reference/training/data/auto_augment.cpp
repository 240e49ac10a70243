#include "reference/training/data/auto_augment.hpp"

#include <cmath>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/data/image_operations.hpp"

namespace plumbline::training::data {
namespace {

constexpr int kLevels = 10;

// Evenly spaced in single precision, counted from the nearer end, as torch.linspace does.
float spaced(double first, double last, int level) {
  const auto from = static_cast<float>(first), to = static_cast<float>(last);
  const float step = (to - from) / (kLevels - 1);
  return level < kLevels / 2 ? from + step * static_cast<float>(level)
                             : to - step * static_cast<float>(kLevels - 1 - level);
}

}  // namespace

std::string_view name_of(Operation operation) {
  constexpr std::array<std::string_view, kOperations> names{
      "ShearX",   "ShearY",   "TranslateX", "TranslateY", "Rotate",       "Color",    "Posterize",
      "Solarize", "Contrast", "Sharpness",  "Brightness", "AutoContrast", "Equalize", "Invert"};
  return names.at(static_cast<std::size_t>(operation));
}

float magnitude_of(Operation operation, int level, const Image& image) {
  if (level < 0 || level >= kLevels) throw OutOfRange(fmt::format("level {}; levels are 0 to {}", level, kLevels - 1));
  constexpr double kFarthest = 150.0 / 331.0;  // of a side: 150 pixels of the 331 that the policy was learned with
  switch (operation) {
    case Operation::shear_x:
    case Operation::shear_y:
      return spaced(0, 0.3, level);
    case Operation::translate_x:
      return spaced(0, kFarthest * image.width, level);
    case Operation::translate_y:
      return spaced(0, kFarthest * image.height, level);
    case Operation::rotate:
      return spaced(0, 30, level);
    case Operation::color:
    case Operation::contrast:
    case Operation::sharpness:
    case Operation::brightness:
      return spaced(0, 0.9, level);
    case Operation::posterize:
      return 8 - std::nearbyint(static_cast<float>(level) / ((kLevels - 1) / 4.0f));
    case Operation::solarize:
      return spaced(255, 0, level);
    case Operation::auto_contrast:
    case Operation::equalize:
    case Operation::invert:
      return 0;
  }
  return 0;
}

bool is_signed(Operation operation) {
  switch (operation) {
    case Operation::posterize:
    case Operation::solarize:
    case Operation::auto_contrast:
    case Operation::equalize:
    case Operation::invert:
      return false;
    default:
      return true;
  }
}

Image applied(const Image& image, Operation operation, double magnitude) {
  switch (operation) {
    case Operation::shear_x:
      return shear_x(image, magnitude);
    case Operation::shear_y:
      return shear_y(image, magnitude);
    case Operation::translate_x:
      return translate_x(image, static_cast<int>(magnitude));
    case Operation::translate_y:
      return translate_y(image, static_cast<int>(magnitude));
    case Operation::rotate:
      return rotate(image, magnitude);
    case Operation::color:
      return color(image, 1 + magnitude);
    case Operation::posterize:
      return posterize(image, static_cast<int>(magnitude));
    case Operation::solarize:
      return solarize(image, magnitude);
    case Operation::contrast:
      return contrast(image, 1 + magnitude);
    case Operation::sharpness:
      return sharpness(image, 1 + magnitude);
    case Operation::brightness:
      return brightness(image, 1 + magnitude);
    case Operation::auto_contrast:
      return auto_contrast(image);
    case Operation::equalize:
      return equalize(image);
    case Operation::invert:
      return invert(image);
  }
  return image;
}

const std::array<SubPolicy, 25>& cifar10_policy() {
  using enum Operation;
  static constexpr std::array<SubPolicy, 25> policy{{
      {{{invert, 0.1, {}}, {contrast, 0.2, 6}}},           {{{rotate, 0.7, 2}, {translate_x, 0.3, 9}}},
      {{{sharpness, 0.8, 1}, {sharpness, 0.9, 3}}},        {{{shear_y, 0.5, 8}, {translate_y, 0.7, 9}}},
      {{{auto_contrast, 0.5, {}}, {equalize, 0.9, {}}}},   {{{shear_y, 0.2, 7}, {posterize, 0.3, 7}}},
      {{{color, 0.4, 3}, {brightness, 0.6, 7}}},           {{{sharpness, 0.3, 9}, {brightness, 0.7, 9}}},
      {{{equalize, 0.6, {}}, {equalize, 0.5, {}}}},        {{{contrast, 0.6, 7}, {sharpness, 0.6, 5}}},
      {{{color, 0.7, 7}, {translate_x, 0.5, 8}}},          {{{equalize, 0.3, {}}, {auto_contrast, 0.4, {}}}},
      {{{translate_y, 0.4, 3}, {sharpness, 0.2, 6}}},      {{{brightness, 0.9, 6}, {color, 0.2, 8}}},
      {{{solarize, 0.5, 2}, {invert, 0.0, {}}}},           {{{equalize, 0.2, {}}, {auto_contrast, 0.6, {}}}},
      {{{equalize, 0.2, {}}, {equalize, 0.6, {}}}},        {{{color, 0.9, 9}, {equalize, 0.6, {}}}},
      {{{auto_contrast, 0.8, {}}, {solarize, 0.2, 8}}},    {{{brightness, 0.1, 3}, {color, 0.7, 0}}},
      {{{solarize, 0.4, 5}, {auto_contrast, 0.9, {}}}},    {{{translate_y, 0.9, 9}, {translate_y, 0.7, 9}}},
      {{{auto_contrast, 0.9, {}}, {solarize, 0.8, 3}}},    {{{equalize, 0.8, {}}, {invert, 0.1, {}}}},
      {{{translate_y, 0.7, 9}, {auto_contrast, 0.9, {}}}},
  }};
  return policy;
}

AugmentChoice draw_augment(Random& random) {
  AugmentChoice choice;
  choice.sub_policy = random.below(cifar10_policy().size());
  for (double& draw : choice.draws) draw = random.unit();
  for (bool& positive : choice.positive) positive = random.below(2) == 1;
  return choice;
}

Image auto_augment(const Image& image, const AugmentChoice& choice) {
  const auto& policy = cifar10_policy();
  if (choice.sub_policy >= policy.size())
    throw OutOfRange(fmt::format("sub-policy {}; there are 0 to {}", choice.sub_policy, policy.size() - 1));
  Image out = image;
  for (std::size_t i = 0; i < choice.draws.size(); ++i) {
    const SubPolicyPart& part = policy[choice.sub_policy][i];
    if (choice.draws[i] > part.probability) continue;
    double magnitude = part.level ? magnitude_of(part.operation, *part.level, image) : 0;
    if (is_signed(part.operation) && !choice.positive[i]) magnitude = -magnitude;
    out = applied(out, part.operation, magnitude);
  }
  return out;
}

}  // namespace plumbline::training::data
