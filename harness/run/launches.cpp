#include "harness/run/launches.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/support/quantile.hpp"

namespace plumbline::run {
namespace {

double fact(const record::Launch& launch, const char* name) {
  const auto found = launch.host.find(name);
  return found == launch.host.end() ? 0 : found->second;
}

struct Busyness {
  double steal = 0, waited = 0, slowdown = 0;
  [[nodiscard]] bool is_noisy() const {
    return steal > kMostSteal || waited > kMostWaited || slowdown > kSlowestCalibration;
  }
};

Busyness busyness_of(const record::Launch& launch, double best_calibration) {
  const double calibration = fact(launch, "calibration_seconds");
  return {.steal = fact(launch, "steal"),
          .waited = fact(launch, "waited"),
          .slowdown = best_calibration > 0 ? calibration / best_calibration : 0};
}

}  // namespace

std::vector<double> medians_of(const std::vector<record::Launch>& launches) {
  std::vector<double> medians;
  for (const record::Launch& launch : launches) medians.push_back(median(launch.samples));
  return medians;
}

double center_of(const record::Measurement& measurement) {
  return median(measurement.launches.empty() ? measurement.samples : medians_of(measurement.launches));
}

std::optional<std::pair<double, double>> interval_of_median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t count = values.size();
  // How probable it is that at most `cut` of them lie below the median: each does with 1/2.
  // By its logarithm: 2^-count is 0 from 1,075 values on.
  double log_term = static_cast<double>(count) * std::log(0.5), tail = 0;
  std::size_t cut = 0;
  for (; cut < count / 2; ++cut) {
    tail += std::exp(log_term);
    if (tail > 0.025) break;
    log_term += std::log(static_cast<double>(count - cut) / static_cast<double>(cut + 1));
  }
  if (cut == 0) return std::nullopt;
  return std::pair{values[cut - 1], values[count - cut]};
}

std::map<std::string, double> worst_of_host(const std::vector<record::Launch>& launches) {
  struct Fact {
    const char *recorded, *name;
    bool highest_is_worst;
  };
  constexpr std::array<Fact, 5> kFacts{{{"load", "load", true},
                                        {"steal", "steal_ratio", true},
                                        {"waited", "waited_ratio", true},
                                        {"clock_hertz", "clock_hertz", false},
                                        {"pinned", "pinned", false}}};
  std::map<std::string, double> worst;
  for (const record::Launch& launch : launches)
    for (const Fact& fact : kFacts)
      if (const auto found = launch.host.find(fact.recorded); found != launch.host.end()) {
        double& so_far = worst.try_emplace(fact.name, found->second).first->second;
        so_far = fact.highest_is_worst ? std::max(so_far, found->second) : std::min(so_far, found->second);
      }
  return worst;
}

std::map<std::string, double> worst_of_windows(const std::vector<record::Launch>& launches) {
  std::map<std::string, double> worst;
  for (const record::Launch& launch : launches)
    for (const char* name : {"window_seconds", "windows_missed_ratio"})
      if (const auto found = launch.host.find(name); found != launch.host.end()) {
        double& so_far = worst.try_emplace(name, found->second).first->second;
        so_far = std::max(so_far, found->second);
      }
  return worst;
}

std::string why_noisy(const std::vector<record::Launch>& launches, double best_calibration) {
  Busyness worst;
  std::size_t noisy = 0;
  for (const record::Launch& launch : launches) {
    const Busyness busyness = busyness_of(launch, best_calibration);
    noisy += busyness.is_noisy() ? 1 : 0;
    worst = {.steal = std::max(worst.steal, busyness.steal),
             .waited = std::max(worst.waited, busyness.waited),
             .slowdown = std::max(worst.slowdown, busyness.slowdown)};
  }
  if (static_cast<double>(noisy) <= kMostNoisyLaunches * static_cast<double>(launches.size())) return {};
  std::vector<std::string> words;
  if (worst.waited > kMostWaited)
    words.push_back(fmt::format("ranks without a core {:.0f} % of the time", worst.waited * 100));
  if (worst.steal > kMostSteal)
    words.push_back(fmt::format("{:.0f} % of the processors' time stolen", worst.steal * 100));
  if (worst.slowdown > kSlowestCalibration)
    words.push_back(fmt::format("calibration loop {:.2f} times its best", worst.slowdown));
  return fmt::format("{} of {} launches: {}", noisy, launches.size(), fmt::join(words, ", "));
}

}  // namespace plumbline::run
