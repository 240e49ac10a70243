// Training records that are hollow fail what is not true of them: the reference's executor on threads, and its record
// changed.
// Here each check has few cases; `plumbline mutants --full` runs all of them.
#include <map>

#include <gtest/gtest.h>

#include "conformance/suite.hpp"
#include "conformance/support/hollow.hpp"
#include "conformance/training/in_process.hpp"
#include "harness/mutants/mutants.hpp"

namespace plumbline::conformance {
namespace {

std::vector<std::string> hollow_records() {
  std::vector<std::string> names;
  for (const mutants::Mutant& subject : mutants::hollow_subjects())
    if (door_of(subject) == suite::Door::job) names.push_back(subject.name);
  return names;
}

class HollowRecords : public testing::TestWithParam<std::string> {};

TEST_P(HollowRecords, PassOnlyWhatIsTrueOfThem) {
  static const std::unique_ptr<suite::Suite> suite = make_suite();
  const auto& change = std::get<mutants::ChangeRecord>(mutants::find_mutant(*suite, GetParam()).change);
  std::map<std::string, std::vector<const suite::Case*>> cases;  // by check
  for (const suite::Case& one : suite->cases())
    if (one.check->door == suite::Door::job) cases[one.check->id].push_back(&one);
  ASSERT_FALSE(cases.empty());
  mutants::HollowMatrix matrix(suite->hollow_truths);
  for (const auto& [check, of_check] : cases)
    meet_hollow(
        GetParam(), *suite, of_check, [&](const suite::Case& one) { return failures_in(one, {.record = change}); },
        matrix);
  expect_truths_alone(matrix);
}
INSTANTIATE_TEST_SUITE_P(Of, HollowRecords, testing::ValuesIn(hollow_records()),
                         [](const auto& info) { return info.param.substr(info.param.find('.') + 1); });

}  // namespace
}  // namespace plumbline::conformance
