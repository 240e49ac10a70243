// Hollow subjects fail what is not true of them: adapters in the checks of all components, and communicators that skip
// calls in those of collectives. Here each check has few cases; `plumbline mutants --full` runs all of them.
#include "conformance/support/hollow.hpp"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/suite.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "conformance/support/remembering_adapter.hpp"
#include "harness/mutants/hollow.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/mutants/rewritten_adapter.hpp"
#include "harness/suite/adapter_error.hpp"
#include "harness/suite/eligibility.hpp"
#include "harness/suite/skipped.hpp"

namespace plumbline::conformance {

using mutants::Mutant;
using nlohmann::json;

namespace {

const suite::Suite& whole_suite() {
  static const std::unique_ptr<suite::Suite> suite = make_suite();
  return *suite;
}

std::vector<std::string> subjects_of(suite::Door door) {
  std::vector<std::string> names;
  for (const Mutant& subject : mutants::hollow_subjects())
    if (door_of(subject) == door) names.push_back(subject.name);
  return names;
}
std::string short_name(const testing::TestParamInfo<std::string>& info) {
  return info.param.substr(info.param.find('.') + 1);
}

// Cases in which each value of each parameter occurs at least once.
std::vector<const suite::Case*> covering(const std::vector<const suite::Case*>& cases) {
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<const suite::Case*> chosen;
  for (const suite::Case* one : cases) {
    bool is_new = chosen.empty();
    for (const auto& parameter : one->parameters.all()) is_new = seen.insert(parameter).second || is_new;
    if (is_new) chosen.push_back(one);
  }
  return chosen;
}

// By check, without the large ones: few that cover the values of the parameters.
using CasesOfCheck = std::map<std::string, std::vector<const suite::Case*>>;
CasesOfCheck cases_where(const std::function<bool(const suite::Case&)>& holds) {
  CasesOfCheck cases;
  for (const suite::Case& one : whole_suite().cases())
    if (holds(one) && !is_large(one)) cases[one.check->id].push_back(&one);
  for (auto& [check, of_check] : cases) of_check = covering(of_check);
  return cases;
}
const CasesOfCheck& adapter_cases() {
  static const CasesOfCheck cases =
      cases_where([](const suite::Case& one) { return one.check->door == suite::Door::adapter; });
  return cases;
}

TEST(HollowTruths, NameSubjectsAndRequirementsThatExist) {
  for (const auto& [subject, truths] : whole_suite().hollow_truths) {
    EXPECT_NO_THROW((void)mutants::find_mutant(whole_suite(), subject)) << subject;
    for (const auto& [requirement, reason] : truths)
      EXPECT_NE(whole_suite().requirements.find(requirement), nullptr) << requirement << " of " << subject;
  }
}

// ---- adapters ----

RememberingAdapter& reference() {
  static RememberingAdapter adapter(reference_adapter());
  return adapter;
}

// Ends a case that asks many questions, as one that found nothing, where the subject has so far answered as the right
// one does.
class Impatient final : public suite::Adapter {
 public:
  explicit Impatient(suite::Adapter& inner) : inner_(inner) {}
  json ask(const std::string& op, const json& args) override {
    constexpr int kMost = 50;
    if (++asked_ > kMost && mutants::hollow_deviations() == before_) throw suite::Skipped{"enough"};
    return inner_.ask(op, args);
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return inner_.operations(); }
  [[nodiscard]] json claims() const override { return inner_.claims(); }

 private:
  suite::Adapter& inner_;
  const std::uint64_t before_ = mutants::hollow_deviations();
  int asked_ = 0;
};

// As far as a hollow subject that answers rightly is asked; the tests of components ask it all cases to their end.
TEST(Reference, PassesACaseOfEachCheckThatHollowAdaptersMeet) {
  for (const auto& [check, cases] : adapter_cases()) {
    Impatient impatient(reference());
    EXPECT_THAT(run_in_process(*cases.front(), impatient), testing::IsEmpty()) << cases.front()->id();
  }
}

class HollowAdapters : public testing::TestWithParam<std::string> {};

TEST_P(HollowAdapters, PassOnlyWhatIsTrueOfThem) {
  const Mutant& subject = mutants::find_mutant(whole_suite(), GetParam());
  const auto& make = std::get<mutants::MakeRewrite>(subject.change);
  mutants::HollowMatrix matrix(whole_suite().hollow_truths);
  for (const auto& [check, cases] : adapter_cases())
    for (std::uint64_t seed = 1; (seed - 1) * cases.size() < mutants::hollow_draws(subject); ++seed)
      meet_hollow(
          GetParam(), whole_suite(), cases,
          [&](const suite::Case& one) {
            mutants::RewrittenAdapter adapter(reference(), make(reference(), seed));
            Impatient impatient(adapter);
            return run_in_process(one, impatient);
          },
          matrix);
  expect_truths_alone(matrix);
}
INSTANTIATE_TEST_SUITE_P(Of, HollowAdapters, testing::ValuesIn(subjects_of(suite::Door::adapter)), short_name);

// That a case passes without all that it does not declare, claims_test shows.
TEST(PartialAdapters, SkipWhatNamesTheOperationThatTheyLack) {
  for (const std::string& lacks : reference_adapter().operations()) {
    auto operations = reference_adapter().operations();
    operations.erase(lacks);
    for (const auto& [check, cases] : adapter_cases()) {
      const suite::Case& one = *cases.front();
      const auto lack = suite::lacking(whole_suite(), {}, one, {{"operations", operations}});
      EXPECT_EQ(lack.has_value(), std::ranges::count(one.operations(), lacks) > 0) << one.id() << " without " << lacks;
    }
  }
}

// ---- backends ----

class HollowBackends : public testing::TestWithParam<std::string> {};

TEST_P(HollowBackends, PassOnlyWhatIsTrueOfThem) {
  // Alone, a rank may have nothing to move.
  static const CasesOfCheck all = cases_where([](const suite::Case& one) {
    return one.check->door == suite::Door::backend && one.component() == "collectives" && !one.check->on_device &&
           !one.parameters.has("gib") && (one.world() == 2 || one.world() == 3);
  });
  const auto& wrap = std::get<mutants::Wrap>(mutants::find_mutant(whole_suite(), GetParam()).change);
  mutants::HollowMatrix matrix(whole_suite().hollow_truths);
  for (const auto& [check, cases] : all)
    meet_hollow(
        GetParam(), whole_suite(), cases, [&](const suite::Case& one) { return run_in_process(one, wrap); }, matrix);
  expect_truths_alone(matrix);
}
INSTANTIATE_TEST_SUITE_P(Of, HollowBackends, testing::ValuesIn(subjects_of(suite::Door::backend)), short_name);

}  // namespace
}  // namespace plumbline::conformance
