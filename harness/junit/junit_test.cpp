// What CI servers read of a run.
#include "harness/junit/junit.hpp"

#include <regex>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/summary.hpp"

namespace plumbline::junit {
namespace {

using record::Expectation;
using record::Header;
using record::Result;
using record::Verdict;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Result result(const std::string& case_id, Verdict verdict) {
  return {.check = case_id.substr(0, case_id.find('[')),
          .case_id = case_id,
          .requirements = {"COLL-001"},
          .seed = 1,
          .verdict = verdict,
          .reason = verdict == Verdict::pass ? "" : "because"};
}

Header header(const std::vector<std::string>& cases) {
  Header header{.command = "check", .subject = "backend local", .suite_version = "0.1", .seed = 1};
  for (const std::string& one : cases) header.plan.push_back({.case_id = one, .requirements = {"COLL-001"}, .seed = 1});
  return header;
}

// HARNESS-014@abd8
TEST(Junit, CountsAndEscapes) {
  record::Run run{.header = header({"collectives.a[x=<&>]", "collectives.b", "training.c"})};
  run.results = {result("collectives.a[x=<&>]", Verdict::fail), result("training.c", Verdict::skip)};
  run.results[0].output = "\x1b[31m \xff]]> \xef\xbf\xbf";
  const std::string text = to_junit(run);
  EXPECT_THAT(text, HasSubstr("x=&lt;&amp;&gt;"));
  EXPECT_THAT(text, HasSubstr("<failure message=\"COLL-001: because\""));
  EXPECT_THAT(text, HasSubstr("<skipped message=\"because\"/>"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("]]>")));
  EXPECT_THAT(text, Not(HasSubstr("\xef\xbf\xbf"))) << "U+FFFF is no character of XML";
}

// The attributes of that name, in order.
std::vector<std::string> attributes(const std::string& xml, const std::string& element, const std::string& name) {
  std::vector<std::string> values;
  const std::regex pattern(fmt::format("<{} [^>]*\\b{}=\"([^\"]*)\"", element, name));
  for (std::sregex_iterator match(xml.begin(), xml.end(), pattern), end; match != end; ++match)
    values.push_back((*match)[1]);
  return values;
}

// HARNESS-031@f767
TEST(Junit, NamesACaseTheSameHoweverItEndsAndWhateverItsSeed) {
  std::set<std::vector<std::string>> names;
  std::set<std::string> keys;  // har.seed_in_name
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::skip, Verdict::warn, Verdict::error})
    for (const std::uint64_t seed : {1, 4711}) {
      record::Run run{.header = header({}), .complete = true};
      for (const char* const mode : {"plain", "rendezvous", "chaos:4711"}) {
        Result one = result("collectives.a[world=2]", verdict);
        one.seed = seed;
        one.mode = std::string(mode) == "chaos:4711" ? fmt::format("chaos:{}", seed) : mode;
        run.results.push_back(one);
        keys.insert(one.key());
      }
      const std::string text = to_junit(run);
      names.insert(attributes(text, "testcase", "name"));
      EXPECT_THAT(text, HasSubstr(fmt::format("<property name=\"seed\" value=\"{}\"/>", seed)));
    }
  EXPECT_THAT(names, ElementsAre(ElementsAre("every planned case has a result", "collectives.a[world=2]",
                                             "collectives.a[world=2] under rendezvous",
                                             "collectives.a[world=2] under chaos", "COLL-001")));
  EXPECT_GT(keys.size(), 3u) << "the key of a result would not do";
}

TEST(Junit, NamesAMeasurementTheSameWhetherItWasMadeOrNot) {
  record::Run made{.header = header({}), .complete = true}, missing = made;
  const std::string id = "collectives.barrier[bytes=0,world=2]";
  for (const char* const part : {"collectives.barrier", "collectives.barrier.rank"})
    made.measurements.push_back({.benchmark = part, .case_id = id, .samples = {1}, .unit = "seconds"});
  missing.results = {result(id, Verdict::hang)};
  missing.results[0].requirements.clear();
  for (const char* const attribute : {"classname", "name"})
    EXPECT_EQ(attributes(to_junit(made), "testcase", attribute), attributes(to_junit(missing), "testcase", attribute));
}

TEST(Junit, SaysOfAFailureFirstWhatWasRequiredAndWhereItsCheckStands) {
  record::Run run{.header = header({}), .complete = true};
  run.header.requirements["COLL-001"] = {"must", "Every member MUST have the sum."};
  run.header.checks["collectives.a"] = {"conformance/collectives/a_checks.cpp", 7};
  run.results = {result("collectives.a[world=2]", Verdict::fail)};
  const std::string text = to_junit(run);
  EXPECT_THAT(text, HasSubstr("<failure message=\"COLL-001 (must) Every member MUST have the sum.: because\""));
  EXPECT_THAT(text, HasSubstr("file=\"conformance/collectives/a_checks.cpp\" line=\"7\""));
  EXPECT_THAT(text, HasSubstr("<testsuite name=\"plumbline requirements (local)\" tests=\"1\" failures=\"1\""));
}

TEST(Junit, CountsCasesThatHaveNotRunOnce) {
  record::Run run{.header = header({})};
  for (int i = 0; i < 500; ++i)
    run.header.plan.push_back({.case_id = fmt::format("collectives.a[world={}]", i), .requirements = {"COLL-001"}});
  std::string text = to_junit(run);
  EXPECT_THAT(attributes(text, "error", "message"),
              ElementsAre("the run has not finished; 500 of 500 planned cases have no result"));
  EXPECT_THAT(text, Not(HasSubstr("<failure")));
  run.stopped = "the budget of 5 s is spent";
  text = to_junit(run);
  EXPECT_THAT(attributes(text, "error", "message"),
              ElementsAre("the budget of 5 s is spent; 500 of 500 planned cases have no result"));
  EXPECT_LT(text.size(), 4096u);
}

TEST(Junit, HasAtMost4KiBAFailure) {
  record::Run run{.header = header({}), .complete = true};
  Result one = result("collectives.a[world=2]", Verdict::fail);
  for (std::string* text : {&one.reason, &one.output, &one.repeat})
    for (int i = 0; i < 5000; ++i) *text += i % 3 == 0 ? "&" : "ö";
  one.output += "the last words";
  one.ranks = {{.rank = 0, .verdict = Verdict::fail, .failures = {{"a.cpp:1", one.reason}}}};
  run.results = {one};
  const std::string text = to_junit(run);
  int failures = 0;
  for (std::size_t at = 0; (at = text.find("<failure", at)) != std::string::npos; ++failures) {
    const std::size_t end = text.find("</failure>", at);
    EXPECT_LE(end + 10 - at, 4096u);
    EXPECT_THAT(text.substr(at, end - at), HasSubstr("the last words"));
    at = end;
  }
  EXPECT_EQ(failures, 2) << "of the case and of the requirement";
}

TEST(Junit, ShowsAWarningAndFailsByItOnlyOnDemand) {
  record::Run run{.header = header({}), .complete = true};
  run.results = {result("collectives.a", Verdict::warn)};
  std::string text = to_junit(run);
  EXPECT_THAT(text, HasSubstr("<system-out>WARNING: COLL-001: because"));
  EXPECT_THAT(text, HasSubstr("<skipped message=\"WARNING: COLL-001: collectives.a: because\"/>"))
      << "of the requirement";
  EXPECT_THAT(text, Not(HasSubstr("<failure")));
  EXPECT_EQ(run::exit_status(run), 0);
  run.header.warnings_fail = true;
  EXPECT_THAT(to_junit(run), HasSubstr("<failure message=\"COLL-001: because\" type=\"warn\""));
  EXPECT_EQ(run::exit_status(run), 1);
}

const Expectation kExpected{
    .verdict = Verdict::fail, .reason = "odd counts", .link = "https://x/1", .origin = "e.toml:4"};
const Expectation kWaiver{.kind = Expectation::Kind::waiver, .reason = "granted", .origin = "w.toml:2"};

record::Run run_of(Verdict verdict, std::optional<Expectation> expectation = {}) {
  record::Run run{.header = header({"a.b"}), .results = {result("a.b", verdict)}};
  run.results[0].expectation = std::move(expectation);
  return run;
}

TEST(Junit, ShowsWhatWasExpected) {
  const std::string expected = to_junit(run_of(Verdict::fail, kExpected));
  EXPECT_THAT(expected, HasSubstr("<skipped message=\"fail, as expected: odd counts (e.toml:4, https://x/1)\"/>"));
  EXPECT_THAT(expected, HasSubstr("failures=\"0\" errors=\"0\" skipped=\"1\""));
  const std::string unexpected = to_junit(run_of(Verdict::pass, kExpected));
  EXPECT_THAT(unexpected, HasSubstr("<failure message=\"COLL-001: it passes, but e.toml:4 expects fail"));
  EXPECT_THAT(unexpected, HasSubstr("type=\"unexpected-pass\""));
  record::Run allowed = run_of(Verdict::pass, kExpected);
  allowed.header.allow_unexpected_pass = true;
  EXPECT_THAT(to_junit(allowed), Not(HasSubstr("<failure")));
  EXPECT_THAT(to_junit(run_of(Verdict::flake)), HasSubstr("<failure"));
  EXPECT_THAT(to_junit(run_of(Verdict::hang, kWaiver)), HasSubstr("<skipped message=\"hang, waived: granted"));
}

TEST(Junit, HasTheValuesOfAFindingAsProperties) {
  record::Run run{.header = header({"a.b"}), .results = {result("a.b", Verdict::fail)}};
  run.results[0].ranks = {{.rank = 0,
                           .verdict = Verdict::fail,
                           .failures = {{"a.cpp:3", "wrong"},
                                        {.where = "a.cpp:4",
                                         .message = "wrong: expected <1>, got nan",
                                         .expected = "<1>",
                                         .got = "nan",
                                         .bound = "1e-08",
                                         .rank = 3}}}};
  const std::string text = to_junit(run);
  EXPECT_THAT(text, HasSubstr("<property name=\"expected\" value=\"&lt;1&gt;\"/><property name=\"got\" value=\"nan\"/>"
                              "<property name=\"bound\" value=\"1e-08\"/><property name=\"rank\" value=\"3\"/>"));
  run.results[0].ranks[0].failures.pop_back();
  EXPECT_THAT(to_junit(run), Not(HasSubstr("name=\"expected\"")));
}

TEST(Junit, SaysOfHowManyCasesARequirementPasses) {
  record::Run run{.header = header({"a.b", "a.c", "a.d"}), .complete = true};
  run.results = {result("a.b", Verdict::pass), result("a.c", Verdict::skip), result("a.d", Verdict::skip)};
  EXPECT_THAT(to_junit(run), HasSubstr("<property name=\"cases\" value=\"1 of 3\"/>"));
  EXPECT_THAT(to_junit(run), HasSubstr("<system-out>pass (1 of 3 cases): the others were skipped"));
  run.results[1].verdict = run.results[2].verdict = Verdict::pass;
  EXPECT_THAT(to_junit(run), Not(HasSubstr("name=\"cases\"")));
}

TEST(Junit, CountsOneCaseAsOne) {
  record::Run run{.header = header({"a.b"}), .results = {result("a.b", Verdict::fail)}, .complete = true};
  EXPECT_THAT(to_junit(run), HasSubstr("COLL-001: 1 of 1 case fails; first: a.b"));
  run.results.clear();
  run.complete = false;
  EXPECT_THAT(to_junit(run), HasSubstr("the run has not finished; 1 of 1 planned case has no result"));
}

}  // namespace
}  // namespace plumbline::junit
