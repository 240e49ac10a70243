// conformance/support/property.hpp: looks for a value for which a property does not hold, and makes the one found
// small.
//
// Model   A property draws values, judges one in a line ("" when it holds), and lists what is smaller than a value. The
//         search draws `count` values. From the first for which the property does not hold it goes to the first smaller
//         one for which it does not hold either, until there is none: that one is reported, with the seed that finds
//         it.
// Cost    count judgements, and for a counterexample those of the neighbours on at most kMostSteps steps down.
// Sources Claessen and Hughes, QuickCheck (ICFP 2000).
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::conformance {

/// Draws values; the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// An integer in [low, high].
  [[nodiscard]] int between(int low, int high);
  /// One of a list that is not empty.
  template <class T>
  [[nodiscard]] const T& one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(between(0, static_cast<int>(list.size()) - 1))];
  }
  /// Any order of a list.
  template <class T>
  [[nodiscard]] std::vector<T> shuffled(std::vector<T> list) {
    for (int left = static_cast<int>(list.size()); left > 1; --left)
      std::swap(list[static_cast<std::size_t>(left - 1)], list[static_cast<std::size_t>(between(0, left - 1))]);
    return list;
  }

 private:
  std::mt19937_64 engine_;
};

template <class T>
struct Property {
  std::function<T(Random&)> draw;
  std::function<std::string(const T&)> problem;     // "" when the property holds
  std::function<std::vector<T>(const T&)> smaller;  // the smallest first; nothing for the smallest of all
  std::function<std::string(const T&)> words;       // what the value is
};

/// Steps down from the value found, at most.
inline constexpr int kMostSteps = 200;

/// What is reported of a counterexample.
struct Counterexample {
  std::uint64_t seed = 0;
  int trial = 0;  // that found it, from 1
  int trials = 0;
  int steps = 0;  // down from what was found
  std::string found, smallest, problem;
};
/// "3x2: words (the smallest after 4 steps from 5x3x2; trial 7 of 1000, seed 1)".
[[nodiscard]] std::string text_of(const Counterexample& one);

/// "" when the property holds for `count` values, else text_of() the smallest counterexample.
template <class T>
[[nodiscard]] std::string search(const Property<T>& property, std::uint64_t seed, int count) {
  Random random(seed);
  for (int trial = 1; trial <= count; ++trial) {
    T value = property.draw(random);
    std::string problem = property.problem(value);
    if (problem.empty()) continue;
    Counterexample one{
        .seed = seed, .trial = trial, .trials = count, .found = property.words(value), .smallest = {}, .problem = {}};
    const auto step_down = [&] {
      for (T& candidate : property.smaller(value)) {
        std::string words = property.problem(candidate);
        if (words.empty()) continue;
        value = std::move(candidate);
        problem = std::move(words);
        return true;
      }
      return false;
    };
    while (one.steps < kMostSteps && step_down()) ++one.steps;
    one.smallest = property.words(value);
    one.problem = problem;
    return text_of(one);
  }
  return {};
}

}  // namespace plumbline::conformance
