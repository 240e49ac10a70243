// harness/run/launches.hpp: what the launches of a measurement come to, and whether their host was quiet enough.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/result.hpp"

namespace plumbline::run {

/// A launch is noisy where the hypervisor took more than this share of the processors' time from the host,
inline constexpr double kMostSteal = 0.02;
/// where its slowest rank was ready to run and had no core for more than this share of the time,
inline constexpr double kMostWaited = 0.02;
/// or where the calibration loop took more than this multiple of its shortest time in the run.
inline constexpr double kSlowestCalibration = 1.10;
/// A measurement is noisy where more than this share of its launches are: the median over the others still holds.
inline constexpr double kMostNoisyLaunches = 0.25;

/// The median of each launch's samples. Each has one sample at least.
[[nodiscard]] std::vector<double> medians_of(const std::vector<record::Launch>& launches);
/// The median of the launches' medians; without launches, of the samples. There is one sample at least.
[[nodiscard]] double center_of(const record::Measurement& measurement);
/// Where the median of what the values are drawn from lies at 95 %, whatever their distribution: two of the values, by
/// their ranks (sign test). Nothing of fewer than six values, which cannot say that.
[[nodiscard]] std::optional<std::pair<double, double>> interval_of_median(std::vector<double> values);

/// By name as in metrics.toml, the worst that the launches' hosts were: the highest of "load", "steal_ratio" and
/// "waited_ratio", the lowest of "clock_hertz" and "pinned". What no launch has is absent.
[[nodiscard]] std::map<std::string, double> worst_of_host(const std::vector<record::Launch>& launches);

/// Of launches that measured in windows "window_seconds" and "windows_missed_ratio", the highest of all launches.
[[nodiscard]] std::map<std::string, double> worst_of_windows(const std::vector<record::Launch>& launches);

/// Why the numbers are not to be believed, with the worst of each figure: "9 of 20 launches: ranks without a core 31 %
/// of the time, calibration loop 1.4 times its best". Empty: the host was quiet. A figure that a launch lacks counts as
/// good.
[[nodiscard]] std::string why_noisy(const std::vector<record::Launch>& launches, double best_calibration);

}  // namespace plumbline::run
