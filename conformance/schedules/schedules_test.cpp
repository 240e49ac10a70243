// The checks of schedules: the reference passes them, each mutant fails where it shows and passes where it hides.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/collectives/in_process.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/mutants/rewritten_adapter.hpp"
#include "harness/subject/adapter/client.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

using mutants::Mutant;
using testing::IsEmpty;
using testing::Not;

const suite::Suite& schedules() {
  static const suite::Suite suite = [] {
    suite::Suite made;
    add_schedules_checks(made);
    return made;
  }();
  return suite;
}

suite::Adapter& reference() {
  static const std::unique_ptr<suite::Adapter> adapter = subject::open_adapter("reference");
  return *adapter;
}

const suite::Case& case_named(const std::string& id) {
  const auto found = std::ranges::find(schedules().cases(), id, &suite::Case::id);
  if (found == schedules().cases().end()) throw NotFound("no case " + id);
  return *found;
}

constexpr auto kPatience = std::chrono::seconds(20);

TEST(SchedulesChecks, PassOnTheReference) {
  for (const suite::Case& one : schedules().cases()) {
    if (one.check->door != suite::Door::adapter) continue;
    EXPECT_THAT(run_in_process(one, reference()), IsEmpty()) << one.id();
  }
}

TEST(SchedulesChecks, PassOnTheLocalBackend) {
  for (const suite::Case& one : schedules().cases())
    if (one.check->door == suite::Door::backend) {
      EXPECT_THAT(run_in_process(one), IsEmpty()) << one.id();
    }
}

TEST(SchedulesChecks, PassWithoutBuffersWhereRanksMayWaitForEachOther) {
  for (const suite::Case& one : schedules().cases())
    if (one.check->deadlock_prone && one.world() < 4) {
      EXPECT_THAT(run_in_process(one, {}, kPatience, suite::Arm::parse("rendezvous")), IsEmpty()) << one.id();
    }
}

class SchedulesMutant : public testing::TestWithParam<std::string> {
 protected:
  const Mutant& mutant() const { return mutants::find_mutant(GetParam()); }
  std::vector<std::string> failures_at(const std::string& id, const std::string& arm,
                                       std::chrono::milliseconds patience) const {
    if (const auto* rewrite = std::get_if<mutants::RewriteAnswer>(&mutant().change)) {
      mutants::RewrittenAdapter adapter(reference(), *rewrite);
      return run_in_process(case_named(id), adapter);
    }
    return run_in_process(case_named(id), {}, patience, suite::Arm::parse(arm),
                          std::get<mutants::MakeSteps>(mutant().change));
  }
};

TEST_P(SchedulesMutant, FailsWhereItShows) {
  const auto failures = failures_at(mutant().shows, mutant().shows_arm, std::chrono::milliseconds(700));
  ASSERT_THAT(failures, Not(IsEmpty())) << mutant().what;
  if (std::holds_alternative<mutants::RewriteAnswer>(mutant().change)) {
    EXPECT_THAT(failures.front(), Not(testing::HasSubstr("uncaught exception"))) << mutant().what;
  }
}

TEST_P(SchedulesMutant, PassesWhereItHides) {
  if (mutant().hides.empty()) {
    EXPECT_FALSE(mutant().why_hides.empty());
    return;
  }
  EXPECT_THAT(failures_at(mutant().hides, mutant().hides_arm, kPatience), IsEmpty()) << mutant().why_hides;
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Mutant& mutant : mutants::all_mutants())
    if (mutant.violates.starts_with("SCHED-")) list.push_back(mutant.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Mutants, SchedulesMutant, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace plumbline::conformance
