#include "conformance/training/report.hpp"

#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace plumbline::conformance {

void report(const std::vector<Finding>& findings) {
  constexpr int shown = 4;
  std::map<std::string, int> count;
  const auto fail = [](const suite::Finding& finding) {
    const suite::Reporting reporting(finding);
    ADD_FAILURE() << finding.text;
  };
  for (const Finding& finding : findings)
    if (++count[finding.requirement] <= shown) fail(reported(finding));
  for (const auto& [requirement, number] : count)
    if (number > shown)
      fail({.text = fmt::format("{}: {} more findings", requirement, number - shown), .requirement = requirement});
}

std::vector<std::string> cited(std::initializer_list<std::string_view> citations) {
  return {citations.begin(), citations.end()};
}

}  // namespace plumbline::conformance
