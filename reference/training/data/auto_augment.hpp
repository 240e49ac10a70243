// reference/training/data/auto_augment.hpp: AutoAugment with the policy that was learned for CIFAR-10. Free of LibTorch.
//
// Model   A policy has 25 sub-policies of two operations, each with a probability and a level 0 to 9. What is drawn for an
//         image (which sub-policy, whether an operation happens, which way it goes) is a plain value, and what follows from
//         it a pure function.
// Source  Cubuk et al., AutoAugment, arXiv:1805.09501, table 7; levels to magnitudes as torchvision's
//         transforms.AutoAugment. vectors/augmentation.jsonl holds both to it.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "reference/training/data/image.hpp"
#include "reference/training/random.hpp"

namespace plumbline::training::data {

enum class Operation {
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  color,
  posterize,
  solarize,
  contrast,
  sharpness,
  brightness,
  auto_contrast,
  equalize,
  invert,
};
inline constexpr int kOperations = 14;

/// "ShearX", "AutoContrast", …, the names of the paper.
[[nodiscard]] std::string_view name_of(Operation operation);

/// Levels 0 to 9 as magnitudes for an image: a slope, pixels, degrees, a change of the factor from 1, bits, a threshold.
/// 0 for operations without one. Throws OutOfRange for another level.
[[nodiscard]] float magnitude_of(Operation operation, int level, const Image& image);
/// Whether a magnitude is used with either sign.
[[nodiscard]] bool is_signed(Operation operation);
/// The operation with a magnitude, sign included. Translations and bits are cut off to whole numbers.
[[nodiscard]] Image applied(const Image& image, Operation operation, double magnitude);

struct SubPolicyPart {
  Operation operation;
  double probability;
  std::optional<int> level;  // nothing: the operation has no magnitude
};
using SubPolicy = std::array<SubPolicyPart, 2>;
[[nodiscard]] const std::array<SubPolicy, 25>& cifar10_policy();

/// What is drawn for one image.
struct AugmentChoice {
  std::size_t sub_policy = 0;
  std::array<double, 2> draws{};   // in [0, 1): part i happens where draws[i] is at most its probability
  std::array<bool, 2> positive{};  // else a signed magnitude is taken negative
};
[[nodiscard]] AugmentChoice draw_augment(Random& random);
/// Throws OutOfRange for a sub-policy that there is not.
[[nodiscard]] Image auto_augment(const Image& image, const AugmentChoice& choice);

}  // namespace plumbline::training::data
