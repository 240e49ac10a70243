#include "conformance/pass/executing.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/local.hpp"

namespace plumbline::conformance {

using program::Execution;
using program::Program;
using program::Rings;

namespace {

// Factors are float32: a third is, and a division by 3 rounds to the same, up to this.
constexpr double kRoundingOfFactors = 1e-6;

Execution run_of_rank(const Program& program, const Rings& rings, const Comparison& how) {
  program::ExecutionOptions options{.in_double = !how.bit_for_bit};
  options.stands_in_for_peers = std::ranges::any_of(
      program.ops, [](const program::Op& op) { return op.type == "send_v2" || op.type == "recv_v2"; });
  Execution result;
  comm::run_ranks(how.ranks,
                  [&](comm::Communicator& world) {
                    Execution mine =
                        execute(program, program::rings_of_rank(rings, world.rank(), how.ranks), world, options);
                    if (world.rank() == how.rank) result = std::move(mine);
                  },
                  {.cores = 1});  // ranks that wait let others run
  return result;
}

std::string difference_of_values(const std::string& what, const std::vector<double>& before,
                                 const std::vector<double>& after, double tolerance) {
  if (before.size() != after.size())
    return fmt::format("{} has {} elements, then {}", what, before.size(), after.size());
  double largest = 0;
  for (const double value : before) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool is_same = before[i] == after[i] || std::abs(before[i] - after[i]) <= tolerance * largest;
    if (!is_same) return fmt::format("{}[{}] is {}, then {}", what, i, before[i], after[i]);
  }
  return {};
}

}  // namespace

std::string difference_of(const Program& program, const Execution& before, const Execution& after, double tolerance) {
  for (const auto& [parameter, gradient] : before.gradients) {
    const auto found = after.gradients.find(parameter);
    if (found == after.gradients.end()) return fmt::format("'{}' is not updated any more", parameter);
    const std::string words =
        difference_of_values(fmt::format("the gradient of '{}'", parameter), gradient, found->second, tolerance);
    if (!words.empty()) return words;
  }
  for (const auto& [name, variable] : program.variables) {
    if (!variable.persistable || !before.variables.contains(name)) continue;
    const auto found = after.variables.find(name);
    if (found == after.variables.end()) return fmt::format("'{}' is not written any more", name);
    const std::string words =
        difference_of_values(fmt::format("'{}'", name), before.variables.at(name), found->second, tolerance);
    if (!words.empty()) return words;
  }
  return {};
}

std::string difference_in_runs(const Program& before, const Program& after, const Rings& rings, const Comparison& how) {
  return difference_of(before, run_of_rank(before, rings, how), run_of_rank(after, rings, how),
                       how.bit_for_bit ? 0 : kRoundingOfFactors);
}

}  // namespace plumbline::conformance
