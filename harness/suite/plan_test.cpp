// Requirements, selections and plans of a small suite.
#include "harness/suite/plan.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::suite {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing::UnorderedElementsAreArray;

constexpr const char* kRows = R"(component = "toys"
[[requirement]]
id = "TOY-001"
level = "must"
since = "0.1"
text = "A toy does not break."
source = ["a catalogue"]
checks = ["toys.drop"]
mutants = ["toy.brittle"]
tags = ["strength"]
[[requirement]]
id = "TOY-002"
level = "should"
since = "0.1"
text = "A toy is red."
source = ["a paper, section 2"]
checks = ["toys.look"]
mutants = ["toy.green"]
)";

std::unique_ptr<Suite> toys() {
  auto suite = std::make_unique<Suite>();
  suite->add(Profile{.name = "toys", .version = "1", .prefixes = {"TOY"}});
  suite->requirements.add_toml(kRows, "toys.toml");
  suite->add({.id = "toys.drop",
              .verifies = {"TOY-001@" + sentence_hash("A toy does not break.")},
              .axes = {{"height", {"low", "high"}}, worlds({2, 1, 3})},
              .body = [](Context&) {}});
  suite->add({.id = "toys.look",
              .verifies = {"TOY-002@" + sentence_hash("A toy is red.")},
              .axes = {worlds({1, 2})},
              .body = [](Context&) {}});
  return suite;
}

std::vector<std::string> ids(const std::vector<PlannedCase>& plan) {
  std::vector<std::string> list;
  for (const PlannedCase& planned : plan) list.push_back(planned.one->id());
  return list;
}

Selection all(std::vector<std::string> filters = {}) { return {.profile = "toys", .filters = std::move(filters)}; }

TEST(Plan, GoesFromSmallWorldsToLarge) {
  const auto suite = toys();
  EXPECT_THAT(ids(make_plan(*suite, all())),
              ElementsAre("toys.drop[height=low,world=1]", "toys.drop[height=high,world=1]", "toys.look[world=1]",
                          "toys.drop[height=low,world=2]", "toys.drop[height=high,world=2]", "toys.look[world=2]",
                          "toys.drop[height=low,world=3]", "toys.drop[height=high,world=3]"));
}

TEST(Plan, HasWhatIsHugeOnlyWhereItIsAskedFor) {
  const auto suite = toys();
  suite->requirements.add_toml(R"(component = "toys"
[[requirement]]
id = "TOY-003"
level = "must"
since = "0.1"
text = "A toy floats in the sea."
source = ["a catalogue"]
checks = ["toys.float"]
mutants = ["toy.sinks"]
tags = ["huge", "water"]
)",
                               "more.toml");
  suite->add({.id = "toys.float",
              .verifies = {"TOY-003@" + sentence_hash("A toy floats in the sea.")},
              .axes = {worlds({1})},
              .body = [](Context&) {}});
  const auto has_it = [&](std::vector<std::string> filters) {
    const auto plan = ids(make_plan(*suite, all(std::move(filters))));
    return std::ranges::count(plan, "toys.float[world=1]") > 0;
  };
  for (const char* filter : {"tag:huge", "TOY-003", "toys.float", "toys.float*", "toys.float[world=1]"})
    EXPECT_TRUE(has_it({filter})) << filter;
  EXPECT_FALSE(has_it({}));
  for (const char* filter : {"toys.*", "TOY-*", "component:toys", "*"}) EXPECT_FALSE(has_it({filter})) << filter;
  EXPECT_TRUE(has_it({"toy-003"}));
  EXPECT_TRUE(has_it({"Toys.Float[WORLD=1]"}));
  EXPECT_THROW((void)has_it({"toys.f*"}), NotFound);
}

TEST(Plan, SelectsByIdTagSourceAndWorld) {
  const auto suite = toys();
  const auto count = [&](Selection selection) { return make_plan(*suite, selection).size(); };
  EXPECT_EQ(count(all({"TOY-002"})), 2u);
  EXPECT_EQ(count(all({"toys.drop"})), 6u);
  EXPECT_EQ(count(all({"toys.drop[height=low*"})), 3u) << "brackets stand for themselves";
  EXPECT_EQ(count(all({"*height=low*", "toys.look"})), 5u);
  EXPECT_EQ(count(all({"tag:strength"})), 6u);
  EXPECT_EQ(count(all({"source:a paper*"})), 2u);
  EXPECT_EQ(count(all({"component:toys"})), 8u);
  Selection two = all();
  two.worlds = {2};
  EXPECT_EQ(count(two), 3u);
  Selection small = all();
  small.largest_world = 1;
  EXPECT_EQ(count(small), 3u);
}

TEST(Plan, RefusesAFilterThatMatchesNothing) {
  const auto suite = toys();
  EXPECT_THROW((void)make_plan(*suite, all({"TOY-002", "TOY-003"})), NotFound);
  Selection none = all();
  none.worlds = {7};
  EXPECT_THROW((void)make_plan(*suite, none), NotFound);
  EXPECT_THROW((void)make_plan(*suite, {.profile = "games"}), NotFound);
}

// A job's check runs on one rank and is about as many as its program has.
TEST(Plan, SelectsTheCasesOfAJobByTheRanksOfItsProgram) {
  const auto suite = toys();
  suite->add({.id = "toys.race",
              .verifies = {"TOY-001@" + sentence_hash("A toy does not break.")},
              .door = Door::job,
              .axes = {worlds({4, 2, 3})},
              .body = [](Context&) {}});
  Selection jobs = all();
  jobs.door = Door::job;
  const auto plan = make_plan(*suite, jobs);
  EXPECT_THAT(ids(plan), ElementsAre("toys.race[world=2]", "toys.race[world=3]", "toys.race[world=4]"));
  for (const PlannedCase& planned : plan) EXPECT_EQ(planned.one->world(), 1);
  jobs.worlds = {3, 4};
  EXPECT_THAT(ids(make_plan(*suite, jobs)), ElementsAre("toys.race[world=3]", "toys.race[world=4]"));
}

TEST(Plan, NamesTheProfilesThatHaveChecksOfADoor) {
  const auto suite = toys();
  suite->add(Profile{.name = "animals", .version = "1", .prefixes = {"ANIMAL"}});
  const auto refusal = [&](Door door) -> std::string {
    Selection selection{.door = door, .profile = "animals"};
    try {
      (void)make_plan(*suite, selection);
    } catch (const NotFound& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(Door::backend),
            "nothing to run: profile animals has no check of the backend door; --profile toys has");
  EXPECT_EQ(refusal(Door::job), "nothing to run: profile animals has no check of the job door; no profile has");
}

TEST(Plan, RepeatsWithTheNextSeedAndShufflesBySeed) {
  const auto suite = toys();
  Selection twice = all({"TOY-002"});
  twice.repeat = 2;
  twice.seed = 5;
  const auto plan = make_plan(*suite, twice);
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[1].seed, 5u);
  EXPECT_EQ(plan[2].seed, 6u);
  Selection shuffled = all();
  shuffled.shuffle = 3;
  const auto once = ids(make_plan(*suite, shuffled));
  EXPECT_EQ(once, ids(make_plan(*suite, shuffled)));
  EXPECT_THAT(once, UnorderedElementsAreArray(ids(make_plan(*suite, all()))));
}

TEST(Plan, HasAHashOfAllThatIsInIt) {
  const auto suite = toys();
  const auto plan = make_plan(*suite, all());
  const std::string hash = plan_hash("backend local", "0.1", plan);
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(hash, plan_hash("backend local", "0.1", make_plan(*suite, all())));
  EXPECT_NE(hash, plan_hash("backend mpi", "0.1", plan));
  EXPECT_NE(hash, plan_hash("backend local", "0.2", plan));
  Selection other = all();
  other.seed = 2;
  EXPECT_NE(hash, plan_hash("backend local", "0.1", make_plan(*suite, other)));
  EXPECT_NE(hash, plan_hash("backend local", "0.1", make_plan(*suite, all({"TOY-001"}))));
}

TEST(Matches, IdsInAnyCase) {
  EXPECT_TRUE(matches_id("toy-0*", "TOY-001"));
  EXPECT_TRUE(matches_id("Toys.Float[F?=a]", "toys.float[f1=A]"));
  EXPECT_FALSE(matches_id("toy-1*", "TOY-001"));
  EXPECT_FALSE(matches("toy-0*", "TOY-001")) << "other texts keep their case";
}

TEST(Matches, StarAndQuestionMarkOnly) {
  EXPECT_TRUE(matches("a*c", "abbc"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a?c", "abc"));
  EXPECT_TRUE(matches("x[y=1]", "x[y=1]"));
  EXPECT_FALSE(matches("a?c", "ac"));
  EXPECT_FALSE(matches("a", "ab"));
  EXPECT_TRUE(matches("*ab*ab", "abab"));
}

TEST(Suite, SaysWhatIsInconsistent) {
  EXPECT_THAT(toys()->problems(), IsEmpty());
  auto stale = toys();
  stale->add({.id = "toys.stale", .verifies = {"TOY-001@0000"}, .axes = {worlds({1})}, .body = [](Context&) {}});
  EXPECT_THAT(stale->problems(), Contains(HasSubstr("TOY-001@0000")));
  auto unknown = toys();
  unknown->add({.id = "toys.unknown", .verifies = {"TOY-009@1234"}, .axes = {worlds({1})}, .body = [](Context&) {}});
  EXPECT_THAT(unknown->problems(), Contains(HasSubstr("TOY-009")));
  auto idle = toys();
  idle->add({.id = "toys.idle", .axes = {worlds({1})}, .body = [](Context&) {}});
  EXPECT_THAT(idle->problems(), Contains(HasSubstr("toys.idle")));
  auto unproved = toys();
  unproved->requirements.add_toml(R"(component = "toys"
since = "0.1"
[[requirement]]
id = "TOY-003"
level = "may"
text = "A toy sings."
source = ["nobody"]
)",
                                  "more.toml");
  EXPECT_THAT(unproved->problems(), ElementsAre("TOY-003 has no check"));
  EXPECT_EQ(unproved->requirements.find("TOY-003")->since, "0.1");
}

TEST(Requirements, RefuseWhatIsWrongAndSayWhere) {
  const auto words = [](const std::string& text) -> std::string {
    RequirementTable table;
    try {
      table.add_toml(text, "toys.toml");
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(words("component = "), HasSubstr("toys.toml:1"));
  EXPECT_THAT(words(std::string(kRows) + "colour = 1\n"), HasSubstr("colour"));
  EXPECT_THAT(words("component = \"toys\"\nterms = 1\n"), HasSubstr("toys.toml:2:9: 'terms' must be a table"));
  EXPECT_THAT(words("component = \"toys\"\n[terms]\nbox = 1\n"), HasSubstr("toys.toml:3:7: the meaning of 'box'"));
  EXPECT_THAT(words(std::string(kRows) + std::string(kRows).substr(19)), HasSubstr("TOY-001"));
}

TEST(Requirements, AreReadWhenTheyAreAskedFor) {
  RequirementTable table;
  table.add_toml_later(kRows, "toys.toml");
  EXPECT_EQ(table.rows().size(), 2u);
  EXPECT_EQ(table.find("TOY-002")->level, Level::should);
  table.add_toml_later("component = ", "later.toml");
  EXPECT_THAT([&] { (void)table.find("TOY-001"); }, ThrowsMessage<InvalidArgument>(HasSubstr("later.toml:1")));
}

Mutant mutant(const std::string& name) { return {.name = name, .violates = "TOY-001", .shows = "toys.drop[x]"}; }

TEST(Mutants, AreMadeWhenTheyAreAskedFor) {
  const auto suite = toys();
  suite->add({.id = "toys.asked", .door = Door::adapter, .axes = {worlds({1})}, .body = [](Context&) {}});
  int made = 0;
  suite->add([&made] { return ++made, std::vector{mutant("toy.torn"), mutant("toy.lost")}; });
  suite->add_mutants_of_toml(R"([[mutant]]
id = "toy.edited"
violates = "TOY-001"
what = "an edit"
source = "a catalogue"
shows = "toys.asked[world=1]"
because = "it is everywhere"
at = "toys.cpp: drop"
find = "a"
)",
                             "mutants.toml");
  suite->add_mutants_of_toml("not read", "wrong.toml");
  EXPECT_EQ(made, 0);
  const Mutant* const edited = suite->find_mutant("toy.edited");
  ASSERT_NE(edited, nullptr);
  EXPECT_EQ(door_of(*edited), Door::adapter) << "of the check that it shows in";
  EXPECT_EQ(suite->find_mutant("toy.edited"), edited);
  EXPECT_EQ(suite->find_mutant("toy.lost")->name, "toy.lost");
  EXPECT_EQ(suite->find_mutant("toy.green"), nullptr);
  EXPECT_THAT([&] { (void)suite->mutants(); }, ThrowsMessage<InvalidArgument>(HasSubstr("wrong.toml:1")));
}

TEST(Mutants, HaveANameOnce) {
  const auto suite = toys();
  suite->add([] { return std::vector{mutant("toy.torn")}; });
  ASSERT_EQ(suite->mutants().size(), 1u);
  EXPECT_EQ(suite->find_mutant("toy.torn"), suite->mutants().data());
  EXPECT_EQ(suite->find_mutant("toy.lost"), nullptr);
  const auto other = toys();
  for (int time = 0; time < 2; ++time) other->add([] { return std::vector{mutant("toy.torn")}; });
  EXPECT_THAT([&] { (void)other->mutants(); },
              ThrowsMessage<InvalidArgument>(HasSubstr("mutant 'toy.torn' is registered twice")));
}

TEST(Requirements, HaveTheTermsThatOccurInThem) {
  RequirementTable table;
  table.add_toml(R"(component = "toys"
since = "0.1"
[terms]
"box, boxed" = "A case with a lid."
"ring" = "A torus."
"play room" = "Where toys are."
[[requirement]]
id = "TOY-001"
level = "must"
text = "Boxes of a play room MUST NOT bring a `ring_id`, a string or earrings."
[[requirement]]
id = "TOY-002"
level = "must"
text = "A toy MUST be boxed with its key-ring."
)",
                 "toys.toml");
  const auto forms = [&](const char* id) {
    std::vector<std::string> found;
    for (const Term& term : table.terms_in(*table.find(id))) found.push_back(term.forms);
    return found;
  };
  EXPECT_THAT(forms("TOY-001"), ElementsAre("box, boxed", "play room"));
  EXPECT_THAT(forms("TOY-002"), ElementsAre("box, boxed", "ring"));
  ASSERT_EQ(table.terms_of("toys").size(), 3u);
  EXPECT_EQ(table.terms_of("toys").front().meaning, "A case with a lid.");
  EXPECT_TRUE(table.terms_of("games").empty());
}

TEST(Requirements, KeepTheLinesOfAListAlone) {
  RequirementTable table;
  table.add_toml(R"(component = "toys"
since = "0.1"
[[requirement]]
id = "TOY-001"
level = "must"
text = """
A toy MUST NOT break if it is
dropped:
- by
  a child;
  - by a dog.
It may bend,
if it is soft.
"""
)",
                 "toys.toml");
  const std::string& text = table.find("TOY-001")->text;
  EXPECT_EQ(text, "A toy MUST NOT break if it is dropped:\n- by a child;\n- by a dog.\nIt may bend, if it is soft.");
  EXPECT_EQ(with_items_after("<br>", text),
            "A toy MUST NOT break if it is dropped:<br>- by a child;<br>- by a dog.<br>It may bend, if it is soft.");
  EXPECT_EQ(with_items_after("<br>", "A toy MUST NOT break."), "A toy MUST NOT break.");
}

TEST(Requirements, HashTheWordsAndNotTheWhiteSpace) {
  EXPECT_EQ(sentence_hash("a  toy\n is red"), sentence_hash("a toy is red"));
  EXPECT_NE(sentence_hash("a toy is red"), sentence_hash("a toy is rod"));
  EXPECT_EQ(id_of_citation("TOY-001@0a1b"), "TOY-001");
}

}  // namespace
}  // namespace plumbline::suite
