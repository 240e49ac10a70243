// conformance/training/report.hpp: what the checks of component "training" share: findings as failures, citations.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/training/finding.hpp"

namespace plumbline::conformance {

/// Fails the check that runs, once for each of the first findings of each requirement: the rest says the same.
void report(const std::vector<Finding>& findings);

/// Citations as a check takes them.
[[nodiscard]] std::vector<std::string> cited(std::initializer_list<std::string_view> citations);

}  // namespace plumbline::conformance
