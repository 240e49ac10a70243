#include "conformance/support/hollow.hpp"

#include <iostream>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/mutants/hollow.hpp"

namespace plumbline::conformance {

namespace {

std::set<std::string> verified_ids(const suite::Check& check) {
  std::set<std::string> ids;
  for (const std::string& citation : check.verifies) ids.emplace(suite::id_of_citation(citation));
  return ids;
}

// Stricter than the harness, which holds all requirements of a check for violated once one failure names none: a
// failure that names a requirement of the check is of that one alone, and one without a name, such as an answer in
// another form, is only of a check's one requirement: it does not show that the check judges each of several. What no
// assertion found, such as a question left unasked, violates none.
std::set<std::string> violated_by(const suite::Check& check, const std::vector<Failure>& failures) {
  static const std::regex pattern("(^|\n|: )([A-Z]+-[0-9]{3}): ");
  std::set<std::string> ids;
  for (const Failure& failure : failures) {
    if (failure.uncaught) continue;
    std::smatch match;
    if (std::regex_search(failure.text, match, pattern))
      ids.insert(match[2].str());
    else if (check.verifies.size() == 1)
      ids.merge(verified_ids(check));
  }
  return ids;
}

}  // namespace

void meet_hollow(const std::string& subject, const suite::Suite& suite, const std::vector<const suite::Case*>& cases,
                 const RunHollow& run, mutants::HollowMatrix& matrix) {
  for (const suite::Case* one : cases) {
    std::set<std::string> open = verified_ids(*one->check);
    std::erase_if(open, [&](const std::string& id) { return matrix.is_decided(subject, id); });
    if (open.empty()) continue;
    const std::uint64_t before = mutants::hollow_deviations();
    const auto failures = run(*one);
    const bool deviated = mutants::hollow_deviations() != before;
    if (one->check->door == suite::Door::adapter) {  // a backend's exceptions end the rank's body
      EXPECT_THAT(failures, testing::Each(testing::Field(&Failure::uncaught, false))) << subject << " in " << one->id();
    }
    const std::set<std::string> violated = violated_by(*one->check, failures);
    for (const std::string& id : open)
      matrix.add(subject, suite.requirements.find(id)->component, id, deviated, violated.contains(id));
  }
}

void expect_truths_alone(const mutants::HollowMatrix& matrix) {
  const auto rows = matrix.rows();
  std::cout << mutants::to_markdown(rows);
  for (const mutants::HollowRow& row : rows) {
    for (const std::string& id : row.unexplained)
      ADD_FAILURE() << id << " passes on " << row.subject << ": its check judges nothing, or conformance/"
                    << row.component << "/hollow.toml lacks the reason";
    for (const auto& [id, reason] : row.in_vain)
      ADD_FAILURE() << id << " fails on " << row.subject << ", so hollow.toml lists it in vain: " << reason;
    for (const std::string& id : row.unmet)
      EXPECT_EQ(matrix.reason_of(row.subject, id), nullptr)
          << id << " does not meet " << row.subject << ", so hollow.toml lists it in vain";
  }
}

}  // namespace plumbline::conformance
