#include "conformance/support/property.hpp"

#include <fmt/format.h>

namespace plumbline::conformance {

int Random::between(int low, int high) {
  // Not uniform_int_distribution, whose numbers differ from library to library. The remainder's bias is below 2^-32.
  const auto span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  return low + static_cast<int>(engine_() % span);
}

std::string text_of(const Counterexample& one) {
  const std::string where = fmt::format("trial {} of {}, seed {}", one.trial, one.trials, one.seed);
  if (one.steps == 0) return fmt::format("{}: {} ({})", one.smallest, one.problem, where);
  return fmt::format("{}: {} (the smallest after {} step{} from {}; {})", one.smallest, one.problem, one.steps,
                     one.steps == 1 ? "" : "s", one.found, where);
}

}  // namespace plumbline::conformance
