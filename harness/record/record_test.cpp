// The record as a file, and what is derived from it.
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/record/file.hpp"
#include "harness/record/junit.hpp"
#include "harness/record/summary.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/temporary_folder.hpp"

namespace plumbline::record {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Record : public testing::Test {
 protected:
  [[nodiscard]] fs::path file() const { return folder_ / "run.jsonl"; }
  [[nodiscard]] std::string text() const {
    std::ifstream stream(file());
    std::ostringstream out;
    out << stream.rdbuf();
    return out.str();
  }
  job::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

Result result(const std::string& case_id, Verdict verdict, int attempt = 1) {
  return {.check = case_id.substr(0, case_id.find('[')),
          .case_id = case_id,
          .requirements = {"COLL-001"},
          .seed = 1,
          .attempt = attempt,
          .verdict = verdict,
          .reason = verdict == Verdict::pass ? "" : "because"};
}

Header header(const std::vector<std::string>& cases) {
  Header header{.command = "check", .subject = "backend local", .suite_version = "0.1", .seed = 1};
  for (const std::string& one : cases) header.plan.push_back({.case_id = one, .requirements = {"COLL-001"}, .seed = 1});
  return header;
}

template <class Error>
std::string words_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(Record, ReadsBackWhatWasWritten) {
  Result failed = result("collectives.a[world=2]", Verdict::fail);
  failed.parameters = {{"world", "2"}};
  failed.ranks = {{.rank = 1,
                   .verdict = Verdict::fail,
                   .seconds = 0.5,
                   .failures = {{"a.cpp:3", "words", "COLL-001"}, {"", "uncaught exception: it broke", "", true}},
                   .last_event = "entered"}};
  {
    Writer writer(folder_, header({"collectives.a[world=2]"}));
    writer.subject({{"capabilities", {{"backend", "local"}}}});
    writer.write(failed);
    writer.write(Measurement{.benchmark = "b", .labels = {{"world", "2"}}, .samples = {1, 2}, .unit = "seconds"});
    writer.write(Step{.step = 3, .loss = std::numeric_limits<double>::quiet_NaN(), .values = {{"bound", 1e-9}}});
    writer.complete(4);
  }
  const record::Run run = read(file());
  EXPECT_TRUE(run.complete);
  EXPECT_EQ(run.seconds, 4);
  EXPECT_EQ(run.header.plan.at(0).key(), failed.key());
  EXPECT_EQ(run.subject.at("capabilities").at("backend"), "local");
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].parameters, failed.parameters);
  const std::vector<Failure>& failures = run.results[0].ranks.at(0).failures;
  EXPECT_EQ(failures.at(0).message, "words");
  EXPECT_EQ(failures.at(0).requirement, "COLL-001");
  EXPECT_FALSE(failures.at(0).uncaught);
  EXPECT_TRUE(failures.at(1).uncaught);
  EXPECT_EQ(run.results[0].ranks.at(0).last_event, "entered");
  EXPECT_THAT(run.measurements.at(0).samples, ElementsAre(1, 2));
  EXPECT_TRUE(std::isnan(run.steps.at(0).loss));
}

TEST_F(Record, ReadsFailuresOfOlderOnes) {
  const auto older = nlohmann::json::parse(
      R"({"rank": 0, "verdict": "fail", "seconds": 1, "failures": [{"where": "a.cpp:3", "message": "words"}]})");
  const auto rank = older.get<RankResult>();
  EXPECT_EQ(rank.failures.at(0).message, "words");
  EXPECT_FALSE(rank.failures.at(0).uncaught);
  EXPECT_EQ(nlohmann::json(rank), older) << "and writes no more than there is to say";
}

// HARNESS-022@eacf
TEST_F(Record, LeavesTheOneBeforeItUntilItHasAResult) {
  Writer(folder_, header({"a"})).write(result("a", Verdict::pass));
  const std::string before = text();
  {
    const Writer second(folder_, header({"b"}));
    EXPECT_FALSE(second.in_place());
  }
  EXPECT_EQ(text(), before);
  EXPECT_FALSE(fs::exists(file().string() + ".new"));
  Writer third(folder_, header({"b"}));
  third.note("words are no result");
  EXPECT_EQ(text(), before);
  third.write(result("b", Verdict::pass));
  EXPECT_TRUE(third.in_place());
  EXPECT_EQ(read(file()).header.plan.at(0).case_id, "b");
}

TEST_F(Record, IsWrittenByOneRunAtATime) {
  const Writer first(folder_, header({"a"}));
  EXPECT_THAT(words_of<RuntimeFailure>([&] { Writer second(folder_, header({"a"})); }), HasSubstr("another run"));
}

// HARNESS-001@d90d
TEST_F(Record, GoesOnAfterATornLine) {
  {
    Writer writer(folder_, header({"a", "b"}));
    writer.write(result("a", Verdict::crash));
  }
  std::ofstream(file(), std::ios::app) << R"({"type":"result","case":"b)";
  EXPECT_FALSE(read(file()).complete);
  EXPECT_EQ(read(file()).results.size(), 1u);
  {
    Writer writer = Writer::resume(folder_);
    writer.write(result("a", Verdict::pass, 2));
    writer.write(result("b", Verdict::pass));
    writer.complete(1);
  }
  const record::Run run = read(file());
  EXPECT_TRUE(run.complete);
  ASSERT_EQ(run.results.size(), 2u);
  EXPECT_EQ(run.results[0].verdict, Verdict::pass) << "the last attempt holds";
  EXPECT_EQ(run.results[0].attempt, 2);
}

TEST_F(Record, SaysWhereItCannotBeRead) {
  {
    Writer(folder_, header({"a"})).write(result("a", Verdict::pass));
  }
  std::ofstream(file(), std::ios::app) << "{\"type\":\"result\"}\n";
  EXPECT_THAT(words_of<InvalidArgument>([&] { (void)read(file()); }), HasSubstr("run.jsonl:3: "));
  std::ofstream(file()) << "no record\n";
  EXPECT_THAT(words_of<InvalidArgument>([&] { (void)read(file()); }), HasSubstr("run.jsonl:1: no JSON from byte 2 on; "));
}

TEST_F(Record, NamesWhatCannotBeWritten) {
  std::ofstream(folder_ / "file") << "";
  EXPECT_THAT(words_of<RuntimeFailure>([&] { Writer(folder_ / "file", header({})); }), HasSubstr("file'"));
  EXPECT_THAT(words_of<RuntimeFailure>([] { write_file("/dev/full/x", "text"); }), HasSubstr("/dev/full/x"));
}

// HARNESS-005@44ff
TEST(Summary, GivesEachLostCaseAsMissingWithItsRequirements) {
  record::Run run{.header = header({"a", "b"})};
  run.results = {result("a", Verdict::pass)};
  const auto results = with_missing(run);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].verdict, Verdict::missing);
  EXPECT_EQ(results[1].key(), run.header.plan[1].key());
  EXPECT_EQ(requirement_judgements(results).at("COLL-001"), Judgement::missing) << "half of its cases prove nothing";
  EXPECT_EQ(exit_status(run), 1);
}

// HARNESS-015@c131
TEST(Summary, HasTheExitStatusOfTheWorst) {
  const auto status = [](const std::vector<Verdict>& verdicts) {
    record::Run run;
    for (const Verdict verdict : verdicts) {
      const std::string name = "a" + std::to_string(run.results.size());
      run.header.plan.push_back({.case_id = name, .seed = 1});
      run.results.push_back(result(name, verdict));
    }
    return exit_status(run);
  };
  EXPECT_EQ(status({Verdict::pass, Verdict::skip, Verdict::warn}), 0);
  for (const Verdict bad : {Verdict::fail, Verdict::refuse, Verdict::hang, Verdict::crash, Verdict::missing})
    EXPECT_EQ(status({Verdict::pass, bad, Verdict::error}), 1) << name_of(bad);
  EXPECT_EQ(status({Verdict::pass, Verdict::error}), 3);
  EXPECT_EQ(status({Verdict::skip}), 3) << "a run in which nothing ran";
  EXPECT_EQ(status({}), 3);
}

// HARNESS-014@06c5
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

// HARNESS-031@035c
TEST(Junit, NamesACaseTheSameHoweverItEndsAndWhateverItsSeed) {
  std::set<std::vector<std::string>> names;
  std::set<std::string> keys;  // har.seed_in_name
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::skip, Verdict::warn, Verdict::error})
    for (const std::uint64_t seed : {1, 4711}) {
      record::Run run{.header = header({}), .complete = true};
      for (const char* const arm : {"plain", "rendezvous", "chaos:4711"}) {
        Result one = result("collectives.a[world=2]", verdict);
        one.seed = seed;
        one.arm = std::string(arm) == "chaos:4711" ? fmt::format("chaos:{}", seed) : arm;
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
  EXPECT_EQ(exit_status(run), 0);
  run.header.warnings_fail = true;
  EXPECT_THAT(to_junit(run), HasSubstr("<failure message=\"COLL-001: because\" type=\"warn\""));
  EXPECT_EQ(exit_status(run), 1);
}

// HARNESS-005@44ff
TEST(Summary, IsNotRunWhatARunThatWasStoppedHasLeft) {
  record::Run run{.header = header({"a", "b"})};
  run.results = {result("a", Verdict::pass)};
  run.stopped = "the budget of 5 s is spent";
  EXPECT_EQ(with_missing(run).at(1).verdict, Verdict::not_run);
  EXPECT_EQ(exit_status(run), 3) << "half a run proves nothing of the whole";
  run.results[0].verdict = Verdict::fail;
  EXPECT_EQ(exit_status(run), 1);
}

TEST(Summary, NamesTheSubjectWithoutItsCommandLine) {
  const auto name = [](const std::string& subject, const std::string& chosen = "") {
    return name_of_subject({.header = {.subject = subject, .subject_name = chosen}});
  };
  EXPECT_EQ(name("backend mpi segment_elements=7, mutant col.x"), "mpi");
  EXPECT_EQ(name("backend local, mutant col.x"), "local");
  EXPECT_EQ(name("adapter python3 /secret/path.py --token x"), "adapter");
  EXPECT_EQ(name("job 'python3 train.py' (starts its ranks)"), "job");
  EXPECT_EQ(name("adapter python3 x.py", "acme"), "acme");
}

TEST_F(Record, KeepsWhyItWasStoppedUntilItIsResumed) {
  {
    Writer writer(folder_, header({"a", "b"}));
    writer.write(result("a", Verdict::pass));
    writer.stopped("the budget of 5 s is spent");
  }
  EXPECT_EQ(read(file()).stopped, "the budget of 5 s is spent");
  (void)Writer::resume(folder_);
  EXPECT_EQ(read(file()).stopped, "");
}

TEST_F(Record, KeepsWhatReportsSayOfTheRun) {
  Header written = header({"a"});
  written.subject_name = "acme";
  written.labels = {{"cluster", "a=b"}};
  written.budget_seconds = 5;
  written.warnings_fail = true;
  written.requirements["COLL-001"] = {"must", "Every member MUST have the sum."};
  written.checks["a"] = {"conformance/a.cpp", 3};
  Writer(folder_, written).write(result("a", Verdict::pass));
  const Header back = read(file()).header;
  EXPECT_EQ(nlohmann::json(back), nlohmann::json(written));
  EXPECT_EQ(back.labels.at("cluster"), "a=b");
  EXPECT_EQ(back.checks.at("a").line, 3);
}

}  // namespace
}  // namespace plumbline::record
