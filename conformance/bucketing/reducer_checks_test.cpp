// The checks of the reducer: the reference passes them, each mutant fails where it shows and passes where it hides.
#include "conformance/bucketing/reducer_checks.hpp"

#include <algorithm>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/collectives/in_process.hpp"
#include "harness/mutants/mutants.hpp"
#include "reference/bucketing/gradient_lists.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

using mutants::Mutant;
using testing::IsEmpty;

const suite::Suite& reducers() {
  static const suite::Suite suite = [] {
    suite::Suite made;
    add_reducer_checks(made);
    return made;
  }();
  return suite;
}

const suite::Case& case_named(const std::string& id) {
  const auto found = std::ranges::find(reducers().cases(), id, &suite::Case::id);
  if (found == reducers().cases().end()) throw NotFound("no case " + id);
  return *found;
}

constexpr auto kPatience = std::chrono::seconds(20);

TEST(ReducerChecks, PassOnTheLocalBackend) {
  for (const suite::Case& one : reducers().cases())
    if (one.check->modules.empty()) {
      EXPECT_THAT(run_in_process(one), IsEmpty()) << one.id();
    }
}

TEST(ReducerChecks, PassUnderAnotherTiming) {
  for (const suite::Case& one : reducers().cases())
    if (one.check->deadlock_prone && one.world() == 3) {
      EXPECT_THAT(run_in_process(one, {}, kPatience, suite::Arm::parse("chaos:5")), IsEmpty()) << one.id();
    }
}

class EveryReducerMutant : public testing::TestWithParam<std::string> {
 protected:
  std::vector<std::string> failures_at(const std::string& id, const std::string& arm) const {
    const Mutant& mutant = mutants::find_mutant(GetParam());
    return run_in_process(case_named(id), {}, kPatience, suite::Arm::parse(arm),
                          std::get<mutants::MakeSteps>(mutant.change));
  }
};

TEST_P(EveryReducerMutant, FailsWhereItShowsAndPassesWhereItHides) {
  const Mutant& mutant = mutants::find_mutant(GetParam());
  const auto failures = failures_at(mutant.shows, mutant.shows_arm);
  EXPECT_THAT(failures, testing::Not(IsEmpty())) << mutant.what;
  if (!failures.empty()) std::cout << failures.front().substr(0, 300) << '\n';
  EXPECT_THAT(failures_at(mutant.hides, mutant.hides_arm), IsEmpty()) << mutant.why_hides;
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Mutant& mutant : mutants::all_mutants())
    if (mutant.shows.starts_with("bucketing.reducer.")) list.push_back(mutant.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryReducerMutant, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

TEST(GradientLists, AreThoseOfTheModels) {
  const auto total = [](const std::vector<bucketing::NamedSize>& list) {
    std::int64_t sum = 0;
    for (const auto& one : list) sum += one.elements;
    return sum;
  };
  EXPECT_EQ(bucketing::resnet50_gradients().size(), 161u);
  EXPECT_EQ(total(bucketing::resnet50_gradients()), 25'557'032);
  EXPECT_EQ(bucketing::gpt2_small_gradients().size(), 148u);
  EXPECT_EQ(total(bucketing::gpt2_small_gradients()), 124'439'808);
}

}  // namespace
}  // namespace plumbline::conformance
