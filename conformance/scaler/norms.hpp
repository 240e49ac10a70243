// conformance/scaler/norms.hpp: norms of gradients as the checks compute them, and how far an answer may be from one.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace plumbline::conformance {

/// The norm of all elements in one row, of an order above 0.
[[nodiscard]] inline double norm_in_one_row(const std::vector<std::vector<double>>& lists, double p) {
  double sum = 0, largest = 0;
  for (const auto& list : lists)
    for (const double value : list) {
      sum += std::pow(std::abs(value), p);
      largest = std::max(largest, std::abs(value));
    }
  return std::isinf(p) ? largest : std::pow(sum, 1 / p);
}

/// Whether two norms, or gradients clipped by them, are the same up to the rounding of fp32. The defaults are for a few
/// dozen elements.
[[nodiscard]] inline bool is_near_norm(double got, double expected, double relative = 4e-6, double absolute = 1e-7) {
  return std::abs(got - expected) <= relative * std::abs(expected) + absolute;
}

}  // namespace plumbline::conformance
