#include "harness/bench/known_values.hpp"

#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

// 1 to 1021, which is prime: neither rows of a matrix nor blocks of memory are equal.
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

void fill_known(const device::MemorySpace& place, comm::Buffer values, int gradient, float factor) {
  if (place.is_host()) return fill_known(values, gradient, factor);
  std::vector<float> known(static_cast<std::size_t>(values.count));
  fill_known({known.data(), values.count, comm::DType::f32}, gradient, factor);
  device::set_bytes(place, values, std::as_bytes(std::span(known)));
}

void require_known(const device::MemorySpace& place, comm::ConstBuffer values, int gradient, float factor,
                   const std::string& what) {
  if (place.is_host()) return require_known(values, gradient, factor, what);
  const std::vector<std::byte> found = device::bytes_of(place, values);
  require_known({found.data(), values.count, comm::DType::f32}, gradient, factor, what);
}

}  // namespace plumbline::bucketing
