// What is decided of a case before it runs, and what levels and the machine make of its verdict.
#include "harness/run/case_rules.hpp"

#include <gtest/gtest.h>

namespace plumbline::run {
namespace {

using record::Failure;
using record::RankResult;
using record::Verdict;
using enum record::Verdict;

// ---- before it runs ----

class WithoutARun : public testing::Test {
 protected:
  // What is decided of a case with these parameters, in that mode, over a backend that said this of itself.
  std::string decided(const nlohmann::json& description, const suite::Parameters& parameters = {},
                      suite::ExecutionMode::Kind mode = suite::ExecutionMode::Kind::plain) const {
    const suite::Check check{.id = "toys.drop", .needs = {comm::Capability::groups}, .body = [](suite::Context&) {}};
    const suite::Case one{.check = &check, .parameters = parameters};
    const auto word = word_without_run(suite_, profile_, {.one = &one, .mode = {.kind = mode}}, description, "cpu",
                                       std::uint64_t{3} << 30);
    return word ? std::string(name_of(word->verdict)) + ": " + word->reason : "it runs";
  }
  static nlohmann::json backend(const std::vector<std::string>& claims, bool one_host = true) {
    return {{"capabilities", {{"claims", claims}, {"dtypes", nlohmann::json::array()}}}, {"one_host", one_host}};
  }
  suite::Suite suite_;
  suite::Profile profile_{.name = "toys"};
};

TEST_F(WithoutARun, WhatIsNotClaimedIsSkippedUnlessTheProfileDemandsIt) {
  EXPECT_EQ(decided(backend({"groups"})), "it runs");
  EXPECT_EQ(decided(backend({})), "skip: needs capability groups, which the subject does not claim");
  profile_.mandatory = {"groups"};
  EXPECT_EQ(decided(backend({})), "fail: profile toys demands capability groups, which the subject does not claim");
}

TEST_F(WithoutARun, ACaseIsSkippedForWhichTheMachineHasTooLittleMemory) {
  suite::Parameters small, large;
  small.set("gib", "3");
  large.set("gib", "4");
  EXPECT_EQ(decided(backend({"groups"}), small), "it runs");
  EXPECT_EQ(decided(backend({"groups"}), large), "skip: needs 4 GiB of memory, and 3.0 are available");
}

TEST_F(WithoutARun, OnSeveralHostsNothingRunsUnderRendezvous) {
  constexpr auto kRendezvous = suite::ExecutionMode::Kind::rendezvous;
  EXPECT_EQ(decided(backend({"groups"}, false)), "it runs");
  EXPECT_EQ(decided(backend({"groups"}, true), {}, kRendezvous), "it runs");
  EXPECT_EQ(decided(backend({"groups"}, false), {}, kRendezvous),
            "skip: the rendezvous arm needs all ranks on one host");
}

// ---- levels ----

TEST(Levels, AFailureOfWhatOnlyShouldBeIsAWarning) {
  const suite::Requirement must{.level = suite::Level::must}, should{.level = suite::Level::should},
      may{.level = suite::Level::may};
  struct Row {
    const char* rule;
    Verdict before;
    std::vector<const suite::Requirement*> requirements;
    Verdict after;
  };
  const std::vector<Row> rows{
      {"a must fails", fail, {&must}, fail},
      {"a should warns", fail, {&should}, warn},
      {"also where it is refused", refuse, {&should, &should}, warn},
      {"one must among them fails", fail, {&should, &must}, fail},
      {"what is claimed counts as a must", fail, {&may}, fail},
      {"a crash is never a warning", crash, {&should}, crash},
      {"nor is a hang", hang, {&should}, hang},
      {"a pass passes", pass, {&should}, pass},
      {"of no requirement nothing is said", fail, {}, fail},
  };
  for (const Row& row : rows)
    EXPECT_EQ(name_of(verdict_at_level(row.before, row.requirements)), name_of(row.after)) << row.rule;
}

// ---- the machine ----

TEST(Excuses, AreOfTheMachineAndNotOfTheSubject) {
  const auto with = [](const std::string& message, bool uncaught) {
    return std::vector<RankResult>{
        {.rank = 0, .verdict = fail, .failures = {{.message = message, .uncaught = uncaught}}}};
  };
  struct Row {
    const char* rule;
    Word word;
    std::vector<RankResult> ranks;
    Verdict after;
  };
  const std::vector<Row> rows{
      {"ended from outside",
       {crash, "the process of rank 1 was killed by signal 9 (Killed) before it reported"},
       {},
       error},
      {"by its own fault", {crash, "the process of rank 1 was killed by signal 11 (Segmentation fault)"}, {}, crash},
      {"the program has no memory",
       {fail, "rank 0: uncaught exception: std::bad_alloc"},
       with("uncaught exception: std::bad_alloc", true),
       error},
      {"another rank found something first",
       {fail, "rank 1: it diverges"},
       with("uncaught exception: std::bad_alloc", true),
       fail},
      {"the backend asked for memory in vain",
       {fail, "rank 0: x"},
       with("uncaught exception: all_reduce(sum, f32 x 3): the backend threw std::bad_alloc", true),
       fail},
      {"an assertion that only speaks of it",
       {fail, "rank 0: uncaught exception: std::bad_alloc"},
       with("uncaught exception: std::bad_alloc", false),
       fail},
      {"a failure", {fail, "rank 0: it diverges"}, with("it diverges", false), fail},
      {"a hang", {hang, "no end"}, {}, hang},
  };
  for (const Row& row : rows) {
    const Word after = excused_by_machine(row.word, row.ranks);
    EXPECT_EQ(name_of(after.verdict), name_of(row.after)) << row.rule;
    EXPECT_EQ(after.reason.starts_with(row.word.reason), true) << row.rule;
    EXPECT_EQ(after.reason.find("fewer --steps") != std::string::npos, row.after == error) << row.rule;
  }
}

}  // namespace
}  // namespace plumbline::run
