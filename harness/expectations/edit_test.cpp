// Files brought up to a record: what changes, and that all the rest stays to the letter.
#include "harness/expectations/edit.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/expectations/toys_test.hpp"

namespace plumbline::expectations {
namespace {

using record::Verdict;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum Verdict;

// Of the whole toy suite: all pass but those that are named.
record::Run run_with(const std::map<std::string, Verdict>& others) {
  record::Run run{.header = {.subject = "backend acme", .started = "2026-11-20T10:00:00Z"},
                  .subject = {{"capabilities", {{"backend", "acme"}, {"version", "2.5"}}}}};
  for (const suite::Case& one : toys().cases()) {
    const auto found = others.find(one.id());
    run.results.push_back(result_of(one.id(), found == others.end() ? pass : found->second));
  }
  return run;
}

record::Run without(record::Run run, const std::string& case_id) {
  std::erase_if(run.results, [&](const record::Result& one) { return one.case_id == case_id; });
  return run;
}

Edit updated(const std::string& text, const record::Run& run) { return update(text, "e.toml", run, toys(), kToday); }
Edit pruned(const std::string& text, const record::Run& run) { return prune(text, "e.toml", run, toys(), kToday); }

const std::map<std::string, Verdict> kLookFails{{"toys.look[world=1]", fail}, {"toys.look[world=2]", fail}};

constexpr const char* kFile = R"(# What acme-ccl does wrong.
schema = 1
subject = "acme >=2"

# ---- drops ----

# Seen on the old machines first.
[[expect]]
id = "toys.drop[height=high*"
verdict = "fail"   # since 2.4
when = 'world_size >= 2'
reason = "é: the glue"; # no
)";

// The same without what is no TOML.
std::string file() {
  std::string text = kFile;
  return text.replace(text.find("; # no"), 6, "   # yes");
}

constexpr const char* kSecond = R"(
# over the second
[[expect]]
link = "https://x/1"   # the issue
id = "toys.look"
reason = "paint"
verdict = 'hang'
# under the second

# on its own

[[expect]]
id = "toys.peek"
verdict = "flake"
reason = "light"
)";

// ---- update ----

TEST(Update, LeavesAFileThatIsRight) {
  const std::string text = file() + kSecond;
  const Edit edit = updated(text, run_with({{"toys.drop[height=high,world=2]", fail},
                                            {"toys.drop[height=high,world=3]", fail},
                                            {"toys.look[world=1]", hang},
                                            {"toys.look[world=2]", hang},
                                            {"toys.peek[world=1]", flake}}));
  EXPECT_EQ(edit.text, text);
  EXPECT_THAT(edit.changes, IsEmpty());
  EXPECT_THAT(edit.left, IsEmpty());
}

TEST(Update, ChangesAVerdictAndNothingElse) {
  const std::string text = file() + kSecond;
  const Edit edit = updated(text, run_with({{"toys.drop[height=high,world=2]", crash},
                                            {"toys.drop[height=high,world=3]", crash},
                                            {"toys.look[world=1]", refuse},
                                            {"toys.look[world=2]", refuse}}));
  std::string golden = text;
  golden.replace(golden.find("\"fail\""), 6, "\"crash\"");
  golden.replace(golden.find("'hang'"), 6, "\"refuse\"");
  EXPECT_EQ(edit.text, golden);
  EXPECT_THAT(edit.changes, ElementsAre("e.toml:8: 'toys.drop[height=high*': fail became crash",
                                        "e.toml:15: 'toys.look': hang became refuse"));
}

TEST(Update, FindsAVerdictBehindLettersOfSeveralBytes) {
  const std::string entry = "schema = 1\n[[expect]]\nid = \"toys.look\"\nreason = \"\"\"é\nö\"\"\"\n";
  const Edit edit = updated(entry + "\"verdict\" = \"hang\"  # ü\n", run_with(kLookFails));
  EXPECT_EQ(edit.text, entry + "\"verdict\" = \"fail\"  # ü\n");
}

TEST(Update, AddsOneEntryForARequirementThatFailsAlike) {
  auto all = kLookFails;
  all["toys.peek[world=1]"] = all["toys.peek[world=2]"] = fail;
  const Edit edit = updated("", run_with(all));
  EXPECT_EQ(edit.text, R"(schema = 1

[[expect]]
id = "TOY-002"
verdict = "fail"
reason = "it \"broke\""  # of the run of 2026-11-20T10:00:00Z
)");
  EXPECT_THAT(edit.changes, ElementsAre("'TOY-002' fail was added (4 cases)"));
  EXPECT_THAT(updated(edit.text, run_with(all)).changes, IsEmpty()) << "once is enough";
}

TEST(Update, AddsOneEntryForACheckThatFailsAlikeAndElseOneForACase) {
  auto some = kLookFails;
  some["toys.peek[world=2]"] = hang;
  some["toys.drop[height=low,world=3]"] = flake;
  const Edit edit = updated(file(), run_with(some));
  EXPECT_TRUE(edit.text.starts_with(file() + "\n[[expect]]\n")) << edit.text;
  EXPECT_THAT(edit.changes, ElementsAre("'toys.look' fail was added (2 cases)",
                                        "'toys.drop[height=low,world=3]' flake was added (1 case)",
                                        "'toys.peek[world=2]' hang was added (1 case)"));
}

TEST(Update, AddsOneEntryForAParameterThatFailsAlike) {
  std::map<std::string, Verdict> some;
  for (const suite::Case& one : toys().cases())
    if (one.check->id == "toys.drop" && one.world() > 1) some[one.id()] = fail;
  const Edit edit = updated("", run_with(some));
  EXPECT_THAT(edit.changes, ElementsAre("'toys.drop[*world=2]' fail was added (2 cases)",
                                        "'toys.drop[*world=3]' fail was added (2 cases)"));
  some["toys.drop[height=low,world=1]"] = fail;
  EXPECT_THAT(updated("", run_with(some)).changes,
              ElementsAre("'toys.drop[height=low,*' fail was added (3 cases)",
                          "'toys.drop[height=high,world=2]' fail was added (1 case)",
                          "'toys.drop[height=high,world=3]' fail was added (1 case)"));
  EXPECT_THAT(updated(updated("", run_with(some)).text, run_with(some)).changes, IsEmpty());
}

TEST(Update, TakesTheParametersFromTheSuiteAndNotFromARecordThatHasNoOrderOfThem) {
  record::Run run = run_with({{"toys.drop[height=low,world=2]", fail}, {"toys.drop[height=high,world=2]", fail}});
  for (record::Result& result : run.results) std::ranges::reverse(result.parameters);
  EXPECT_THAT(updated("", run).changes, ElementsAre("'toys.drop[*world=2]' fail was added (2 cases)"));
  run.results[0].case_id = "toys.drop[height=lower,world=1]";
  run.results[0].verdict = fail;
  EXPECT_THAT(updated("", run).left, ElementsAre(HasSubstr("is no case of this suite")));
}

TEST(Update, DoesNotSayOfARequirementWhatItHasNotSeen) {
  auto all = kLookFails;
  all["toys.peek[world=1]"] = all["toys.peek[world=2]"] = fail;
  const Edit edit = updated("", without(run_with(all), "toys.peek[world=2]"));
  EXPECT_THAT(edit.changes,
              ElementsAre("'toys.look' fail was added (2 cases)", "'toys.peek[world=1]' fail was added (1 case)"));
  // What the subject does not claim is skipped, and says nothing against it.
  all["toys.peek[world=2]"] = skip;
  EXPECT_THAT(updated("", run_with(all)).changes, ElementsAre("'TOY-002' fail was added (3 cases)"));
}

TEST(Update, OverridesWhereSomeFailInAnotherWay) {
  const std::string text = "schema = 1\n[[expect]]\nid = \"TOY-001\"\nverdict = \"fail\"\nreason = \"glue\"\n";
  std::map<std::string, Verdict> all;
  for (const suite::Case& one : toys().cases())
    if (one.check->id == "toys.drop") all[one.id()] = one.world() == 3 ? hang : fail;
  const Edit edit = updated(text, run_with(all));
  EXPECT_TRUE(edit.text.starts_with(text));
  EXPECT_THAT(edit.changes, ElementsAre("'toys.drop[height=high,world=3]' hang was added (1 case)",
                                        "'toys.drop[height=low,world=3]' hang was added (1 case)"));
  EXPECT_THAT(updated(edit.text, run_with(all)).changes, IsEmpty());
}

TEST(Update, LeavesToAPersonWhatARecordCannotDecide) {
  const std::string look = "schema = 1\n[[expect]]\nid = \"toys.look\"\nverdict = \"fail\"\nreason = \"paint\"\n";
  const auto left = [](const std::string& text, const record::Run& run) {
    const Edit edit = updated(text, run);
    EXPECT_EQ(edit.text, text);
    EXPECT_THAT(edit.changes, IsEmpty());
    return edit.left;
  };
  EXPECT_THAT(left(look, run_with({})), ElementsAre(HasSubstr("e.toml:2: 'toys.look' expects fail, and all pass")));
  EXPECT_THAT(left(look, run_with({{"toys.look[world=1]", fail}})),
              ElementsAre(HasSubstr("expects fail and got pass, fail: narrow it")));
  EXPECT_THAT(left(look + "until = \"2026-11-20\"\n", run_with(kLookFails)), ElementsAre(HasSubstr("is expired")));
  record::Run twice = run_with({});
  twice.results.push_back(result_of("toys.look[world=1]", crash));
  twice.results.back().seed = 2;
  EXPECT_THAT(left("schema = 1\n", twice),
              ElementsAre(HasSubstr("toys.look[world=1] ends in pass, crash in the same record")));
}

TEST(Update, AddsNothingForWarningsAndWhatTheSuiteKnows) {
  record::Run run = run_with({{"toys.peek[world=1]", warn}, {"toys.look[world=1]", fail}});
  for (record::Result& result : run.results)
    if (result.verdict == fail)
      result.expectation = {.kind = record::Expectation::Kind::waiver, .reason = "granted", .origin = "w.toml:1"};
  EXPECT_EQ(updated("schema = 1\n", run).text, "schema = 1\n");
}

// ---- failures that name requirements ----

// toys.all verifies three requirements, toys.one the last of them.
constexpr const char* kManyRows = R"(component = "toys"
[[requirement]]
id = "TOY-001"
level = "must"
since = "0.1"
text = "A."
checks = ["toys.all"]
[[requirement]]
id = "TOY-002"
level = "must"
since = "0.1"
text = "B."
checks = ["toys.all"]
[[requirement]]
id = "TOY-003"
level = "must"
since = "0.1"
text = "C."
checks = ["toys.all", "toys.one"]
)";

std::unique_ptr<const suite::Suite> many_at(suite::Door door) {
  auto many = std::make_unique<suite::Suite>();
  many->requirements.add_toml(kManyRows, "toys.toml");
  const auto cite = [](const char* id, const char* text) { return id + ("@" + suite::sentence_hash(text)); };
  const auto body = [](suite::Context&) {};
  many->add({.id = "toys.all",
             .verifies = {cite("TOY-001", "A."), cite("TOY-002", "B."), cite("TOY-003", "C.")},
             .door = door,
             .axes = {suite::worlds({1, 2})},
             .body = body});
  many->add({.id = "toys.one",
             .verifies = {cite("TOY-003", "C.")},
             .door = door,
             .axes = {suite::worlds({1})},
             .body = body});
  return many;
}

using Violated = std::map<std::string, std::vector<std::string>>;  // by case

record::Run run_of(const suite::Suite& many, const Violated& violated) {
  record::Run run{.header = {.subject = "backend acme", .started = "today"}};
  for (const suite::Case& one : many.cases()) {
    run.results.push_back(blank_result(many, one));
    record::Result& result = run.results.back();
    const auto found = violated.find(result.case_id);
    result.verdict = found == violated.end() ? pass : fail;
    if (found == violated.end()) continue;
    result.violated = found->second;
    result.reason = "rank 0: report.cpp:13: Failed\nit is green";
  }
  return run;
}

constexpr const char* kFirstOfMany =
    "schema = 1\n[[expect]]\nid = \"TOY-001\"\nverdict = \"fail\"\nreason = \"known\"\n";

class ManyRequirements : public testing::Test {
 protected:
  [[nodiscard]] Edit updated(const std::string& text, const Violated& violated) const {
    return update(text, "e.toml", run_of(*many_, violated), *many_, kToday);
  }
  const std::unique_ptr<const suite::Suite> many_ = many_at(suite::Door::backend);
  const Violated both_{{"toys.all[world=1]", {"TOY-001", "TOY-002"}}, {"toys.all[world=2]", {"TOY-001", "TOY-002"}}};
};

TEST_F(ManyRequirements, AreNamedByUpdateOnlyWhereTheyAreViolated) {
  const Edit edit = updated("", both_);
  EXPECT_THAT(edit.changes, ElementsAre("'TOY-001' fail was added (2 cases)", "'TOY-002' fail was added (2 cases)"));
  EXPECT_THAT(updated(edit.text, both_).changes, IsEmpty()) << "once is enough";
  EXPECT_THAT(edit.text, HasSubstr("reason = \"it is green\"")) << "what the first line does not tell";
  // No entry says of a requirement that it fails where the record says that it does not.
  EXPECT_THAT(updated("", {{"toys.all[world=1]", {"TOY-001", "TOY-002"}}, {"toys.all[world=2]", {"TOY-001"}}}).changes,
              ElementsAre("'TOY-001' fail was added (2 cases)", "'TOY-002/toys.all[world=1]' fail was added (1 case)"));
  EXPECT_THAT(updated("", {{"toys.all[world=1]", {"TOY-003"}}, {"toys.all[world=2]", {"TOY-003"}}}).changes,
              ElementsAre("'TOY-003/toys.all' fail was added (2 cases)"));
}

TEST_F(ManyRequirements, AreAddedWhereAnEntryDoesNotCoverThem) {
  EXPECT_THAT(updated(kFirstOfMany, both_).changes, ElementsAre("'TOY-002' fail was added (2 cases)"));
  EXPECT_EQ(prune(kFirstOfMany, "e.toml", run_of(*many_, both_), *many_, kToday).text, kFirstOfMany)
      << "it is violated, too";
  // Where the case is expected to end otherwise for another requirement the id must be more specific.
  std::string hangs = kFirstOfMany;
  hangs.replace(hangs.find("fail"), 4, "hang");
  EXPECT_THAT(updated(hangs, {{"toys.all[world=1]", {"TOY-002"}}, {"toys.all[world=2]", {"TOY-002"}}}).changes,
              ElementsAre("'TOY-002/toys.all[world=1]' fail was added (1 case)",
                          "'TOY-002/toys.all[world=2]' fail was added (1 case)"));
}

TEST(Doors, AreTheRecords) {
  using suite::Door;
  for (const auto& [door, name] : {std::pair(Door::job, "job"), std::pair(Door::adapter, "adapter")}) {
    SCOPED_TRACE(name);
    const auto many = many_at(door);
    const auto run = [&, name = name](const Violated& violated) {
      record::Run run = run_of(*many, violated);
      run.header.subject = std::string(name) + " 'mine'";
      run.header.facts[name] = "mine";
      return run;
    };
    const record::Run failed = run({{"toys.all[world=1]", {"TOY-001"}}, {"toys.all[world=2]", {"TOY-001"}}});
    const Edit added = update("", "e.toml", failed, *many, kToday);
    EXPECT_THAT(added.changes, ElementsAre("'TOY-001' fail was added (2 cases)"));
    EXPECT_EQ(prune(added.text, "e.toml", run({}), *many, kToday).changes.size(), 1u);
    EXPECT_THAT(prune(added.text, "e.toml", without(run({}), "toys.all[world=2]"), *many, kToday).left,
                ElementsAre(HasSubstr("1 of its cases are not in the record")));
  }
}

// ---- the text ----

TEST(Update, LeavesAVerdictOfWhichTheRecordShowsAPart) {
  const std::string text = file() + kSecond;
  const Edit edit = updated(text, without(run_with({{"toys.look[world=1]", fail}}), "toys.look[world=2]"));
  EXPECT_EQ(edit.text, text);
  EXPECT_THAT(edit.left, testing::Contains("e.toml:15: 'toys.look' expects hang and got fail, but 1 of its cases are "
                                           "not in the record"));
  EXPECT_EQ(updated(text, run_with({{"toys.look[world=1]", fail}, {"toys.look[world=2]", error}})).text, text)
      << "an error of the harness shows nothing";
}

TEST(Update, WritesAVerdictInAnyQuotes) {
  const auto text = [](const std::string& verdict) {
    return "schema = 1\n[[expect]]\nid = \"toys.look\"\nverdict = " + verdict + "  # why\nreason = \"x\"\n";
  };
  for (const char* quoted : {R"("""hang""")", "'''hang'''", "'hang'", R"("hang")"})
    EXPECT_EQ(updated(text(quoted), run_with(kLookFails)).text, text("\"fail\"")) << quoted;
  const std::string lines = text("\"\"\"\nhang\"\"\"");
  const Edit edit = updated(lines, run_with(kLookFails));
  EXPECT_EQ(edit.text, lines);
  EXPECT_THAT(edit.left, ElementsAre(HasSubstr("its verdict stands on several lines")));
}

TEST(Update, KeepsTheEndsOfTheLines) {
  const std::string begun = "schema = 1\r\n# ours";
  EXPECT_EQ(updated(begun, run_with(kLookFails)).text,
            begun +
                "\r\n\r\n[[expect]]\r\nid = \"toys.look\"\r\nverdict = \"fail\"\r\n"
                "reason = \"it \\\"broke\\\"\"  # of the run of 2026-11-20T10:00:00Z\r\n");
}

TEST(Update, RefusesTheRecordOfAnotherSubject) {
  EXPECT_THAT(words_of([] { (void)updated("schema = 1\nsubject = \"acme <2\"\n", run_with({})); }),
              HasSubstr("e.toml:2: the expectations are of subject 'acme <2', and this one is 'acme 2.5'"));
}

TEST(Update, GivesNoCaseTheReasonOfAnother) {
  record::Run run = run_with(kLookFails);
  for (record::Result& result : run.results)
    if (result.verdict == fail) result.reason = "wrong at " + result.case_id;
  const Edit all = updated("", run);
  EXPECT_THAT(all.text, HasSubstr("reason = \"2 cases with 2 different messages\""));
  EXPECT_THAT(all.text, testing::Not(HasSubstr("wrong at")));
  const Edit one = updated("", without(run, "toys.look[world=2]"));
  EXPECT_THAT(one.text, HasSubstr("reason = \"wrong at toys.look[world=1]\""));
}

// ---- prune ----

TEST(Prune, TakesOutWhatPassesWithItsComments) {
  const Edit edit = pruned(file() + kSecond, run_with({{"toys.drop[height=high,world=2]", fail}}));
  EXPECT_EQ(edit.text, file() + R"(
# under the second

# on its own

[[expect]]
id = "toys.peek"
verdict = "flake"
reason = "light"
)");
  EXPECT_THAT(edit.changes, ElementsAre("e.toml:15: 'toys.look' hang was taken out"));
  EXPECT_THAT(edit.left,
              testing::UnorderedElementsAre(HasSubstr("'toys.peek' passes, but is a flake"),
                                            AllOf(HasSubstr("toys.drop"), HasSubstr("got pass, fail: narrow it"))));
}

TEST(Prune, TakesOutTheFirstAndTheLast) {
  const std::string last = "\n[[expect]]\nid = \"toys.look\"\nverdict = \"fail\"\nreason = \"paint\"\n\n\n";
  const Edit edit = pruned(file() + last, run_with({}));
  EXPECT_EQ(edit.text, "# What acme-ccl does wrong.\nschema = 1\nsubject = \"acme >=2\"\n\n# ---- drops ----\n");
  EXPECT_EQ(edit.changes.size(), 2u);
}

constexpr const char* kPassing = "[[expect]]\nid = \"toys.look\"\nverdict = \"fail\"\nreason = \"paint\"\n";

TEST(Prune, KeepsWhatOnlyLooksLikeAComment) {
  const std::string kept =
      "schema = 1\n[[expect]]\nid = \"toys.drop\"\nverdict = \"fail\"\nreason = \"\"\"see\n\n# 7\n#\"\"\"\n";
  EXPECT_EQ(pruned(kept + kPassing, run_with({{"toys.drop[height=low,world=1]", fail}})).text, kept);
  const std::string head = "schema = 1\nsubject = \"\"\"\\\n   acme\\\n #\"\"\"\n";
  EXPECT_THAT(words_of([&] { (void)pruned(head + kPassing, run_with({})); }), HasSubstr("'acme#'"));
  const std::string wild = "schema = 1\nsubject = \"\"\"\n#\"\"\"\n# ours\n";
  record::Run run = run_with({});
  run.subject["capabilities"]["backend"] = "#";
  EXPECT_EQ(pruned(wild + kPassing, run).text, "schema = 1\nsubject = \"\"\"\n#\"\"\"\n");
}

TEST(Prune, KeepsCommentsThatAreNotDirectlyOverTheEntry) {
  EXPECT_EQ(pruned(std::string("# all\nschema = 1\n# of it\n") + kPassing + "# the end", run_with({})).text,
            "# all\nschema = 1\n# the end\n");
  EXPECT_EQ(pruned(std::string("schema = 1\n# a heading\n\n") + kPassing + "# under\n\n# more\n", run_with({})).text,
            "schema = 1\n# a heading\n\n# under\n\n# more\n");
}

TEST(Prune, KeepsWhatTheRecordDoesNotShow) {
  const Edit lacking = pruned(file(), without(run_with({}), "toys.drop[height=high,world=3]"));
  EXPECT_EQ(lacking.text, file());
  EXPECT_THAT(lacking.left, ElementsAre(HasSubstr("passes, but 1 of its cases are not in the record")));
  EXPECT_EQ(pruned(file(), without(run_with({}), "toys.drop[height=high,world=1]")).changes.size(), 1u)
      << "of that case its condition does not hold";
  EXPECT_EQ(
      pruned(file(), run_with({{"toys.drop[height=high,world=2]", skip}, {"toys.drop[height=high,world=3]", error}}))
          .text,
      file());
  const std::string unrun =
      "schema = 1\n[[expect]]\nid = \"toys.look\"\nverdict = \"skip-run\"\nwas = \"hang\"\nreason = \"paint\"\n";
  EXPECT_EQ(pruned(unrun, run_with({{"toys.look[world=1]", skip}, {"toys.look[world=2]", skip}})).text, unrun);
}

// ---- flakes ----

TEST(FlakeRates, CountTheTriesOfTheLatestRecords) {
  const Expectations book =
      Expectations::of_text("schema = 1\n[[expect]]\nid = \"toys.look\"\nverdict = \"flake\"\nreason = \"paint\"\n",
                            "e.toml", toys(), kToday);
  std::vector<record::Run> runs;
  for (int day = 0; day < kFlakeRecords + 5; ++day) {
    runs.push_back(run_with({}));
    runs.back().header.started = "2026-09-01T10:" + std::to_string(10 + day);
  }
  runs[2].results[6].verdict = fail;  // too long ago
  ASSERT_EQ(runs[20].results[6].check, "toys.look");
  runs[20].results[6].verdict = flake;
  runs[20].results[6].tries = {fail, crash, pass};
  const auto rates = flake_rates(book, runs);
  ASSERT_EQ(rates.size(), 1u);
  EXPECT_EQ(rates[0].entry->id, "toys.look");
  EXPECT_EQ(rates[0].records, kFlakeRecords);
  EXPECT_EQ(rates[0].tries, 2 * kFlakeRecords + 2);
  EXPECT_EQ(rates[0].failures, 2);
}

}  // namespace
}  // namespace plumbline::expectations
