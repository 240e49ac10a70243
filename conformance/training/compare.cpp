#include "conformance/training/compare.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace plumbline::conformance {
namespace {

// How far beyond its bound a value is: 0 where it is within.
double excess(double got, double expected, double bound) {
  if (std::isinf(bound)) return 0;
  if (std::isfinite(expected) != std::isfinite(got)) return std::numeric_limits<double>::infinity();
  if (!std::isfinite(expected)) return 0;
  const double difference = std::fabs(got - expected);
  return difference <= bound ? 0 : difference - bound;
}

// Elements that have no counterpart are not looked at.
bool differ_in_size(std::size_t got, std::size_t expected, Finding& finding, std::vector<Finding>& findings) {
  if (got == expected) return false;
  finding.what += fmt::format("{}there are {} elements instead of {}", finding.what.empty() ? "" : ": ", got, expected);
  findings.push_back(std::move(finding));
  return true;
}

}  // namespace

void Largest::see(double new_difference, double bound_there) {
  if (std::isnan(new_difference)) new_difference = std::numeric_limits<double>::infinity();
  if (new_difference <= difference && bound != 0) return;
  difference = new_difference;
  bound = bound_there;
}

void compare_bits(std::span<const float> got, std::span<const float> expected, Finding finding,
                  std::vector<Finding>& findings) {
  if (differ_in_size(got.size(), expected.size(), finding, findings)) return;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(expected[i])) continue;
    if (finding.wrong++ == 0) {
      finding.index = static_cast<std::int64_t>(i);
      finding.expected = static_cast<double>(expected[i]);
      finding.got = static_cast<double>(got[i]);
    }
  }
  finding.elements = static_cast<std::int64_t>(got.size());
  if (finding.wrong > 0) findings.push_back(std::move(finding));
}

void compare_within(std::span<const float> got, std::span<const double> expected,
                    const std::function<double(std::size_t)>& bound, Finding finding, std::vector<Finding>& findings,
                    Largest& largest) {
  if (differ_in_size(got.size(), expected.size(), finding, findings)) return;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto value = static_cast<double>(got[i]);
    const double allowed = bound(i);
    largest.see(std::fabs(value - expected[i]), allowed);
    const double beyond = excess(value, expected[i], allowed);
    if (beyond == 0) continue;
    ++finding.wrong;
    if (beyond <= worst) continue;
    worst = beyond;
    finding.index = static_cast<std::int64_t>(i);
    finding.expected = expected[i];
    finding.got = value;
    finding.bound = allowed;
  }
  finding.elements = static_cast<std::int64_t>(got.size());
  if (finding.wrong > 0) findings.push_back(std::move(finding));
}

}  // namespace plumbline::conformance
