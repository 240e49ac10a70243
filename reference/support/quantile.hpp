// reference/support/quantile.hpp: quantiles of samples, everywhere by one rule.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace plumbline {

/// The value below which a share of the samples lies, interpolated between the two nearest; `share` from 0 to 1. There
/// is one sample at least.
[[nodiscard]] inline double quantile(std::vector<double> samples, double share) {
  std::ranges::sort(samples);
  const double place = share * static_cast<double>(samples.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const auto high = std::min(low + 1, samples.size() - 1);
  return samples[low] + (samples[high] - samples[low]) * (place - static_cast<double>(low));
}

[[nodiscard]] inline double median(std::vector<double> samples) { return quantile(std::move(samples), 0.5); }

}  // namespace plumbline
