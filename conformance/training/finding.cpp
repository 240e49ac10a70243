#include "conformance/training/finding.hpp"

#include <fmt/format.h>

namespace plumbline::conformance {

std::string text_of(const Finding& finding) {
  std::string place;
  const auto add = [&place](const std::string& part) { place += (place.empty() ? "" : ", ") + part; };
  if (finding.step >= 0) add(fmt::format("step {}", finding.step));
  if (finding.rank >= 0) add(fmt::format("rank {}", finding.rank));
  if (!finding.parameter.empty())
    add(finding.index >= 0 ? fmt::format("{}[{}]", finding.parameter, finding.index) : finding.parameter);
  std::string text = fmt::format("{}: {}{}{}", finding.requirement, place, place.empty() ? "" : ": ", finding.what);
  if (finding.index < 0) return text;
  // 17 digits tell any two values apart.
  text += fmt::format(": expected {:.17g}, got {:.17g}, ", finding.expected, finding.got);
  text += finding.bound == 0 ? "the bits must be equal" : fmt::format("bound {:.3g}", finding.bound);
  return text + fmt::format(" ({} of {} elements)", finding.wrong, finding.elements);
}

}  // namespace plumbline::conformance
