// The record as a file.
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/record/environment.hpp"
#include "harness/record/file.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::record {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

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
                   .failures = {{"a.cpp:3", "words", "COLL-001", false, "0.25", "nan", "1e-08", 2},
                                {"", "uncaught exception: it broke", "", true}},
                   .last_event = "entered",
                   .host = "node2"}};
  {
    Writer writer(folder_, header({"collectives.a[world=2]"}));
    writer.subject({{"capabilities", {{"backend", "local"}}}});
    writer.write(failed);
    writer.write(Measurement{.benchmark = "b", .labels = {{"world", "2"}}, .samples = {1, 2}, .unit = "seconds"});
    writer.write(Measurement{.benchmark = "c",
                             .samples = {1, 2, 3},
                             .unit = "seconds",
                             .launches = {{.samples = {1, 2}, .host = {{"steal", 0.5}}}, {.samples = {3}}},
                             .noisy = "1 of 2 launches"});
    writer.write(Step{.step = 3, .loss = std::numeric_limits<double>::quiet_NaN(), .values = {{"bound", 1e-9}}});
    writer.complete(4, {{"COLL-001", {"pass", 40, 3}}});
  }
  const record::Run run = read(file());
  EXPECT_TRUE(run.complete);
  EXPECT_EQ(run.seconds, 4);
  EXPECT_EQ(run.requirements.at("COLL-001").ran, 3);
  EXPECT_EQ(run.header.plan.at(0).key(), failed.key());
  EXPECT_EQ(run.subject.at("capabilities").at("backend"), "local");
  ASSERT_EQ(run.results.size(), 1u);
  EXPECT_EQ(run.results[0].parameters, failed.parameters);
  const std::vector<Failure>& failures = run.results[0].ranks.at(0).failures;
  EXPECT_EQ(failures.at(0).message, "words");
  EXPECT_EQ(failures.at(0).requirement, "COLL-001");
  EXPECT_FALSE(failures.at(0).uncaught);
  EXPECT_EQ(failures.at(0).expected, "0.25");
  EXPECT_EQ(failures.at(0).got, "nan");
  EXPECT_EQ(failures.at(0).bound, "1e-08");
  EXPECT_EQ(failures.at(0).rank, 2);
  EXPECT_TRUE(failures.at(1).uncaught);
  EXPECT_EQ(run.results[0].ranks.at(0).last_event, "entered");
  EXPECT_EQ(run.results[0].ranks.at(0).host, "node2");
  EXPECT_THAT(run.measurements.at(0).samples, ElementsAre(1, 2));
  EXPECT_TRUE(run.measurements.at(0).launches.empty()) << "of an older record, or a study";
  const Measurement& launched = run.measurements.at(1);
  EXPECT_THAT(launched.launches.at(0).samples, ElementsAre(1, 2));
  EXPECT_EQ(launched.launches.at(0).host.at("steal"), 0.5);
  EXPECT_THAT(launched.launches.at(1).samples, ElementsAre(3));
  EXPECT_EQ(launched.noisy, "1 of 2 launches");
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

// HARNESS-022@f1e6
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

// HARNESS-001@068b
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
  EXPECT_THAT(words_of<InvalidArgument>([&] { (void)read(file()); }),
              HasSubstr("run.jsonl:1: no JSON from byte 2 on; "));
}

TEST_F(Record, NamesWhatCannotBeWritten) {
  std::ofstream(folder_ / "file") << "";
  EXPECT_THAT(words_of<RuntimeFailure>([&] { Writer(folder_ / "file", header({})); }), HasSubstr("file'"));
  EXPECT_THAT(words_of<RuntimeFailure>([] { write_file("/dev/full/x", "text"); }), HasSubstr("/dev/full/x"));
}

TEST_F(Record, IsWrittenToWhatStandsThere) {
  const auto text_of = [](const fs::path& file) {
    std::ifstream stream(file);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const auto kept = folder_ / "kept.txt", link = folder_ / "link.txt";
  write_file(kept, "first");
  fs::permissions(kept, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(kept, link);
  write_file(link, "second");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(text_of(kept), "second");
  EXPECT_EQ(fs::status(kept).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_THAT(words_of<RuntimeFailure>([] { write_file("/dev/full", "text"); }), HasSubstr("No space left"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  fs::create_symlink("/dev/null", folder_ / "null");
  write_file(folder_ / "null", "text");
  EXPECT_TRUE(fs::is_character_file(folder_ / "null"));
}

// Somebody who can write the folder must not choose which file of ours is overwritten.
TEST_F(Record, IsNotBegunThroughALink) {
  const auto kept = folder_ / "kept.txt";
  std::ofstream(kept) << "mine";
  for (const char* name : {"run.jsonl.new", "junit.xml.new"}) fs::create_symlink(kept, folder_ / name);
  EXPECT_THAT(words_of<RuntimeFailure>([&] { Writer(folder_, header({"a"})); }), HasSubstr("cannot write"));
  EXPECT_THAT(words_of<RuntimeFailure>([&] { write_file(folder_ / "junit.xml", "text"); }), HasSubstr("cannot write"));
  EXPECT_EQ(fs::file_size(kept), 4u);
}

TEST_F(Record, IsNotWrittenThroughAnotherUsersLinkInAFolderOfAll) {
  if (::geteuid() != 0) GTEST_SKIP() << "only the superuser can make another user's link";
  const auto kept = folder_ / "kept.txt", shared = folder_ / "shared", link = shared / "junit.xml";
  std::ofstream(kept) << "mine";
  fs::create_directory(shared);
  fs::permissions(shared, fs::perms::all | fs::perms::sticky_bit);
  fs::create_symlink(kept, link);
  ASSERT_EQ(::lchown(link.c_str(), 65534, 65534), 0);
  EXPECT_THAT(words_of<RuntimeFailure>([&] { write_file(link, "text"); }), HasSubstr("another user's link"));
  EXPECT_EQ(fs::file_size(kept), 4u);
  fs::permissions(shared, fs::perms::owner_all);
  write_file(link, "text of ours");
  EXPECT_EQ(fs::file_size(kept), 12u) << "in a folder of our own links are ours";
}

TEST(Environment, HasOnlyVariablesThatDecideWhatASubjectDoesAndNoSecret) {
  ::setenv("ACME_PASSWORD", "hush", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "hush", 1);
  ::setenv("OMPI_MCA_auth_token", "hush", 1);
  ::setenv("UCX_TOKEN", "hush", 1);
  ::setenv("NCCL_ALGO", "Ring", 1);
  const nlohmann::json environment = capture_environment();
  EXPECT_THAT(environment.dump(), testing::Not(HasSubstr("hush")));
  const auto& variables = environment.at("variables");
  EXPECT_FALSE(variables.contains("ACME_PASSWORD"));
  EXPECT_EQ(variables.at("UCX_TOKEN"), "(withheld)");
  EXPECT_EQ(variables.at("NCCL_ALGO"), "Ring");
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
  written.requirements["COLL-001"] = {"must", "Every member MUST have the sum.", {"COL-02", "MPI-3.1 section 5.9"}};
  written.checks["a"] = {"conformance/a.cpp", 3};
  Writer(folder_, written).write(result("a", Verdict::pass));
  const Header back = read(file()).header;
  EXPECT_EQ(nlohmann::json(back), nlohmann::json(written));
  EXPECT_EQ(back.labels.at("cluster"), "a=b");
  EXPECT_EQ(back.checks.at("a").line, 3);
}

}  // namespace
}  // namespace plumbline::record
