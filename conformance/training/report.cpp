#include "conformance/training/report.hpp"

#include <map>

#include <gtest/gtest.h>

namespace plumbline::conformance {

void report(const std::vector<Finding>& findings) {
  constexpr int shown = 4;
  std::map<std::string, int> count;
  for (const Finding& finding : findings)
    if (++count[finding.requirement] <= shown) ADD_FAILURE() << text_of(finding);
  for (const auto& [requirement, number] : count)
    if (number > shown) ADD_FAILURE() << requirement << ": " << number - shown << " more findings";
}

std::vector<std::string> cited(std::initializer_list<std::string_view> citations) {
  return {citations.begin(), citations.end()};
}

}  // namespace plumbline::conformance
