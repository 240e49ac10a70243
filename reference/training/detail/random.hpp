// reference/training/detail/random.hpp: random numbers that are the same on every machine. Free of LibTorch.
//
// Model   A seed and the number of a stream fix a sequence. Streams keep purposes apart (weights, order of rows, the
//         augmentation of one row), so that one can be repeated without the others, in any order and on any rank.
// Source  std::mt19937_64, whose numbers the standard fixes; what its distributions make of them it does not fix, so
//         they are made here. Normal: Box and Muller, 1958.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/support/fnv1a.hpp"

namespace plumbline::training {

class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : engine_(seed * 0x9e3779b97f4a7c15u + stream) {}

  /// In [0, 1), 2^24 steps apart.
  double unit() { return static_cast<double>(engine_() >> 40) * 0x1p-24; }
  /// In [-bound, bound), 2^24 steps apart.
  float uniform(double bound) { return static_cast<float>((2 * unit() - 1) * bound); }
  /// In [0, count).
  std::size_t below(std::size_t count) {
    return static_cast<std::size_t>((static_cast<unsigned __int128>(engine_()) * count) >> 64);
  }
  /// Of mean 0 and the given standard deviation. Its last bit depends on the machine's logarithm and cosine.
  float normal(double deviation) {
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(engine_() >> 11) * 0x1p-53));
    const double angle = 2 * std::numbers::pi * (static_cast<double>(engine_() >> 11) * 0x1p-53);
    return static_cast<float>(deviation * radius * std::cos(angle));
  }

 private:
  std::mt19937_64 engine_;
};

/// Fisher and Yates.
template <class T>
void shuffle(std::vector<T>& order, Random& random) {
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
}

/// The number of a stream for a name, such as a parameter's.
inline std::uint64_t stream_of(std::string_view name) { return comm::Fnv1a().add(name).value(); }

}  // namespace plumbline::training
