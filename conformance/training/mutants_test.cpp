// Each mutant of training is found where it shows, by the requirement that it violates, and not where it hides.
#include "harness/mutants/mutants.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/training/averaging/averaging_checks.hpp"
#include "conformance/training/in_process.hpp"
#include "conformance/training/training_checks.hpp"
#include "harness/suite/suite.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

using mutants::Mutant;

const suite::Case& case_named(const std::string& id) {
  static const suite::Suite suite = [] {
    suite::Suite made;
    add_training_checks(made);
    add_averaging_checks(made);
    return made;
  }();
  const auto found = std::ranges::find(suite.cases(), id, &suite::Case::id);
  if (found == suite.cases().end()) throw NotFound("no case " + id);
  return *found;
}

class TrainingMutant : public testing::TestWithParam<std::string> {
 protected:
  const Mutant& mutant() const { return mutants::find_mutant(GetParam()); }
  std::string failures_at(const std::string& id) const {
    if (const auto* rewrite = std::get_if<mutants::ChangeRecord>(&mutant().change))
      return failures_of(case_named(id), {.rewrite = *rewrite});
    if (const auto* wrap = std::get_if<mutants::WrapRuntime>(&mutant().change))
      return failures_of(case_named(id), {.runtime = *wrap});
    return failures_of(case_named(id), {.steps = std::get<mutants::MakeSteps>(mutant().change)});
  }
};

TEST_P(TrainingMutant, FailsWhereItShowsByWhatItViolates) {
  EXPECT_THAT(failures_at(mutant().shows), testing::HasSubstr(mutant().violates + ": ")) << mutant().what;
}

TEST_P(TrainingMutant, PassesWhereItHides) {
  if (mutant().hides.empty()) {
    EXPECT_FALSE(mutant().why_hides.empty());
    return;
  }
  EXPECT_EQ(failures_at(mutant().hides), "") << mutant().why_hides;
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Mutant& mutant : mutants::all_mutants())
    if (mutant.violates.starts_with("TRAIN-") || mutant.shows.starts_with("scaler.training."))
      list.push_back(mutant.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Mutants, TrainingMutant, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace plumbline::conformance
