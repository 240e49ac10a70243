// The suite is consistent: requirements, checks, mutants and profiles know each other.
#include "conformance/suite.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/mutants/evidence.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/subject/known_subjects.hpp"

namespace plumbline::conformance {
namespace {

using mutants::Mutant;
using testing::IsEmpty;

const suite::Suite& whole_suite() {
  static const std::unique_ptr<suite::Suite> suite = make_suite();
  return *suite;
}

const suite::Case* case_named(const std::string& id) {
  static const auto cases = [] {
    std::map<std::string, const suite::Case*> all;
    for (const suite::Case& one : whole_suite().cases()) all.emplace(one.id(), &one);
    return all;
  }();
  const auto found = cases.find(id);
  return found == cases.end() ? nullptr : found->second;
}

TEST(Suite, HasNoProblems) { EXPECT_THAT(whole_suite().problems(), IsEmpty()); }

// A list that changes needs a line in CHANGELOG.md: claims are held to it. What all profiles have, "full", is in those
// of the others.
TEST(Suite, MustPassListsAreThoseOfTheProfiles) {
  std::set<std::string> listed, full;
  for (const suite::Profile& profile : whole_suite().profiles()) {
    std::string expected;
    for (const auto& [id, requirement] : whole_suite().requirements.rows())
      if (requirement.level == suite::Level::must && whole_suite().belongs(requirement, profile)) {
        expected += requirement.citation() + "\n";
        (profile.name == "full" ? full : listed).insert(requirement.citation());
      }
    if (profile.name == "full") continue;
    const std::string name = profile.name + "-" + profile.version + ".txt";
    std::ifstream file(std::filesystem::path(PLUMBLINE_MUST_PASS) / name);
    const std::string list{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(list, expected) << "make it again: plumbline requirements --profile " << profile.name
                              << " --format must-pass > conformance/mustpass/" << name;
  }
  EXPECT_EQ(full, listed);
}

TEST(Suite, FindsAMutantWithoutMakingAll) {
  const std::unique_ptr<suite::Suite> fresh = make_suite();
  for (const char* name : {"col.drop_last_element", "amp.below_min"}) {
    const Mutant *found = fresh->find_mutant(name), &made = mutants::find_mutant(whole_suite(), name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->violates, made.violates);
    EXPECT_EQ(door_of(*found), door_of(made));
    EXPECT_EQ(fresh->find_mutant(name), found);
  }
  EXPECT_EQ(fresh->find_mutant("col.drop_last"), nullptr);
}

// ---- checks that test nobody ----

using Coverage = std::function<std::vector<std::string>(const suite::Suite&)>;

std::vector<std::string> coverage(const suite::Suite& one) {
  return suite::dead_checks(one, subject::known_subjects());
}

// har.dead_check: coverage that looks at citations alone, so that a check that everybody skips counts as one that is
// there.
std::vector<std::string> coverage_without_skips(const suite::Suite& one) { return one.problems(); }

// The whole suite with one check more of a door, which needs what nobody has.
std::vector<std::string> said_of_a_dead_check(const Coverage& said, suite::Check dead) {
  const std::unique_ptr<suite::Suite> planted = make_suite();
  const std::vector<std::string> before = said(*planted);
  dead.id = "planted.dead";
  dead.verifies = {planted->requirements.find("COLL-001")->citation()};
  planted->add(std::move(dead));
  std::vector<std::string> after;
  for (const std::string& line : said(*planted))
    if (std::ranges::count(before, line) == 0 && line.find("on no known subject") != std::string::npos)
      after.push_back(line);
  return after;
}

suite::Check of_no_adapter() { return {.door = suite::Door::adapter, .operations = {"nobody.answers"}}; }
suite::Check of_no_dtype() { return {.axes = {{"dtype", {"f8"}}, suite::worlds({2, 3})}}; }

// HARNESS-003@431a
TEST(Suite, HasNoCheckThatEveryKnownSubjectSkips) {
  EXPECT_THAT(coverage(whole_suite()), IsEmpty());
  EXPECT_THAT(said_of_a_dead_check(coverage, of_no_adapter()),
              testing::ElementsAre("check planted.dead runs on no known subject: adapter reference lacks operation "
                                   "nobody.answers"));
  EXPECT_THAT(said_of_a_dead_check(coverage, of_no_dtype()),
              testing::ElementsAre("check planted.dead runs on no known subject: backend local lacks dtype f8, backend "
                                   "local on emulated devices lacks dtype f8"));
  EXPECT_THAT(said_of_a_dead_check(coverage, {.axes = {{"dtype", {"f8", "f32"}}, suite::worlds({2, 3})}}), IsEmpty())
      << "some of its cases run";
  EXPECT_THAT(said_of_a_dead_check(coverage_without_skips, of_no_adapter()), IsEmpty()) << "har.dead_check is found";
}

TEST(Suite, NamesTheSourcesOfEveryRequirement) {
  for (const auto& [id, requirement] : whole_suite().requirements.rows()) {
    EXPECT_THAT(requirement.sources, testing::Not(IsEmpty())) << id;
    EXPECT_THAT(requirement.tags, testing::Not(IsEmpty())) << id;
    EXPECT_THAT(requirement.since, testing::AnyOf("0.1", "0.2")) << id;
  }
}

TEST(Suite, KnowsEveryRealBugThatIsASource) {
  const auto known = [](const std::string& source) {
    const auto bug = suite::bug_in(source);
    return !bug || whole_suite().bugs.contains(*bug);
  };
  for (const auto& [id, requirement] : whole_suite().requirements.rows())
    for (const std::string& source : requirement.sources) EXPECT_TRUE(known(source)) << id << ": " << source;
  for (const Mutant& mutant : whole_suite().mutants()) EXPECT_TRUE(known(mutant.source)) << mutant.name;
}

// Rows of collectives, reductions, groups, topologies, schedules and buckets that the suite is built against.
TEST(Suite, HasAMutantForEachRowOfTheCatalogue) {
  for (const char* row :
       {"AMP-01",  "AMP-02",  "AMP-03",  "AMP-04",  "AMP-05",  "AMP-06",  "AMP-07",  "AMP-08",  "AMP-09",  "AMP-10",
        "AMP-11",  "AMP-12",  "BKT-01",  "BKT-02",  "BKT-03",  "BKT-04",  "BKT-05",  "BKT-06",  "BKT-07",  "BKT-08",
        "BKT-09",  "BKT-10",  "BKT-11",  "BKT-12",  "BKT-13",  "BKT-14",  "BKT-15",  "BKT-16",  "BKT-17",  "BKT-18",
        "BKT-19",  "BKT-20",  "CLP-01",  "CLP-02",  "CLP-03",  "CLP-04",  "CLP-05",  "CLP-06",  "CLP-07",  "CLP-08",
        "COL-01",  "COL-02",  "COL-03",  "COL-04",  "COL-05",  "COL-06",  "COL-07",  "COL-08",  "COL-09",  "COL-10",
        "GOS-01",  "GOS-02",  "GOS-03",  "GOS-04",  "GOS-05",  "GOS-06",  "GOS-07",  "GRP-01",  "GRP-02",  "GRP-03",
        "GRP-04",  "GRP-05",  "GRP-06",  "GRP-07",  "GRP-08",  "GRP-09",  "GRP-10",  "GRP-11",  "GRP-12",  "OVL-01",
        "OVL-02",  "OVL-03",  "OVL-04",  "OVL-05",  "OVL-07",  "OVL-09",  "P2P-01",  "P2P-02",  "P2P-03",  "P2P-04",
        "P2P-05",  "P2P-06",  "P2P-07",  "P2P-08",  "PIPE-01", "PIPE-02", "PIPE-03", "PIPE-04", "PIPE-05", "PIPE-06",
        "PIPE-07", "PIPE-08", "PIPE-09", "PIPE-10", "PIPE-12", "PIPE-13", "PIPE-15", "PIPE-16", "PIPE-17", "PIPE-18",
        "PIPE-20", "PIPE-22", "RED-01",  "RED-02",  "RED-04",  "RED-05",  "RED-06",  "RED-07",  "RED-08",  "RED-09",
        "RED-10",  "RED-11",  "RED-12",  "REF-01",  "REF-02",  "REF-03",  "REF-04",  "REF-05",  "REF-09",  "REF-10",
        "REF-11",  "SLO-01",  "SLO-02",  "SLO-03",  "SLO-04",  "SLO-05",  "SLO-06",  "TIE-01",  "TIE-03",  "TIE-05",
        "TIE-06",  "TOP-06",  "TOP-07",  "TOP-08",  "TOP-09",  "TOP-10",  "TOP-11",  "TOP-12"})
    EXPECT_TRUE(std::ranges::any_of(whole_suite().mutants(), [&](const Mutant& mutant) {
      return mutant.source.find(row) != std::string::npos;
    })) << row;
}

TEST(Suite, HasAMutantOfEachRequirement) {
  for (const auto& [id, requirement] : whole_suite().requirements.rows()) {
    EXPECT_THAT(mutants::mutants_of(whole_suite(), requirement), testing::Not(IsEmpty())) << id;
    EXPECT_THAT(mutants::checks_of(whole_suite(), requirement), testing::Not(IsEmpty())) << id;
    EXPECT_THAT(mutants::mutants_of(whole_suite(), requirement), testing::IsSupersetOf(requirement.mutants)) << id;
  }
  for (const Mutant& mutant : whole_suite().mutants())
    EXPECT_NE(whole_suite().requirements.find(mutant.violates), nullptr)
        << mutant.violates << " is violated by " << mutant.name;
}

bool verifies(const suite::Case& one, const std::string& requirement) {
  const auto verified = whole_suite().verified_by(*one.check);
  return std::ranges::any_of(verified, [&](const suite::Requirement* each) { return each->id == requirement; });
}

// Mutants of which no case that judges their requirement can hide them, and why.
const std::map<std::string, std::string> kHiddenElsewhere{
    {"train.before_taken_late", "all runs that are judged step by step have several steps"},
    {"train.stuck_loader", "all runs that are to learn are long"},
    {"pipe.evaluated_in_reverse", "all evaluations have several micro-batches"},
    {"bkt.delayed_first", "all steps that leave gradients alone have several buckets"},
    {"ovl.early_reuse", "all cases that judge numbers have reductions under way beside each other"},
    {"pass.every_optimizer_rescales", "all programs that are analysed are compared whole"},
    {"pass.race_reads_conflict", "random programs of every kind read something twice"},
    {"pass.race_write_after_read_unordered", "random programs of every kind write what was read before"},
    {"gos.callers_fault", "all gossip that is judged for its callers' faults has some"},
    {"gos.starts_above_zero", "all simulations whose values are judged begin with them"},
    {"gos.takes_fewer_tensors", "all groups of tensors that must be rejected are"},
    {"gos.weight_under_way", "all weights that are asked for early are asked for while a round is under way"},
    {"slo.steps_below_zero", "all checkpoints of counts below 0 must be rejected"},
    {"gos.mixes_unconfirmed", "all values that are confirmed piece by piece have several pieces"},
    {"gos.device_unserved", "all refusals of a communicator are of one that does not take the memory"},
    {"slo.looks_at_groups_late", "all optimizers whose tensors are somewhere else are refused"},
    {"slo.halves_added_first", "all averages of 16 bits that are judged for their range are of large values"},
    {"slo.never_stages", "all steps by way of the host are over a wire that takes no other memory"},
    {"slo.takes_another_device", "all refusals are asked in one case"},
    {"slo.stages_unasked", "all refusals of a communicator are of one that does not take the memory"},
    {"train.gossip_overwrites_masters", "all runs whose masters are judged have some"},
    {"train.mean_of_rank_means", "all runs of rows with weights on several data ranks show it"},
    {"train.loss_over_all_rows", "all runs of rows with weights show it"},
    {"train.checkpoint_beside_gossip", "all runs that are saved while a round is under way lag"},
    {"pass.race_names_no_gradient", "all programs that are reduced too early must be refused with the gradient's name"},
    {"pass.run_members_overlap", "all runs of fused variables have several members"},
};

// A mutant that hides where its requirement is not asked says nothing of the reason that it gives. Communicators are
// left out: theirs mostly hide in checks of other requirements, which shows that their own check is needed.
TEST(Suite, HidesMutantsWhereTheirRequirementIsJudged) {
  for (const Mutant& mutant : whole_suite().mutants()) {
    if (mutant.hides.empty() || std::holds_alternative<mutants::Wrap>(mutant.change) ||
        std::holds_alternative<mutants::WrapRuntime>(mutant.change))
      continue;
    const suite::Case* hides = case_named(mutant.hides);
    ASSERT_NE(hides, nullptr) << mutant.name;
    EXPECT_NE(verifies(*hides, mutant.violates), kHiddenElsewhere.contains(mutant.name))
        << mutant.name << " violates " << mutant.violates << " and hides at " << mutant.hides;
  }
  for (const auto& [name, reason] : kHiddenElsewhere) {
    EXPECT_NO_THROW((void)mutants::find_mutant(whole_suite(), name));
    EXPECT_FALSE(reason.empty()) << name;
  }
}

TEST(Suite, HasTheCasesWhereMutantsShowAndHide) {
  for (const Mutant& mutant : whole_suite().mutants()) {
    const suite::Case* shows = case_named(mutant.shows);
    ASSERT_NE(shows, nullptr) << mutant.name << " shows at " << mutant.shows;
    EXPECT_TRUE(verifies(*shows, mutant.violates))
        << mutant.shows << " does not verify " << mutant.violates << ", which " << mutant.name << " violates";
    EXPECT_TRUE(mutant.hides.empty() || case_named(mutant.hides) != nullptr)
        << mutant.name << " hides at " << mutant.hides;
    EXPECT_EQ(shows->check->door == suite::Door::adapter, door_of(mutant) == suite::Door::adapter) << mutant.name;
    EXPECT_NE(std::pair(mutant.shows, mutant.shows_arm), std::pair(mutant.hides, mutant.hides_arm)) << mutant.name;
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
    if (one.check->door != suite::Door::adapter && !one.parameters.has("gib") &&  // two ranks fill the memory
        one.check->id != "training.job.repeated")  // more than two addends may be added in several orders
      worlds[one.check].insert(one.ranks());
  for (const auto& [check, sizes] : worlds)
    if (*sizes.rbegin() > 1)  // one rank alone sends nothing
      EXPECT_TRUE(std::ranges::any_of(sizes, [](int size) { return (size & (size - 1)) != 0; })) << check->id;
}

}  // namespace
}  // namespace plumbline::conformance
