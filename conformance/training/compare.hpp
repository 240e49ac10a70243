// conformance/training/compare.hpp: recorded values against expected ones, element by element.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "conformance/training/finding.hpp"

namespace plumbline::conformance {

/// The largest difference that was seen, and the bound that held where it was seen.
struct Largest {
  double difference = 0;
  double bound = 0;
  void see(double new_difference, double bound_there);
};

/// Compares bits. Adds `finding`, completed with the first element that differs, to `findings` where one
/// does. Where there are more or fewer elements than expected, that is the finding.
void compare_bits(std::span<const float> got, std::span<const float> expected, Finding finding,
                  std::vector<Finding>& findings);

/// Compares within bound(i). Where something finite is expected, anything else is wrong; where the expected
/// value is not finite, so must be the one got. Adds `finding`, completed with the element farthest beyond
/// its bound. Where there are more or fewer elements than expected, that is the finding.
void compare_within(std::span<const float> got, std::span<const double> expected,
                    const std::function<double(std::size_t)>& bound, Finding finding, std::vector<Finding>& findings,
                    Largest& largest);

}  // namespace plumbline::conformance
