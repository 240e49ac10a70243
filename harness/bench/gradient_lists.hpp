// harness/bench/gradient_lists.hpp: the parameters of two models that everybody knows, by name and size.
//
// Source  torchvision's resnet50: He et al., arXiv:1512.03385. GPT-2 small: Radford et al., 2019; its output layer is
//         the token embedding, so that this is there once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::bucketing {

struct NamedSize {
  std::string name;
  std::int64_t elements = 0;
};

/// 161 parameters of 25,557,032 numbers, in the order of registration.
[[nodiscard]] std::vector<NamedSize> resnet50_gradients();
/// 148 parameters of 124,439,808 numbers.
[[nodiscard]] std::vector<NamedSize> gpt2_small_gradients();

}  // namespace plumbline::bucketing
