// Waivers and suite issues as they are written, versions, and the subjects that a range names.
#include "harness/suite/waiver.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/suite/suite.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::suite {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kWaiver = R"([[waive]]
subject = "acme-ccl >=2.4,<3"
checks = ["TOY-001", "toys.drop*"]
link = "https://issues.example/7"
reason = "tail of odd counts"
grantor = "the maintainers"
date = "2026-11-21"
until = "2027-05-31"
)";
constexpr const char* kIssue = R"([[issue]]
checks = ["toys.drop"]
link = "https://issues.example/8"
reason = "the bound is too narrow"
since = "0.1"
)";

std::string words_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(Waivers, AreReadWithAllThatAStatementLists) {
  const std::vector<Waiver> waivers = waivers_of_toml(kWaiver, "waivers.toml");
  ASSERT_EQ(waivers.size(), 1u);
  EXPECT_TRUE(waivers[0].subject.matches({"acme-ccl", "2.4.1"}));
  EXPECT_FALSE(waivers[0].subject.matches({"acme-ccl", "3.0"}));
  EXPECT_EQ(waivers[0].device, "*");
  EXPECT_THAT(waivers[0].checks, ElementsAre("TOY-001", "toys.drop*"));
  EXPECT_EQ(waivers[0].grantor, "the maintainers");
  EXPECT_EQ(waivers[0].origin, "waivers.toml:1");
  EXPECT_TRUE(waivers_of_toml("", "waivers.toml").empty());
}

TEST(Waivers, RefuseWhatIsWrongAndSayWhere) {
  const auto words = [](const std::string& from, const std::string& to) {
    return words_of([&] { (void)waivers_of_toml(replaced(kWaiver, from, to), "waivers.toml"); });
  };
  EXPECT_THAT(words("grantor", "granter"), HasSubstr("waivers.toml:6:1: unknown field 'granter'"));
  EXPECT_THAT(words("grantor = \"the maintainers\"\n", ""), HasSubstr("a waiver has no 'grantor'"));
  EXPECT_THAT(words("2027-05-31", "2027-02-31"), HasSubstr("waivers.toml:8:9: until = '2027-02-31' is no day"));
  EXPECT_THAT(words("2027-05-31", "2026-05-31"), HasSubstr("before its date, 2026-11-21"));
  EXPECT_THAT(words(">=2.4,<3", ">=new"),
              HasSubstr("waivers.toml:2:11: subject 'acme-ccl >=new': '>=new' is no range"));
  EXPECT_THAT(words("\"2027-05-31\"", "2027-05-31T10:00:00"), HasSubstr("waivers.toml:8:9: 'until' must be a day"));
  EXPECT_THAT(words("https://", "ftp://"), HasSubstr("must be a public issue"));
  EXPECT_THAT(words("[\"TOY-001\", \"toys.drop*\"]", "[]"), HasSubstr("must name a check"));
  EXPECT_THAT(words("[[waive]]", "[waive]"), HasSubstr("must be tables: [[waive]]"));
}

TEST(Waivers, TakeDaysWithAndWithoutQuotes) {
  const auto bare = waivers_of_toml(
      replaced(replaced(kWaiver, "\"2027-05-31\"", "2027-05-31"), "\"2026-11-21\"", "2026-11-21"), "waivers.toml");
  const auto quoted = waivers_of_toml(kWaiver, "waivers.toml");
  EXPECT_EQ(bare.at(0).until, quoted.at(0).until);
  EXPECT_EQ(bare.at(0).date, quoted.at(0).date);
}

TEST(SuiteIssues, AreReadAndRefused) {
  const std::vector<SuiteIssue> issues = suite_issues_of_toml(kIssue, "suite-issues.toml");
  ASSERT_EQ(issues.size(), 1u);
  EXPECT_EQ(issues[0].since, "0.1");
  EXPECT_THAT(words_of([] { (void)suite_issues_of_toml(replaced(kIssue, "since", "from"), "suite-issues.toml"); }),
              HasSubstr("suite-issues.toml:5:1: unknown field 'from'"));
}

TEST(SuiteIssues, ThatNameNoCaseAreAProblemOfTheSuite) {
  Suite suite;
  suite.add({.id = "toys.drop", .verifies = {"TOY-001@0000"}, .axes = {worlds({1})}, .body = [](Context&) {}});
  suite.waivers = waivers_of_toml(replaced(kWaiver, "TOY-001", "TOY-002"), "waivers.toml");
  suite.issues = suite_issues_of_toml(replaced(kIssue, "toys.drop", "toys.drip"), "suite-issues.toml");
  const std::vector<std::string> problems = suite.problems();
  EXPECT_THAT(problems, Contains("waivers.toml:1 names 'TOY-002', which matches no case"));
  EXPECT_THAT(problems, Contains("suite-issues.toml:1 names 'toys.drip', which matches no case"));
  EXPECT_THAT(problems, testing::Not(Contains(HasSubstr("toys.drop*"))));
}

TEST(Versions, AreInOrder) {
  const std::vector<std::string> order{
      "0.9",  "1",          "1.2",     "1.10.dev3",      "1.10rc2",         "1.10rc10",
      "1.10", "1.10.post1", "v1.10.1", "1.10.1-fc-v595", "1.10.1-fc-v1000", "2.0.0-beta",
      "2",    "2-alpine",   "10"};
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = 0; j < order.size(); ++j)
      EXPECT_EQ(compare_versions(order[i], order[j]), i <=> j) << order[i] << " and " << order[j];
  EXPECT_EQ(compare_versions("2.4", "2.4.0+cu121"), std::strong_ordering::equal);
  EXPECT_TRUE(is_version("8"));
  EXPECT_FALSE(is_version("f16"));
  EXPECT_FALSE(is_version(""));
  EXPECT_EQ(version_in("Open MPI v4.1.4, package: Debian"), "4.1.4");
  EXPECT_EQ(version_in("none"), "");
}

TEST(SubjectRange, NamesSubjectsAndVersions) {
  const SubjectRange range("acme-* >= 2.4, <3, !=2.5");
  EXPECT_TRUE(range.matches({"acme-ccl", "2.4"}));
  EXPECT_FALSE(range.matches({"acme-ccl", "2.5.0"}));
  EXPECT_FALSE(range.matches({"acme-ccl", "3"}));
  EXPECT_FALSE(range.matches({"other", "2.4"}));
  EXPECT_FALSE(range.matches({"acme-ccl", ""})) << "an unknown version is in no range";
  EXPECT_TRUE(SubjectRange("acme-ccl").matches({"acme-ccl", ""}));
  EXPECT_TRUE(SubjectRange("acme>=2").matches({"acme", "2.1"}));
  EXPECT_THAT(words_of([] { SubjectRange(">=2"); }), HasSubstr("has no name"));
  EXPECT_THAT(words_of([] { SubjectRange("a >=2,,<3"); }), HasSubstr("'' is no range"));
  EXPECT_THAT(words_of([] { SubjectRange("a >=two"); }), HasSubstr("'>=two' is no range"));
}

TEST(SubjectRange, NamesCommandsWithTheirArguments) {
  const char* command = "python3 adapter.py --level=2 --name a!b";
  EXPECT_TRUE(SubjectRange(command).matches({command, ""}));
  const SubjectRange range(std::string(command) + " >=1.2, <2");
  EXPECT_TRUE(range.matches({command, "1.10"}));
  EXPECT_FALSE(range.matches({command, "2"}));
  EXPECT_FALSE(range.matches({"python3", "1.10"}));
  EXPECT_TRUE(SubjectRange("python3 * >=1").matches({command, "1"}));
}

}  // namespace
}  // namespace plumbline::suite
