// The file as it is read and refused, which entry counts, and what the suite knows beside it.
#include "harness/expectations/expectations.hpp"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/expectations/known.hpp"
#include "harness/expectations/toys_test.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::expectations {
namespace {

namespace fs = std::filesystem;
using record::Verdict;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Expectations book(const std::string& text) {
  return Expectations::of_text("schema = 1\n" + text, "e.toml", toys(), kToday);
}
std::string entry(const std::string& id, const std::string& verdict, const std::string& more = "") {
  return "[[expect]]\nid = \"" + id + "\"\nverdict = \"" + verdict + "\"\nreason = \"known\"\n" + more + "\n";
}
std::string refusal(const std::string& text) {
  return words_of([&] { (void)book(text); });
}

// What is expected of a case: "fail", or "" for nothing.
std::string expected(const Expectations& book, const std::string& case_id, const Facts& run = {}) {
  const Entry* found = book.find(result_of(case_id), run);
  return found == nullptr ? "" : std::string(name_of(*found->expectation.verdict));
}

// ---- reading ----

TEST(Reading, TakesAllThatAnEntryMaySay) {
  const Expectations read =
      book("subject = \"acme >=2,<3\"\n" +
           entry("TOY-001/toys.drop[height=high*", "fail",
                 "link = \"https://x/1\"\nuntil = \"2027-03-31\"\nwhen = 'world_size > 2 && backend == \"acme\"'") +
           entry("toys.look", "skip-run", "was = \"hang\""));
  ASSERT_EQ(read.entries().size(), 2u);
  const Entry& first = read.entries()[0];
  EXPECT_EQ(first.expectation.link, "https://x/1");
  EXPECT_EQ(first.expectation.origin, "e.toml:3");
  EXPECT_TRUE(first.when.has_value());
  EXPECT_FALSE(read.entries()[1].expectation.run);
  EXPECT_EQ(read.entries()[1].expectation.verdict, Verdict::hang);
  EXPECT_THAT(read.files(), ElementsAre("e.toml"));
  EXPECT_THAT(book("").entries(), IsEmpty());
}

TEST(Reading, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(refusal("[[expect]\n"), StartsWith("e.toml:2:"));
  EXPECT_THAT(refusal("colour = 1\n"), StartsWith("e.toml:2:1: unknown field 'colour'; a file of expectations has"));
  EXPECT_THAT(refusal(entry("toys.drop", "fail", "colour = 1")), StartsWith("e.toml:6:1: unknown field 'colour'"));
  EXPECT_THAT(refusal(entry("toys.drop", "fial")),
              StartsWith("e.toml:4:11: verdict 'fial'; it is fail, refuse, hang, crash, warn, flake or skip-run"));
  EXPECT_THAT(refusal(entry("toys.drop", "pass")), HasSubstr("verdict 'pass'; it is"));
  EXPECT_THAT(refusal(entry("toys.drop", "missing")), HasSubstr("verdict 'missing'; it is"));
  EXPECT_THAT(refusal("[[expect]]\nid = \"toys.drop\"\nverdict = \"fail\"\n"),
              StartsWith("e.toml:2:1: an expectation has no 'reason'"));
  EXPECT_THAT(refusal(entry("toys.drop", "fail", "until = \"soon\"")),
              StartsWith("e.toml:6:9: until = 'soon' is no day"));
  EXPECT_THAT(refusal(entry("toys.drip", "fail")), StartsWith("e.toml:3:6: id 'toys.drip' names no case of the suite"));
  EXPECT_THAT(refusal(entry("TOY-001/toys.look", "fail")), HasSubstr("names no case"));
  EXPECT_THAT(refusal("expect = [{id = \"toys.drop\"}]\n"), HasSubstr("'expect' must be tables: [[expect]]"));
  EXPECT_THAT(refusal("subject = \"acme >=two\"\n"), StartsWith("e.toml:2:11: subject 'acme >=two'"));
  EXPECT_THAT(words_of([] { (void)Expectations::of_text("", "e.toml", toys(), kToday); }),
              HasSubstr("write schema = 1"));
  EXPECT_THAT(words_of([] { (void)Expectations::of_text("schema = 2", "e.toml", toys(), kToday); }),
              HasSubstr("e.toml:1:10: this version reads schema = 1"));
  EXPECT_THAT(words_of([] { (void)Expectations::read("/nonexistent.toml", toys(), kToday); }),
              HasSubstr("cannot read '/nonexistent.toml'"));
}

TEST(Reading, SaysWhereAConditionIsWrong) {
  EXPECT_THAT(refusal(entry("toys.drop", "fail", "when = 'world_size >'")),
              StartsWith("e.toml:6:8: when 'world_size >', column 13: a name, a number"));
  EXPECT_THAT(refusal(entry("toys.drop", "fail", "when = 'height == \"low\" && color == 1'")),
              AllOf(HasSubstr("column 20: unknown name 'color'"), HasSubstr("height, job")));
}

TEST(Reading, SkipsOnlyWhatHangsOrCrashes) {
  EXPECT_THAT(refusal(entry("toys.drop", "skip-run")), HasSubstr("write was = \"hang\" or \"crash\""));
  EXPECT_THAT(refusal(entry("toys.drop", "skip-run", "was = \"fail\"")), StartsWith("e.toml:6:7: skip-run is for"));
  EXPECT_THAT(refusal(entry("toys.drop", "hang", "was = \"hang\"")), HasSubstr("'was' belongs to skip-run"));
}

class Includes : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "schema = 1\n" << text;
  }
  [[nodiscard]] Expectations read(const std::string& name) const {
    return Expectations::read(folder_ / name, toys(), kToday);
  }
  job::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Includes, AreReadFromBesideTheFileAndOnce) {
  write("e.toml", "include = [\"sub/a.toml\", \"sub/b.toml\"]\n");
  write("sub/a.toml", "include = [\"b.toml\"]\n" + entry("toys.drop", "fail"));
  write("sub/b.toml", entry("toys.look", "hang"));
  const Expectations book = read("e.toml");
  EXPECT_EQ(book.files().size(), 3u);
  ASSERT_EQ(book.entries().size(), 2u);
  EXPECT_TRUE(book.entries()[0].included);
  EXPECT_EQ(book.entries()[1].expectation.origin, (folder_ / "sub/b.toml").string() + ":2");
}

TEST_F(Includes, RefuseCyclesAndWhatIsNotThere) {
  write("e.toml", "include = [\"a.toml\"]\n");
  write("a.toml", "include = [\"./e.toml\"]\n");
  EXPECT_THAT(words_of([&] { (void)read("e.toml"); }), AllOf(HasSubstr("a.toml:2:11: "), HasSubstr("includes itself")));
  write("e.toml", "include = [\"nowhere.toml\"]\n");
  EXPECT_THAT(words_of([&] { (void)read("e.toml"); }), AllOf(HasSubstr("e.toml:2:11: "), HasSubstr("nowhere.toml")));
}

// ---- which entry counts ----

TEST(Finding, NamesRequirementsChecksAndCases) {
  const std::string low = "toys.drop[height=low,world=2]";
  for (const char* id : {"TOY-001", "TOY-*", "toys.drop", "toys.drop[height=low,world=2]", "*[height=low*", "toys.d???",
                         "TOY-001/toys.drop", "TOY-001/*world=2]"})
    EXPECT_EQ(expected(book(entry(id, "fail")), low), "fail") << id;
  for (const char* id :
       {"TOY-002", "toys.look", "*world=1]", "TOY-002/*world=2]", "TOY-001/*world=3]", "*[height=high*"})
    EXPECT_EQ(expected(book(entry(id, "fail")), low), "") << id;
}

TEST(Finding, TakesTheMostSpecificInAnyOrder) {
  const std::string wide = entry("TOY-001", "fail"), narrow = entry("toys.drop[height=high*", "hang");
  for (const std::string& text : {wide + narrow, narrow + wide}) {
    EXPECT_EQ(expected(book(text), "toys.drop[height=high,world=1]"), "hang");
    EXPECT_EQ(expected(book(text), "toys.drop[height=low,world=1]"), "fail");
  }
}

TEST(Finding, TakesAConditionForMoreSpecific) {
  const Expectations both =
      book(entry("toys.drop", "fail") + entry("toys.drop", "crash", "when = 'world_size >= 2 && os == \"linux\"'"));
  EXPECT_EQ(expected(both, "toys.drop[height=low,world=2]", {{"os", "linux"}}), "crash");
  EXPECT_EQ(expected(both, "toys.drop[height=low,world=1]", {{"os", "linux"}}), "fail");
  EXPECT_EQ(expected(both, "toys.drop[height=low,world=2]"), "fail");
}

TEST(Finding, ExpectsNoViolationsOfOtherRequirements) {
  const char* low = "toys.drop[height=low,world=2]";
  const auto found = [&](const std::string& text, const std::vector<std::string>& violated) {
    const Expectations read = book(text);
    const Entry* entry = read.find(failure_of(low, violated), {});
    return entry == nullptr ? "" : entry->id;
  };
  const std::string first = entry("TOY-001", "fail"), second = entry("TOY-002", "fail");
  EXPECT_EQ(found(first, {"TOY-001"}), "TOY-001");
  EXPECT_EQ(found(first, {"TOY-001", "TOY-002"}), "") << "TOY-002 is new";
  EXPECT_EQ(found(first, {"TOY-002"}), "");
  EXPECT_EQ(found(first, {}), "TOY-001") << "the failure names none: it may be any";
  EXPECT_EQ(found(first + second, {"TOY-001", "TOY-002"}), "TOY-001");
  EXPECT_EQ(found(first + second, {"TOY-001", "TOY-002", "TOY-003"}), "");
  EXPECT_EQ(found(entry("TOY-*", "fail"), {"TOY-001", "TOY-002"}), "TOY-*");
  EXPECT_EQ(found(entry("TOY-001/toys.drop", "fail"), {"TOY-001", "TOY-002"}), "");
  EXPECT_EQ(found(entry("toys.drop", "fail"), {"TOY-001", "TOY-002"}), "toys.drop") << "all that the check finds";
  EXPECT_EQ(found(first + entry("toys.drop*", "fail"), {"TOY-001", "TOY-002"}), "toys.drop*");
  // What is expected of the one requirement does not come.
  EXPECT_EQ(found(first + entry("TOY-002/toys.look", "hang"), {"TOY-001"}), "TOY-001");
  EXPECT_EQ(found(first + entry("TOY-002", "hang"), {"TOY-001", "TOY-002"}), "TOY-002");
}

TEST(Finding, RefusesContradictions) {
  EXPECT_THAT(
      refusal(entry("toys.drop*", "fail") + entry("*toys.drop*", "hang")),
      AllOf(HasSubstr("e.toml:2: 'toys.drop*' expects fail"), HasSubstr("e.toml:7: '*toys.drop*' expects hang")));
  EXPECT_THAT(refusal(entry("toys.drop", "hang") + entry("toys.drop", "skip-run", "was = \"hang\"")),
              HasSubstr("neither is more specific"));
  EXPECT_EQ(refusal(entry("toys.drop", "fail") + entry("toys.drop", "fail")), "nothing was thrown");
  // With conditions only where both hold.
  const Expectations both = book(entry("toys.drop", "fail", "when = 'world_size > 1'") +
                                 entry("toys.drop", "hang", "when = 'height == \"low\"'"));
  EXPECT_EQ(expected(both, "toys.drop[height=low,world=1]"), "hang");
  EXPECT_EQ(expected(both, "toys.drop[height=high,world=2]"), "fail");
  EXPECT_THAT(words_of([&] { (void)expected(both, "toys.drop[height=low,world=2]"); }),
              AllOf(HasSubstr("e.toml:2: "), HasSubstr("e.toml:7: "), HasSubstr("toys.drop[height=low,world=2]")));
}

TEST(Finding, ForgetsWhatIsExpired) {
  const Expectations dated =
      book(entry("toys.drop", "fail", "until = \"2026-11-20\"") + entry("toys.look", "fail", "until = 2026-11-21") +
           entry("toys.peek", "fail", "until = \"2026-12-06\""));
  EXPECT_EQ(expected(dated, "toys.drop[height=low,world=1]"), "");
  EXPECT_EQ(expected(dated, "toys.look[world=1]"), "fail") << "the last day counts";
  EXPECT_THAT(dated.expired(), ElementsAre("e.toml:2: 'toys.drop' counts no more: it was until 2026-11-20"));
  EXPECT_THAT(dated.soon_expired(), ElementsAre(HasSubstr("'toys.look' counts until 2026-11-21, 0 days"))) << "14 days";
  EXPECT_EQ(refusal(entry("toys.drop", "fail", "until = \"2026-11-20\"") + entry("toys.drop", "hang")),
            "nothing was thrown");
}

TEST(Finding, IsOfOneSubject) {
  const Expectations of_acme = book("subject = \"acme >=2.4,<3\"\n");
  of_acme.require_subject({"acme", "2.10"});
  EXPECT_EQ(words_of([&] { of_acme.require_subject({"mpi", "4.1.4"}); }),
            "e.toml:2: the expectations are of subject 'acme >=2.4,<3', and this one is 'mpi 4.1.4'");
  EXPECT_THAT(words_of([&] { of_acme.require_subject({"acme", ""}); }), HasSubstr("does not report its version"));
  book("").require_subject({"anything", ""});
}

// ---- with the suite's own ----

TEST(Known, IsIssueThenExpectationThenWaiver) {
  suite::Suite suite;
  suite.waivers = suite::waivers_of_toml(R"([[waive]]
subject = "acme >=2"
device = "cuda*"
checks = ["TOY-*"]
link = "https://x/2"
reason = "granted"
grantor = "we"
date = "2026-11-01"
until = "2026-11-30"
)",
                                         "w.toml");
  suite.issues = suite::suite_issues_of_toml(
      "[[issue]]\nchecks = [\"toys.peek\"]\nlink = \"https://x/3\"\nreason = \"wrong\"\nsince = \"0.1\"\n", "s.toml");
  const Expectations owner = book(entry("toys.*", "fail"));
  const suite::Identity acme{"acme", "2.1"};
  const Facts cuda{{"device", "cuda:0"}};
  const auto origin = [&](const Known& known, const char* case_id) {
    const auto found = known.of(result_of(case_id));
    return found ? found->origin : "";
  };
  const Known all(suite, &owner, acme, cuda, kToday);
  EXPECT_EQ(origin(all, "toys.peek[world=1]"), "s.toml:1");
  EXPECT_FALSE(all.of(result_of("toys.peek[world=1]"))->run);
  EXPECT_EQ(origin(all, "toys.look[world=1]"), "e.toml:2");
  const Known statement(suite, nullptr, acme, cuda, kToday);
  EXPECT_EQ(origin(statement, "toys.look[world=1]"), "w.toml:1");
  EXPECT_EQ(statement.of(result_of("toys.look[world=1]"))->kind, record::Expectation::Kind::waiver);
  EXPECT_EQ(origin({suite, nullptr, {"acme", "1.9"}, cuda, kToday}, "toys.look[world=1]"), "");
  EXPECT_EQ(origin({suite, nullptr, acme, {{"device", "cpu"}}, kToday}, "toys.look[world=1]"), "");
  EXPECT_EQ(origin({suite, nullptr, acme, cuda, kToday + std::chrono::days(10)}, "toys.look[world=1]"), "") << "over";
  EXPECT_EQ(origin({suite, nullptr, acme, cuda, kToday - std::chrono::days(30)}, "toys.look[world=1]"), "")
      << "not yet";
  const Expectations other = book("subject = \"other\"\n");
  EXPECT_THROW(Known(suite, &other, acme, cuda, kToday), InvalidArgument);
}

TEST(Known, WaivesNoViolationsOfOtherRequirements) {
  const auto waiver = [](const std::string& check) {
    return "[[waive]]\nsubject = \"acme\"\nchecks = [\"" + check +
           "\"]\nlink = \"https://x/2\"\nreason = \"granted\"\ngrantor = \"we\"\ndate = \"2026-11-01\"\n"
           "until = \"2026-11-30\"\n";
  };
  const auto waived = [&](const std::string& text, const std::vector<std::string>& violated) {
    suite::Suite suite;
    suite.waivers = suite::waivers_of_toml(text, "w.toml");
    const Known known(suite, nullptr, {"acme", ""}, {}, kToday);
    return known.of(failure_of("toys.drop[height=low,world=2]", violated)).has_value();
  };
  EXPECT_TRUE(waived(waiver("TOY-001"), {"TOY-001"}));
  EXPECT_TRUE(waived(waiver("TOY-001"), {}));
  EXPECT_FALSE(waived(waiver("TOY-001"), {"TOY-001", "TOY-002"}));
  EXPECT_TRUE(waived(waiver("TOY-001") + waiver("TOY-002"), {"TOY-001", "TOY-002"}));
  EXPECT_TRUE(waived(waiver("toys.drop"), {"TOY-001", "TOY-002"}));
}

TEST(Facts, AreOfEnvironmentSubjectAndCase) {
  record::Run run{.header = {.subject = "backend mpi",
                             .profile = "toys",
                             .environment = {{"kernel", "Linux 6.1.0 x86_64"}, {"cores", 2}, {"cpu", "Z80"}},
                             .facts = {{"mutant", "toy.green"}}},
                  .subject = {{"capabilities", {{"backend", "mpi"}, {"version", "Open MPI v4.1.4"}}}}};
  const Facts facts = facts_of(facts_of(run), result_of("toys.drop[height=low,world=3]"));
  for (const auto& [name, value] : Facts{{"os", "linux"},
                                         {"kernel", "6.1.0"},
                                         {"cores", "2"},
                                         {"cpu", "Z80"},
                                         {"mutant", "toy.green"},
                                         {"backend", "mpi"},
                                         {"subject", "mpi"},
                                         {"version", "4.1.4"},
                                         {"world_size", "3"},
                                         {"height", "low"},
                                         {"check", "toys.drop"},
                                         {"component", "toys"},
                                         {"arm", "plain"},
                                         {"profile", "toys"}}) {
    EXPECT_EQ(facts.contains(name) ? facts.at(name) : "nothing", value) << name;
    EXPECT_TRUE(names_of(toys()).contains(name)) << name;
  }
}

TEST(Facts, NameAnAdapterAndAJobByTheirCommands) {
  for (const char* door : {"adapter", "job"}) {
    record::Run run{.header = {.facts = {{door, "python3 train.py"}}},
                    .subject = {{"capabilities", {{"backend", "none"}}}}};
    const Facts facts = facts_of(run);
    EXPECT_EQ(facts.at("subject"), "python3 train.py");
    EXPECT_FALSE(facts.contains("backend")) << "a " << door << " has none";
    book("subject = \"python3 train.py\"\n").require_subject(identity_of(run.subject, facts));
    const Expectations other = book("subject = \"python3 other.py\"\n");
    EXPECT_THROW(other.require_subject(identity_of(run.subject, facts)), InvalidArgument);
  }
}

}  // namespace
}  // namespace plumbline::expectations
