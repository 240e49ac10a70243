// Each mutant is found where it shows, and not where it hides: then the checks can fail, and for the reason given.
#include "harness/mutants/mutants.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/in_process.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

using mutants::Mutant;

const suite::Case& case_named(const std::string& id) {
  const auto found = std::ranges::find(collectives().cases(), id, &suite::Case::id);
  if (found == collectives().cases().end()) throw NotFound("no case " + id);
  return *found;
}

class EveryMutant : public testing::TestWithParam<std::string> {
 protected:
  const Mutant& mutant() const { return mutants::find_mutant(GetParam()); }
};

TEST_P(EveryMutant, FailsWhereItShows) {
  // Longer than what the checks allow after a limit, shorter than what a person waits.
  const auto failures = run_in_process(case_named(mutant().shows), mutant().wrap, std::chrono::milliseconds(1300));
  EXPECT_THAT(failures, testing::Not(testing::IsEmpty())) << mutant().what;
  if (!failures.empty()) std::cout << failures.front().substr(0, 300) << '\n';
}

TEST_P(EveryMutant, PassesWhereItHides) {
  if (mutant().hides.empty()) {
    EXPECT_FALSE(mutant().why_hides.empty());
    return;
  }
  EXPECT_THAT(run_in_process(case_named(mutant().hides), mutant().wrap), testing::IsEmpty()) << mutant().why_hides;
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Mutant& mutant : mutants::all_mutants())
    if (mutant.violates.starts_with("COLL-")) list.push_back(mutant.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

TEST(Mutants, AnUnknownNameIsAnsweredWithTheNearest) {
  try {
    (void)mutants::find_mutant("col.leaky_barier");
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no mutant 'col.leaky_barier'; did you mean col.leaky_barrier or "));
  }
}

}  // namespace
}  // namespace plumbline::conformance
