#include "reference/groups/lint.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/groups/megatron.hpp"

namespace plumbline::groups {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr auto kAll = CreationRule::all_ranks;
constexpr auto kMembers = CreationRule::members_only;

std::vector<Creation> unnamed(const std::vector<std::vector<int>>& lists) {
  std::vector<Creation> creations;
  for (const auto& ranks : lists) creations.push_back({.mode = "", .ranks = ranks});
  return creations;
}

// What the report says, without warnings: "order 2@1" is an error of that kind at rank 2, creation 1.
std::vector<std::string> lint_errors_of(const LintReport& report) {
  std::vector<std::string> errors;
  for (const Finding& finding : report.findings)
    if (finding.severity == Severity::error)
      errors.push_back(finding.kind + " " + std::to_string(finding.rank) + "@" + std::to_string(finding.sequence));
  return errors;
}
std::vector<std::string> lint_errors_of(const CreationLog& log, CreationRule rule) {
  return lint_errors_of(lint(log, {.rule = rule}));
}

TEST(Lint, APlanThatAllFollowIsFreeOfErrorsUnderBothRules) {
  const Plan plan = megatron_plan(24, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 3});
  const CreationLog log{.creations = std::vector(24, plan.creations)};
  for (const CreationRule rule : {kAll, kMembers}) {
    const LintReport report =
        lint(log, {.rule = rule, .partial_modes = {"EMBEDDING_GROUP", "POSITION_EMBEDDING_GROUP"}});
    EXPECT_THAT(report.findings, IsEmpty());
    EXPECT_TRUE(report.valid());
  }
}

TEST(Lint, TwoRanksInAnotherOrderAreNamedWithBothLists) {
  const auto ab = unnamed({{0, 1, 2}, {0, 1}});
  const auto ba = unnamed({{0, 1}, {0, 1, 2}});
  const LintReport all = lint({.creations = {ab, ab, ba}}, {.rule = kAll});
  EXPECT_THAT(lint_errors_of(all), ElementsAre("order 2@0"));
  EXPECT_EQ(all.findings[0].message, "makes [0 1] where rank 0 makes [0 1 2]");

  const LintReport members = lint({.creations = {ab, ba, ab}}, {.rule = kMembers});
  EXPECT_THAT(lint_errors_of(members), ElementsAre("order 1@0", "order 0@0", "cycle 0@0"));
  EXPECT_EQ(members.findings[0].message,
            "makes [0 1] where rank 0, in its creation 0, waits for it in [0 1 2], which it makes as its creation 1");
  EXPECT_EQ(members.findings[2].message,
            "waits in a cycle: each of ranks [0 1] waits for the next, the last for the first");
}

TEST(Lint, OrdersThatDifferOnRanksThatShareNoGroupDoNotMatterToMembersOnly) {
  const auto ab = unnamed({{0, 1}, {2, 3}});
  const auto ba = unnamed({{2, 3}, {0, 1}});
  const CreationLog log{.creations = {ab, ba, ba, ab}};
  EXPECT_THAT(lint_errors_of(log, kMembers), IsEmpty());
  EXPECT_THAT(lint_errors_of(log, kAll), ElementsAre("order 1@0"));
}

TEST(Lint, ACycleOfThreeGroupsHangsThoughNoPairDisagrees) {
  const CreationLog log{.creations = {unnamed({{0, 1}, {0, 2}}), unnamed({{1, 2}, {0, 1}}), unnamed({{0, 2}, {1, 2}})}};
  const LintReport report = lint(log, {.rule = kMembers});
  EXPECT_FALSE(report.valid());
  EXPECT_THAT(lint_errors_of(report), ElementsAre("order 1@0", "order 2@0", "order 0@0", "cycle 0@0"));
  EXPECT_EQ(report.findings.back().kind, "cycle");
}

TEST(Lint, ARankThatMakesFewerGroupsKeepsTheOthersWaiting) {
  const CreationLog log{.creations = {unnamed({{0, 1}, {0, 1, 2}}), unnamed({{0, 1}}), unnamed({{0, 1}, {0, 1, 2}})}};
  const LintReport all = lint(log, {.rule = kAll});
  EXPECT_THAT(lint_errors_of(all), ElementsAre("missing 1@1"));
  EXPECT_THAT(all.findings[0].message, HasSubstr("makes nothing after 1 creations, where rank 0 waits for all to make "
                                                 "[0 1 2]"));
  const LintReport members = lint(log, {.rule = kMembers});
  EXPECT_THAT(lint_errors_of(members), ElementsAre("missing 1@-1"));
  EXPECT_THAT(members.findings[0].message,
              HasSubstr("rank 0, in its creation 1, waits for it in [0 1 2] (and 1 more)"));
}

TEST(Lint, OwnGroupsAloneAreRightForMembersOnlyAndWrongForAllRanks) {
  const CreationLog log{.creations = {unnamed({{0, 1}}), unnamed({{0, 1}}), unnamed({{2, 3}}), unnamed({{2, 3}})}};
  EXPECT_THAT(lint_errors_of(log, kMembers), IsEmpty());
  EXPECT_THAT(lint_errors_of(log, kAll), ElementsAre("order 2@0"));
}

TEST(Lint, AWaitForAGroupThatAWaitingRankNeverMakesIsNamed) {
  const CreationLog log{.creations = {unnamed({{0, 1}}), unnamed({{1, 2}}), unnamed({{0, 2}, {1, 2}})}};
  EXPECT_THAT(lint_errors_of(log, kMembers), ElementsAre("missing 1@0", "order 2@0", "missing 0@0", "cycle 0@0"));
}

TEST(Lint, TheSameMembersInAnotherOrderMeetButAreReported) {
  const CreationLog log{.creations = {unnamed({{0, 1}}), unnamed({{1, 0}})}};
  for (const CreationRule rule : {kAll, kMembers}) {
    const LintReport report = lint(log, {.rule = rule});
    EXPECT_THAT(lint_errors_of(report), ElementsAre("member_order 1@0"));
    EXPECT_EQ(report.findings[0].message, "gives the members as [1 0], rank 0 in its creation 0 as [0 1]");
  }
}

TEST(Lint, FaultyListsAreReportedOnce) {
  const auto creations = unnamed({{}, {0, 1, 0}, {0, 2}});
  EXPECT_THAT(lint_errors_of({.creations = {creations, creations}}, kAll),
              ElementsAre("empty 0@0", "repeated 0@1", "range 0@2"));
  EXPECT_THAT(lint_errors_of({.creations = {creations, creations}}, kMembers),
              ElementsAre("missing 0@2", "empty 0@0", "repeated 0@1", "range 0@2"));
  const LintReport below = lint({.creations = {unnamed({{0, -1}})}}, {.rule = kMembers});
  EXPECT_THAT(lint_errors_of(below), ElementsAre("missing 0@0", "range 0@0"));
  EXPECT_EQ(below.findings[0].message, "in [0 -1] waits for rank -1, which is not in the world of 1 ranks");
}

TEST(Lint, GroupsOfAModeMustNotShareRanks) {
  const std::vector<Creation> creations{{"DATA", {0, 1}}, {"DATA", {1, 2, 0}}, {"TENSOR", {0, 2}}, {"TENSOR", {1}}};
  const LintReport report = lint({.creations = {creations, creations, creations}});
  EXPECT_THAT(lint_errors_of(report), ElementsAre("overlap 0@1"));
  EXPECT_EQ(report.findings[0].message, "is in two groups of mode 'DATA': [0 1] of its creation 0, and [1 2 0]");
}

TEST(Lint, TheSameGroupOfAModeMayBeMadeAgain) {
  const std::vector<Creation> twice{{"DATA", {0, 1}}, {"DATA", {0, 1}}};
  EXPECT_THAT(lint({.creations = {twice, twice}}).findings, IsEmpty());
  const std::vector<Creation> other{{"DATA", {0, 1}}, {"DATA", {0, 1}}, {"DATA", {0}}};
  EXPECT_THAT(lint_errors_of({.creations = {other, other}}, kAll), ElementsAre("overlap 0@2"));
}

TEST(Lint, RanksThatCallTheirMeetingByTwoNamesHaveCrossedTheirCommunicators) {
  const std::vector<Creation> data_first{{"DATA", {0, 1}}, {"MODEL", {0, 1}}};
  const std::vector<Creation> model_first{{"MODEL", {0, 1}}, {"DATA", {0, 1}}};
  for (const CreationRule rule : {kAll, kMembers}) {
    const LintReport report = lint({.creations = {data_first, model_first}}, {.rule = rule});
    EXPECT_FALSE(report.valid());
    EXPECT_THAT(lint_errors_of(report), ElementsAre("mode 1@0", "mode 1@1"));
    EXPECT_EQ(report.findings[0].message, "calls [0 1] 'MODEL', rank 0 in its creation 0 calls it 'DATA'");
  }
}

TEST(Lint, NamesAreComparedAlsoWhereTheFirstRankGivesNone) {
  const CreationLog log{.creations = {{{"", {0, 1, 2}}}, {{"DATA", {0, 1, 2}}}, {{"MODEL", {0, 1, 2}}}}};
  for (const CreationRule rule : {kAll, kMembers}) {
    const LintReport report = lint(log, {.rule = rule});
    EXPECT_THAT(lint_errors_of(report), ElementsAre("mode 2@0"));
    EXPECT_EQ(report.findings[0].severity, Severity::warning);
    EXPECT_EQ(report.findings[0].message, "gives [0 1 2] no name, rank 1 in its creation 0 calls it 'DATA'");
  }
}

TEST(Lint, AGroupMadeByARankThatItDoesNotListIsAWarningUnlessAllOutsideMakeIt) {
  const auto pair = unnamed({{0, 1}});
  const LintReport report = lint({.creations = {pair, pair, pair, {}}}, {.rule = kMembers});
  EXPECT_TRUE(report.valid());
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].kind, "stranger");
  EXPECT_EQ(report.findings[0].rank, 2);
  EXPECT_THAT(report.findings[0].message, HasSubstr("makes [0 1], which does not list it"));
  const LintReport all = lint({.creations = {pair, pair, pair, pair}}, {.rule = kMembers});
  EXPECT_THAT(all.findings, testing::Each(testing::Field(&Finding::kind, "absent")));
}

TEST(Lint, AModeThatLeavesRanksOutIsAnErrorUnlessItMay) {
  const std::vector<Creation> creations{{"DATA", {0, 1, 2}}, {"ENDS", {0, 2}}};
  const CreationLog log{.creations = {creations, creations, creations}};
  const LintReport report = lint(log);
  EXPECT_FALSE(report.valid());
  const Finding cover{
      .severity = Severity::error, .kind = "cover", .rank = 1, .message = "is in no group of mode 'ENDS'"};
  EXPECT_THAT(report.findings, ElementsAre(cover));
  EXPECT_THAT(lint(log, {.partial_modes = {"ENDS"}}).findings, IsEmpty());
}

TEST(Lint, ARankInNoGroupAndAGroupOfTwoNamesAreWarnings) {
  const std::vector<Creation> creations{{"", {0, 1}}};
  const std::vector<Creation> renamed{{"DATA", {0, 1}}};
  const LintReport report = lint({.creations = {creations, renamed, creations}}, {.partial_modes = {"DATA"}});
  EXPECT_TRUE(report.valid());
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].kind, "mode");
  EXPECT_EQ(report.findings[1].kind, "absent");
  EXPECT_EQ(report.findings[1].rank, 2);
}

TEST(Lint, NothingMadeIsNothingWrong) {
  EXPECT_THAT(lint({}).findings, IsEmpty());
  EXPECT_THAT(lint({.creations = {{}, {}}}, {.rule = kMembers}).findings, IsEmpty());
}

// Whether blocking creations in these orders all return: tried step by step, without the linter's bookkeeping.
bool hangs(const CreationLog& log) {
  std::vector<std::size_t> at(log.creations.size());
  const auto next = [&](int rank) -> const std::vector<int>* {
    const auto& own = log.creations[static_cast<std::size_t>(rank)];
    const std::size_t place = at[static_cast<std::size_t>(rank)];
    return place < own.size() ? &own[place].ranks : nullptr;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < log.world_size(); ++rank) {
      const std::vector<int>* group = next(rank);
      if (group == nullptr) continue;
      const std::vector<int> members = *group;
      if (!std::ranges::all_of(members, [&](int m) { return next(m) != nullptr && *next(m) == members; })) continue;
      for (const int member : members) ++at[static_cast<std::size_t>(member)];
      moved = true;
    }
  }
  for (int rank = 0; rank < log.world_size(); ++rank)
    if (next(rank) != nullptr) return true;
  return false;
}

// Whether all ranks make the same groups one after the other, however they are listed.
bool differ(const CreationLog& log) {
  const auto members = [](const std::vector<Creation>& own) {
    std::vector<std::set<int>> sets;
    for (const Creation& creation : own) sets.emplace_back(creation.ranks.begin(), creation.ranks.end());
    return sets;
  };
  return std::ranges::any_of(log.creations,
                             [&](const auto& own) { return members(own) != members(log.creations.front()); });
}

// Groups at random, in an order that all share, of which two may be swapped, one left out, or one have another name.
CreationLog random_log(std::mt19937& random, CreationRule rule, bool named) {
  const auto below = [&random](std::size_t end) { return static_cast<std::size_t>(random()) % end; };
  const std::size_t world = 2 + below(4);
  CreationLog log{.creations = std::vector<std::vector<Creation>>(world)};
  for (std::size_t n = 1 + below(5); n > 0; --n) {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < world; ++rank)
      if (below(2) == 0) ranks.push_back(static_cast<int>(rank));
    if (ranks.empty()) continue;
    const Creation creation{.mode = named ? "MODE" + std::to_string(n) : "", .ranks = ranks};
    for (std::size_t rank = 0; rank < world; ++rank)
      if (rule == kAll || std::ranges::count(ranks, static_cast<int>(rank)) > 0)
        log.creations[rank].push_back(creation);
  }
  auto& one = log.creations[below(world)];
  if (one.empty()) return log;
  const std::size_t place = below(one.size());
  switch (below(4)) {
    case 0:
      std::swap(one[place], one[below(one.size())]);
      break;
    case 1:
      one.erase(one.begin() + static_cast<std::ptrdiff_t>(place));
      break;
    case 2:
      if (named) one[place].mode = "OTHER";
      break;
    default:
      break;
  }
  return log;
}

// Whether two members of a group that all make call it differently. For logs without waits: the n-th creations of one
// list meet.
bool crossed(const CreationLog& log) {
  std::map<std::pair<std::vector<int>, int>, std::set<std::string>> names;
  for (std::size_t rank = 0; rank < log.creations.size(); ++rank) {
    std::map<std::vector<int>, int> made;
    for (const Creation& creation : log.creations[rank])
      names[{creation.ranks, made[creation.ranks]++}].insert(creation.mode);
  }
  return std::ranges::any_of(names, [](const auto& entry) { return entry.second.size() > 1; });
}

TEST(Lint, TheSimulationAgreesWithTryingOutOnRandomOrders) {
  std::mt19937 random(5);
  std::set<std::string, std::less<>> partial{"OTHER"};
  for (int n = 1; n < 6; ++n) partial.insert("MODE" + std::to_string(n));
  for (const CreationRule rule : {kAll, kMembers})
    for (const bool named : {false, true}) {
      int wrong = 0;
      int fine = 0;
      for (int round = 0; round < 3000; ++round) {
        const CreationLog log = random_log(random, rule, named);
        const bool expected = (rule == kAll ? differ(log) : hangs(log)) || crossed(log);
        (expected ? wrong : fine) += 1;
        const LintReport report = lint(log, {.rule = rule, .partial_modes = partial});
        ASSERT_EQ(report.valid(), !expected) << round << testing::PrintToString(lint_errors_of(report));
      }
      EXPECT_GT(wrong, 100);
      EXPECT_GT(fine, 100);
    }
}

TEST(CreationLogFile, LinesAreReadBack) {
  const CreationLog log{.creations = {{{"DATA", {0, 1}}, {"", {0}}}, {{"DA\"TA", {1, 0}}}}};
  std::string text;
  for (int rank = 0; rank < 2; ++rank) {
    int sequence = 0;
    for (const Creation& creation : log.creations[static_cast<std::size_t>(rank)])
      text += creation_line(rank, sequence++, creation) + "\n";
  }
  EXPECT_EQ(parse_creation_log(text).creations, log.creations);
  EXPECT_EQ(creation_line(3, 7, {"DATA", {3, 1}}), R"({"rank":3,"sequence":7,"mode":"DATA","ranks":[3,1]})");
}

TEST(CreationLogFile, SequenceNumbersOrderARanksLinesAndOtherFieldsArePassedOver) {
  const auto log = parse_creation_log(
      "{\"rank\":1,\"sequence\":5,\"ranks\":[1],\"time\":0.5}\n\n"
      "{\"rank\":1,\"sequence\":2,\"ranks\":[0,1]}\r\n"
      "{\"rank\":0,\"ranks\":[0,1],\"mode\":null}\n{\"rank\":0,\"ranks\":[0]}");
  EXPECT_EQ(log.creations[0], unnamed({{0, 1}, {0}}));
  EXPECT_EQ(log.creations[1], unnamed({{0, 1}, {1}}));
}

TEST(CreationLogFile, TheWorldIsAsLargeAsTheLargestRankOrAsSaid) {
  EXPECT_EQ(parse_creation_log("").world_size(), 0);
  EXPECT_EQ(parse_creation_log("", 4).world_size(), 4);
  EXPECT_EQ(parse_creation_log(R"({"rank":0,"ranks":[0,6]})").world_size(), 7);
  EXPECT_EQ(parse_creation_log(R"({"rank":0,"ranks":[0,6]})", 3).world_size(), 3);
}

TEST(CreationLogFile, BadLinesAreRefusedWithTheirNumber) {
  const auto refuses = [](const char* line, const char* words) {
    EXPECT_THAT([&] { (void)parse_creation_log(std::string("{\"rank\":0,\"sequence\":1,\"ranks\":[0]}\n") + line); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("line 2"), HasSubstr(words))));
  };
  refuses("{\"rank\":0", "is no JSON");
  refuses("[1]", "must be an object, got a list of 1");
  refuses((std::string(300'000, '[') + std::string(300'000, ']')).c_str(), "must be an object, got a list of 1");
  refuses(("{\"ranks\":" + std::string(300'000, '[') + std::string(300'000, ']') + ",\"rank\":0}").c_str(),
          "ranks[0] must be an integer");
  refuses(("{\"rank\":\"" + std::string(300'000, 'x') + "\",\"ranks\":[0]}").c_str(), "xxx\"…");
  refuses("{\"rank\":0,\"ranks\":[0],\"rank\":1}", "has the key \"rank\" twice");
  refuses("{\"rank\":0,\"ranks\":[0],\"seqence\":1}", "unknown field \"seqence\"; did you mean sequence?");
  refuses("{\"ranks\":[0]}", "rank is missing");
  refuses("{\"rank\":0}", "ranks is missing");
  refuses("{\"rank\":-1,\"ranks\":[0]}", "rank must be an integer from 0 to 4194303, got -1");
  refuses("{\"rank\":1.5,\"ranks\":[0]}", "got 1.5");
  refuses("{\"rank\":1,\"ranks\":[0,\"x\"]}", "ranks[1] must be an integer");
  refuses("{\"rank\":1,\"ranks\":[18446744073709551615]}", "ranks[0] must be an integer");
  refuses("{\"rank\":1,\"ranks\":3}", "ranks must be a list, got 3");
  refuses("{\"rank\":1,\"ranks\":[1],\"mode\":2}", "mode must be a text, got 2");
  refuses("{\"rank\":1,\"ranks\":[1],\"sequence\":-2}", "sequence must be");
  refuses("{\"rank\":0,\"ranks\":[0]}", "rank 0 has lines with a sequence number and lines without");
  refuses("{\"rank\":0,\"sequence\":1,\"ranks\":[0]}", "rank 0 has sequence number 1 in line 1 already");
  EXPECT_THAT([] { (void)parse_creation_log("{\"rank\":4,\"ranks\":[0]}", 4); },
              ThrowsMessage<InvalidArgument>(HasSubstr("rank must be an integer from 0 to 3, got 4")));
}

TEST(InOrder, PutsEachRanksCreationsByItsSequenceNumbers) {
  const auto at = [](std::size_t line, int rank, std::int64_t sequence, std::vector<int> ranks) {
    return LoggedCreation{.line = line, .rank = rank, .sequence = sequence, .creation = {.mode = "", .ranks = ranks}};
  };
  const CreationLog log = in_order({at(1, 1, 9, {1}), at(2, 0, 0, {0, 1}), at(3, 1, 4, {0, 1})}, 3);
  EXPECT_EQ(log.creations, (std::vector{unnamed({{0, 1}}), unnamed({{0, 1}, {1}}), unnamed({})}));
  EXPECT_THAT([&] { (void)in_order({at(1, 0, 3, {0}), at(2, 0, 3, {0})}, 1); },
              ThrowsMessage<InvalidArgument>(HasSubstr("line 2: rank 0 has sequence number 3 in line 1 already")));
}

}  // namespace
}  // namespace plumbline::groups
