#include "conformance/training/causes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::conformance {
namespace {

double product(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// |got - factor * predicted| / |got|.
double residual_of(std::span<const double> got, std::span<const double> predicted, double factor = 1) {
  double sum = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double off = got[i] - factor * predicted[i];
    sum += off * off;
  }
  return std::sqrt(sum / product(got, got));
}

// By the value of a factor, all that it may be: of 2 data ranks and 2 micro-batches, both.
std::map<double, std::vector<std::string>> named_factors(const WrongGradient& gradient) {
  std::map<double, std::vector<std::string>> names;
  for (const auto& [name, value] : gradient.factors)
    if (value > 1) {
      names[value].push_back(name);
      names[1.0 / value].push_back(name);
    }
  return names;
}

void add_factors(const WrongGradient& gradient, std::span<const double> got, double most,
                 std::vector<std::string>& found) {
  for (const auto& [factor, names] : named_factors(gradient)) {
    const double residual = residual_of(got, gradient.expected, factor);
    if (residual > most) continue;
    const double ratio = product(got, gradient.expected) / product(gradient.expected, gradient.expected);
    const std::string times = factor > 1 ? fmt::format("times {:.0f}", factor) : fmt::format("over {:.0f}", 1 / factor);
    found.push_back(fmt::format("the expected {} {} ({}): got / expected = {:.4f}, residual {:.0e}", gradient.name,
                                times, fmt::join(names, " or "), ratio, residual));
  }
}

// A sum over some of the data ranks only, divided by all of them, or by those.
void add_subsets(const WrongGradient& gradient, std::span<const double> got, double most,
                 std::vector<std::string>& found) {
  constexpr std::size_t kMost = 8;  // ranks; there are 2^ranks subsets
  const std::size_t ranks = gradient.slices.size();
  if (ranks < 2 || ranks > kMost) return;
  for (std::size_t subset = 1; subset + 1 < std::size_t{1} << ranks; ++subset) {
    std::vector<double> sum(got.size());
    std::vector<std::size_t> in, out;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const bool is_in = (subset >> rank & 1) != 0;
      (is_in ? in : out).push_back(rank);
      for (std::size_t i = 0; is_in && i < sum.size(); ++i) sum[i] += gradient.slices[rank][i];
    }
    const auto of_ranks = [](const std::vector<std::size_t>& list) {
      return fmt::format("data rank{} {}", list.size() > 1 ? "s" : "", fmt::join(list, ", "));
    };
    const double missing = residual_of(got, sum, 1.0 / static_cast<double>(ranks));
    const double alone = residual_of(got, sum, 1.0 / static_cast<double>(in.size()));
    if (missing <= most)
      found.push_back(fmt::format("{} missing from the sum over {}: residual {:.0e}", of_ranks(out), ranks, missing));
    if (alone <= most) found.push_back(fmt::format("of {} alone: residual {:.0e}", of_ranks(in), alone));
  }
}

void add_stale(const WrongGradient& gradient, std::span<const double> got, double most,
               std::vector<std::string>& found) {
  if (gradient.of_step_before.size() != got.size()) return;
  if (const double residual = residual_of(got, gradient.of_step_before); residual <= most)
    found.push_back(fmt::format("the gradient of the step before: residual {:.0e}", residual));
}

void add_other_rules(const WrongGradient& gradient, std::span<const double> got, double most,
                     std::vector<std::string>& found) {
  for (const auto& [rule, predicted] : gradient.by_other_rules)
    if (predicted.size() != got.size())
      continue;
    else if (const double residual = residual_of(got, predicted); residual <= most)
      found.push_back(fmt::format("{}: residual {:.0e}", rule, residual));
}

}  // namespace

std::vector<std::pair<std::string, int>> factors_of_step(const job::RunSpec& spec) {
  return {{"data ranks", spec.parallel.data},        {"pipeline ranks", spec.parallel.pipeline},
          {"tensor ranks", spec.parallel.tensor},    {"expert ranks", spec.parallel.expert},
          {"micro-batches", spec.run.micro_batches}, {"accumulated batches", spec.run.accumulation}};
}

std::vector<std::string> hypotheses_of(const WrongGradient& gradient) {
  const std::vector<double> got(gradient.got.begin(), gradient.got.end());
  const double size = product(got, got);
  const bool fits = got.size() == gradient.expected.size() &&
                    std::ranges::all_of(gradient.slices, [&](const auto& slice) { return slice.size() == got.size(); });
  if (!fits || !std::isfinite(size) || size == 0 || product(gradient.expected, gradient.expected) == 0) return {};
  // What explains no more than the expected gradient itself does is no cause.
  const double most = std::min(kResidual, residual_of(got, gradient.expected) / 10);
  std::vector<std::string> found;
  add_factors(gradient, got, most, found);
  add_subsets(gradient, got, most, found);
  add_stale(gradient, got, most, found);
  add_other_rules(gradient, got, most, found);
  return found;
}

}  // namespace plumbline::conformance
