// The suite is consistent: requirements, checks, mutants and profiles know each other.
#include "conformance/suite.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/mutants/mutants.hpp"

namespace plumbline::conformance {
namespace {

using mutants::Mutant;
using testing::IsEmpty;

const suite::Suite& whole_suite() {
  static const std::unique_ptr<suite::Suite> suite = make_suite();
  return *suite;
}

const suite::Case* case_named(const std::string& id) {
  const auto found = std::ranges::find(whole_suite().cases(), id, &suite::Case::id);
  return found == whole_suite().cases().end() ? nullptr : &*found;
}

// Requirements of level must that no mutant violates, by id or prefix of ids, and why.
const std::map<std::string, std::string> kWithoutMutant{
    {"COLL-012",
     "the rule stands in front of every backend, in Communicator's own functions, which no decorator can pass"},
    {"COLL-028", "as COLL-012"},
    {"COLL-036", "as COLL-012"},
    {"COLL-060", "a mutant is a communicator, and this is about an adapter's answers"},
    {"TRAIN-", "a mutant is a communicator; wrong training records are planted in the tests of the judge"},
};

bool may_lack_a_mutant(const std::string& id) {
  return std::ranges::any_of(kWithoutMutant, [&](const auto& entry) { return id.starts_with(entry.first); });
}

TEST(Suite, HasNoProblems) { EXPECT_THAT(whole_suite().problems(), IsEmpty()); }

TEST(Suite, NamesTheSourcesOfEveryRequirement) {
  for (const auto& [id, requirement] : whole_suite().requirements.rows()) {
    EXPECT_THAT(requirement.sources, testing::Not(IsEmpty())) << id;
    EXPECT_THAT(requirement.tags, testing::Not(IsEmpty())) << id;
    EXPECT_EQ(requirement.since, "0.1") << id;
  }
}

TEST(Suite, HasAMutantForEveryMust) {
  for (const auto& [id, requirement] : whole_suite().requirements.rows()) {
    if (requirement.level != suite::Level::must) continue;
    EXPECT_NE(requirement.mutants.empty(), !may_lack_a_mutant(id))
        << id << " needs a mutant, or a reason why it has none; not both";
  }
}

TEST(Suite, KnowsTheMutantsOfEachRequirement) {
  std::map<std::string, std::set<std::string>> violating;
  for (const Mutant& mutant : mutants::all_mutants()) violating[mutant.violates].insert(mutant.name);
  for (const auto& [id, requirement] : whole_suite().requirements.rows())
    EXPECT_EQ(std::set<std::string>(requirement.mutants.begin(), requirement.mutants.end()), violating[id]) << id;
  for (const auto& [id, names] : violating)
    EXPECT_NE(whole_suite().requirements.find(id), nullptr) << id << " is violated by " << *names.begin();
}

TEST(Suite, HasTheCasesWhereMutantsShowAndHide) {
  for (const Mutant& mutant : mutants::all_mutants()) {
    const suite::Case* shows = case_named(mutant.shows);
    ASSERT_NE(shows, nullptr) << mutant.name << " shows at " << mutant.shows;
    const auto verified = whole_suite().verified_by(*shows->check);
    EXPECT_TRUE(
        std::ranges::any_of(verified, [&](const suite::Requirement* one) { return one->id == mutant.violates; }))
        << mutant.shows << " does not verify " << mutant.violates << ", which " << mutant.name << " violates";
    EXPECT_TRUE(mutant.hides.empty() || case_named(mutant.hides) != nullptr)
        << mutant.name << " hides at " << mutant.hides;
    EXPECT_FALSE(mutant.why_hides.empty() || mutant.what.empty() || mutant.source.empty()) << mutant.name;
  }
}

TEST(Suite, HasARequirementInEveryProfile) {
  const auto holds = [](const suite::Profile& profile) {
    return std::ranges::any_of(whole_suite().requirements.rows(),
                               [&](const auto& row) { return whole_suite().belongs(row.second, profile); });
  };
  for (const suite::Profile& profile : whole_suite().profiles()) EXPECT_TRUE(holds(profile)) << profile.name;
}

TEST(Suite, RunsAtMoreThanPowersOfTwo) {
  std::map<const suite::Check*, std::set<int>> worlds;
  for (const suite::Case& one : whole_suite().cases())
    if (one.check->door == suite::Door::backend) worlds[one.check].insert(one.world());
  for (const auto& [check, sizes] : worlds)
    EXPECT_TRUE(std::ranges::any_of(sizes, [](int size) { return (size & (size - 1)) != 0; })) << check->id;
}

}  // namespace
}  // namespace plumbline::conformance
