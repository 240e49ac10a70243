#include "conformance/training/finding.hpp"

#include <fmt/format.h>

namespace plumbline::conformance {
namespace {

// 17 digits tell any two values apart.
std::string digits(double value) { return fmt::format("{:.17g}", value); }

}  // namespace

std::string text_of(const Finding& finding) {
  std::string place;
  const auto add = [&place](const std::string& part) { place += (place.empty() ? "" : ", ") + part; };
  if (finding.step >= 0) add(fmt::format("step {}", finding.step));
  if (finding.rank >= 0) add(fmt::format("rank {}", finding.rank));
  if (!finding.parameter.empty())
    add(finding.index >= 0 ? fmt::format("{}[{}]", finding.parameter, finding.index) : finding.parameter);
  std::string text = fmt::format("{}: {}{}{}", finding.requirement, place, place.empty() ? "" : ": ", finding.what);
  if (finding.index < 0) return text;
  text += fmt::format(": expected {}, got {}, ", digits(finding.expected), digits(finding.got));
  text += finding.bound == 0 ? "the bits must be equal" : fmt::format("bound {:.3g}", finding.bound);
  return text + fmt::format(" ({} of {} elements)", finding.wrong, finding.elements);
}

suite::Finding reported(const Finding& finding) {
  suite::Finding out{.text = text_of(finding), .requirement = finding.requirement, .rank = finding.rank};
  if (finding.index < 0) return out;
  out.expected = digits(finding.expected);
  out.got = digits(finding.got);
  out.bound = fmt::format("{:.3g}", finding.bound);
  return out;
}

}  // namespace plumbline::conformance
