#include "conformance/training/finding.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "harness/suite/requirement.hpp"
#include "reference/record/layout.hpp"

namespace plumbline::conformance {
namespace {

// 17 digits tell any two values apart.
std::string digits(double value) { return fmt::format("{:.17g}", value); }

bool is_of_activation(const Finding& finding) { return finding.parameter.starts_with("activation"); }

// What a wrong activation makes wrong.
bool follows_from_activations(const Finding& finding) {
  using namespace training_requirements;
  return finding.index >= 0 &&
         std::ranges::any_of(std::array{kGradient, kUnionGradient, kWeightedGradient, kLoss, kWeightedLoss, kOwnRows},
                             [&](std::string_view id) { return finding.requirement == suite::id_of_citation(id); });
}

}  // namespace

std::string text_of(const Finding& finding) {
  std::string place;
  const auto add = [&place](const std::string& part) { place += (place.empty() ? "" : ", ") + part; };
  if (finding.step >= 0) add(fmt::format("step {}", finding.step));
  if (finding.rank >= 0) add(fmt::format("rank {}", finding.rank));
  if (!finding.parameter.empty())
    add(finding.index >= 0 ? fmt::format("{}[{}]", finding.parameter, finding.index) : finding.parameter);
  std::string text = fmt::format("{}: {}{}{}", finding.requirement, place, place.empty() ? "" : ": ", finding.what);
  if (finding.index >= 0) {
    text += fmt::format(": expected {}, got {}, ", digits(finding.expected), digits(finding.got));
    text += finding.bound == 0 ? "the bits must be equal" : fmt::format("bound {:.3g}", finding.bound);
    text += fmt::format(" ({} of {} elements)", finding.wrong, finding.elements);
  }
  if (finding.index >= 0 && finding.is_first)
    text += is_of_activation(finding) ? "; the first wrong activation of the run"
                                      : "; the first wrong gradient of the run, in backward order";
  for (const std::string& one : finding.hypotheses) text += "; hypothesis: " + one;
  return text;
}

void mark_first_wrong_gradient(std::vector<Finding>& findings, const job::RunSpec& spec) {
  const std::vector<job::Parameter> parameters = job::parameters_of(spec);
  const auto place_of = [&](const Finding& finding) {
    const auto parameter = std::ranges::find(parameters, finding.parameter, &job::Parameter::name);
    return std::pair(finding.step, parameters.end() - parameter);  // a backward comes to the last parameter first
  };
  auto first = findings.end();
  for (auto one = findings.begin(); one != findings.end(); ++one)
    if (one->requirement == suite::id_of_citation(training_requirements::kGradient) && one->index >= 0 &&
        (first == findings.end() || place_of(*one) < place_of(*first)))
      first = one;
  if (first == findings.end()) return;
  first->is_first = true;
  std::rotate(findings.begin(), first, first + 1);
}

void lead_with_activation(std::vector<Finding>& findings) {
  const auto is_wrong_activation = [](const Finding& finding) {
    return finding.requirement == suite::id_of_citation(training_requirements::kActivations);
  };
  const auto follows = std::ranges::find_if(findings, follows_from_activations);
  std::optional<Finding> first;
  if (follows != findings.end()) {
    // Each step is judged from what it started from: another step's activation can't have made it wrong.
    const auto found = std::ranges::find_if(findings, [&](const Finding& finding) {
      return is_wrong_activation(finding) && finding.index >= 0 && finding.step == follows->step;
    });
    if (found != findings.end()) first = *found;
    if (first) first->requirement = follows->requirement;
  }
  std::erase_if(findings, is_wrong_activation);
  if (!first) return;
  first->is_first = true;
  findings.insert(findings.begin(), *std::move(first));
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
