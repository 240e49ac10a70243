#include "reference/bucketing/known_values.hpp"

#include <cmath>
#include <span>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

// 1 to 1021, which is prime: neither rows of a matrix nor blocks of memory are alike.
class Pattern {
 public:
  explicit Pattern(int gradient) : value_(1 + gradient * 17 % kPeriod) {}
  int next() {
    const int value = value_;
    value_ = value == kPeriod ? 1 : value + 1;
    return value;
  }

 private:
  static constexpr int kPeriod = 1021;
  int value_;
};

}  // namespace

void fill_known(comm::Buffer values, int gradient, float factor) {
  Pattern pattern(gradient);
  for (float& value : std::span(static_cast<float*>(values.data), static_cast<std::size_t>(values.count)))
    value = factor * static_cast<float>(pattern.next());
}

void require_known(comm::ConstBuffer values, int gradient, float factor, const std::string& what) {
  constexpr float tolerance = 0x1p-20F;
  Pattern pattern(gradient);
  const std::span found(static_cast<const float*>(values.data), static_cast<std::size_t>(values.count));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float expected = factor * static_cast<float>(pattern.next());
    if (!(std::abs(found[i] - expected) <= tolerance * expected))
      throw RuntimeFailure(
          fmt::format("{}, element {} of {}: {}, where {} is right", what, i, found.size(), found[i], expected));
  }
}

}  // namespace plumbline::bucketing
