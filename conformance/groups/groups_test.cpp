// Every check of groups on the local backend and the reference's adapter: the reference passes, each mutant is found
// where it shows, and not where it hides.
#include <algorithm>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "conformance/collectives/in_process.hpp"
#include "conformance/groups/groups_checks.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/mutants/rewritten_adapter.hpp"
#include "harness/subject/adapter/client.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

using mutants::Mutant;
using suite::Case;
using suite::Door;

const suite::Suite& groups_suite() {
  static const suite::Suite suite = [] {
    suite::Suite made;
    add_groups_checks(made);
    return made;
  }();
  return suite;
}

const Case& case_named(const std::string& id) {
  const auto found = std::ranges::find(groups_suite().cases(), id, &Case::id);
  if (found == groups_suite().cases().end()) throw NotFound("no case " + id);
  return *found;
}

constexpr auto kPatience = std::chrono::seconds(20);

class EveryWorld : public testing::TestWithParam<int> {};

TEST_P(EveryWorld, PassesOnTheLocalBackend) {
  int cases = 0;
  for (const Case& one : groups_suite().cases()) {
    if (one.check->door != Door::backend || one.world() != GetParam()) continue;
    ++cases;
    EXPECT_THAT(run_in_process(one), testing::IsEmpty()) << one.id();
  }
  EXPECT_GT(cases, 4);
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, EveryWorld, testing::Values(1, 2, 3, 4, 6, 8),
                         [](const auto& info) { return std::to_string(info.param) + "Ranks"; });

TEST(EveryArm, IsPassedWhereGroupsMayDeadlock) {
  for (const char* arm : {"rendezvous", "chaos:3"})
    for (const Case& one : groups_suite().cases()) {
      if (one.check->door != Door::backend || !one.check->deadlock_prone || one.world() != 4) continue;
      EXPECT_THAT(run_in_process(one, {}, kPatience, suite::Arm::parse(arm)), testing::IsEmpty())
          << one.id() << " " << arm;
    }
}

TEST(EveryAnswer, IsTheReferences) {
  const auto reference = subject::open_adapter("reference");
  for (const Case& one : groups_suite().cases()) {
    if (one.check->door != Door::adapter) continue;
    EXPECT_THAT(run_in_process(one, *reference), testing::IsEmpty()) << one.id();
  }
}

// ---- answers of any form ----

/// Answers every question alike.
class OneAnswer final : public suite::Adapter {
 public:
  explicit OneAnswer(nlohmann::json answer) : answer_(std::move(answer)) {}
  nlohmann::json ask(const std::string&, const nlohmann::json&) override { return answer_; }
  [[nodiscard]] const std::set<std::string>& operations() const override { return operations_; }

 private:
  nlohmann::json answer_;
  std::set<std::string> operations_;
};

// Whatever an adapter answers, it is found, and no check falls over it.
TEST(Answers, OfAnotherFormAreFound) {
  for (const char* text : {"null", "7", "\"no\"", "[]", "{}", R"({"groups": 1, "ranks": [], "findings": {}})"}) {
    OneAnswer adapter(nlohmann::json::parse(text));
    for (const Case& one : groups_suite().cases()) {
      if (one.check->door != Door::adapter) continue;
      const auto failures = run_in_process(one, adapter);
      EXPECT_THAT(failures, testing::Not(testing::IsEmpty())) << one.id() << " on " << text;
      EXPECT_THAT(failures, testing::Each(testing::Not(testing::HasSubstr("uncaught exception")))) << one.id();
    }
  }
}

class EveryMutant : public testing::TestWithParam<std::string> {
 protected:
  const Mutant& mutant() const { return mutants::find_mutant(GetParam()); }
  std::vector<std::string> failures_at(const std::string& id, const std::string& arm,
                                       std::chrono::milliseconds patience) const {
    if (const auto* rewrite = std::get_if<mutants::RewriteAnswer>(&mutant().change)) {
      const auto reference = subject::open_adapter("reference");
      mutants::RewrittenAdapter adapter(*reference, *rewrite);
      return run_in_process(case_named(id), adapter);
    }
    return run_in_process(case_named(id), {}, patience, suite::Arm::parse(arm),
                          std::get<mutants::MakeSteps>(mutant().change));
  }
};

TEST_P(EveryMutant, FailsWhereItShows) {
  if (mutant().name == "grp.leak" && mallinfo2().uordblks == 0)
    GTEST_SKIP() << "the allocator, as a sanitizer's, keeps what is freed";
  // Longer than what the checks allow after a limit, shorter than what a person waits.
  const auto failures = failures_at(mutant().shows, mutant().shows_arm, std::chrono::milliseconds(1300));
  EXPECT_THAT(failures, testing::Not(testing::IsEmpty())) << mutant().what;
  if (!failures.empty()) std::cout << failures.front().substr(0, 300) << '\n';
}

TEST_P(EveryMutant, PassesWhereItHides) {
  if (mutant().hides.empty()) {
    EXPECT_FALSE(mutant().why_hides.empty());
    return;
  }
  EXPECT_THAT(failures_at(mutant().hides, mutant().hides_arm, kPatience), testing::IsEmpty()) << mutant().why_hides;
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const Mutant& mutant : mutants::all_mutants())
    if (mutant.violates.starts_with("GROUP-")) list.push_back(mutant.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

}  // namespace
}  // namespace plumbline::conformance
