// Statements of a toy suite: what is refused before one is made, and what tampering with one leaves to be found.
#include <fstream>
#include <functional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "harness/expectations/expectations.hpp"
#include "harness/expectations/facts.hpp"
#include "harness/expectations/known.hpp"
#include "harness/record/file.hpp"
#include "harness/statement/evidence.hpp"
#include "harness/statement/folder.hpp"
#include "harness/statement/page.hpp"
#include "harness/statement/signature.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::statement {
namespace {

namespace fs = std::filesystem;
using record::Result;
using record::Verdict;
using run::NamedRun;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using namespace std::chrono_literals;

constexpr const char* kVersion = "7.1";
constexpr std::chrono::sys_days kRunDay = 2026y / 11 / 21;
constexpr std::uint64_t kFresh = 4711;

constexpr const char* kRows = R"(component = "toys"
[[requirement]]
id = "TOY-001"
level = "must"
since = "0.1"
text = "A toy MUST NOT break."
source = ["a catalogue"]
[[requirement]]
id = "TOY-002"
level = "should"
since = "0.1"
text = """
A toy SHOULD be red:
- if it is <big>;
- if it is loud.
"""
source = ["a paper"]
[[requirement]]
id = "TOY-003"
level = "must"
since = "0.1"
text = "A toy with groups MUST share."
source = ["a paper"]
needs = ["groups"]
)";

constexpr const char* kWaiver = R"([[waive]]
subject = "acme"
checks = ["toys.drop"]
link = "https://example.com/1"
reason = "brittle <b>wheels</b> | of old"
grantor = "the maintainers"
date = "2026-01-01"
until = "2027-02-28"
)";

constexpr const char* kAcmeToml = R"(# Who stands behind the subject.
vendor = "Acme, Inc."
product = "acme-ccl"
version = "2.4.1"
type = "backend"                 # backend, adapter or framework
url = "https://example.com/acme-ccl"
contact = "ccl@example.com"
)";
const SubjectFile kAcme = read_subject(kAcmeToml, "S");

std::unique_ptr<suite::Suite> toys() {
  auto suite = std::make_unique<suite::Suite>();
  suite->add(suite::Profile{.name = "toys", .version = "3", .prefixes = {"TOY"}});
  suite->requirements.add_toml(kRows, "toys.toml");
  const auto add = [&](const char* id, const char* requirement) {
    suite->add({.id = id,
                .verifies = {suite->requirements.find(requirement)->citation()},
                .axes = {suite::worlds({2, 3})},
                .body = [](suite::Context&) {}});
  };
  add("toys.drop", "TOY-001");
  add("toys.look", "TOY-002");
  add("toys.share", "TOY-003");
  return suite;
}

record::Header header_of_run(const suite::Suite& suite, const suite::Shard& shard, std::uint64_t fresh = kFresh) {
  record::Header header{
      .command = "check",
      .subject = "backend acme",
      .suite_version = kVersion,
      .plan_hash = "feed",
      .profile = "toys",
      .seed = fresh,
      .started = "2026-11-21T10:02:33Z",
      .arguments = {"plumbline", "check", "--backend", "it's acme", "--statement", "--out", "x", "--seed=9"},
      .environment = {{"cpu", "abacus"}, {"host", "h"}},
      .facts = {{"backend", "acme"}, {"device", "cpu"}, {"launcher", "auto"}}};
  header.statement_seeds = seeds_of_statement(kVersion, fresh);
  if (shard.count > 1) header.shard = record::ShardOf{.index = shard.index, .count = shard.count, .whole_plan = "beef"};
  const auto selection = selection_of_statement(suite::Door::backend, "toys", header.statement_seeds, shard);
  for (const suite::PlannedCase& one : suite::make_plan(suite, selection)) {
    const Result blank = expectations::blank_result(suite, *one.one);
    header.plan.push_back({blank.case_id, blank.requirements, one.mode.name(), one.seed, one.repetition});
  }
  return header;
}

// A run that ends as `verdict_of` says, every rank like its case.
NamedRun run_of(
    const suite::Suite& suite, const suite::Shard& shard = {},
    const std::function<void(Result&)>& change = [](Result&) {}) {
  NamedRun one{.name = shard.count > 1 ? "run-" + std::to_string(shard.index) + ".jsonl" : "run.jsonl"};
  one.run.header = header_of_run(suite, shard);
  one.run.subject = {{"capabilities",
                      {{"backend", "acme"},
                       {"version", "2.4"},
                       {"claims", nlohmann::json::array()},
                       {"dtypes", nlohmann::json::array()}}},
                     {"environment", nlohmann::json::object()}};
  const expectations::Facts facts = expectations::facts_of(one.run);
  const expectations::Known known(suite, nullptr, expectations::identity_of(one.run.subject, facts), facts, kRunDay);
  for (const record::Planned& planned : one.run.header.plan) {
    Result result{.check = planned.case_id.substr(0, planned.case_id.find('[')),
                  .case_id = planned.case_id,
                  .parameters = {{"world", planned.case_id.substr(planned.case_id.find('=') + 1, 1)}},
                  .requirements = planned.requirements,
                  .mode = planned.mode,
                  .seed = planned.seed,
                  .repetition = planned.repetition,
                  .verdict = Verdict::pass};
    for (int rank = 0; rank < std::stoi(result.parameters[0].second); ++rank)
      result.ranks.push_back({.rank = rank, .verdict = Verdict::pass});
    if (result.check == "toys.share") {  // groups are not claimed
      result.verdict = Verdict::skip;
      result.reason = "needs capability groups, which the subject does not claim";
      result.ranks.clear();
    }
    change(result);
    result.expectation = known.of(result);
    one.run.results.push_back(result);
  }
  one.run.complete = true;
  one.run.requirements = run::tallies_of(run::requirement_verdicts(run::with_missing(one.run)));
  return one;
}

void fails(Result& result) {
  result.verdict = Verdict::fail;
  result.reason = "it broke";
  result.ranks[1].verdict = Verdict::fail;
}

std::vector<std::string> problems(const suite::Suite& suite, const std::vector<NamedRun>& shards,
                                  std::chrono::sys_days today = kRunDay) {
  return problems_of(suite, kVersion, shards, today);
}

// ---- what makes a statement ----

TEST(Statement, PlansEveryCaseInEveryArmWithThreeSeeds) {
  const auto suite = toys();
  const auto header = header_of_run(*suite, {});
  EXPECT_THAT(header.plan, SizeIs(3 * 2 * 3 * 3));
  EXPECT_EQ(header.statement_seeds.front(), 1u);
  EXPECT_NE(header.statement_seeds[1], seeds_of_statement("7.2", kFresh)[1]) << "the second is of the release";
  EXPECT_EQ(header.statement_seeds.back(), kFresh);
  const auto adapters = selection_of_statement(suite::Door::adapter, "toys", header.statement_seeds, {});
  EXPECT_FALSE(adapters.every_arm) << "messages of an adapter pass us by";
}

// har.takes_any_run: nothing is asked but that no result is a failure.
bool takes_any_run(const std::vector<NamedRun>& shards) {
  return std::ranges::none_of(shards, [](const NamedRun& one) {
    return std::ranges::any_of(one.run.results, [](const Result& each) { return record::is_failure(each.verdict); });
  });
}

// HARNESS-060@252f
TEST(Statement, IsMadeOnlyOfAWholeRunForOne) {
  const auto suite = toys();
  EXPECT_THAT(problems(*suite, {run_of(*suite)}), IsEmpty());
  const auto refused = [&](const std::function<void(record::Run&)>& change) {
    NamedRun one = run_of(*suite);
    change(one.run);
    const auto found = problems(*suite, {one});
    EXPECT_TRUE(takes_any_run({one})) << "har.takes_any_run is found";
    return found.empty() ? "" : found.front();
  };
  EXPECT_EQ(refused([](record::Run& run) { run.header.suite_version = "7.0"; }),
            "run.jsonl: it is a run of suite 7.0, and this is 7.1; take plumbline 7.0");
  EXPECT_EQ(refused([](record::Run& run) { run.header.statement_seeds.clear(); }),
            "run.jsonl: it is no run for a statement; plumbline check --statement makes one");
  EXPECT_EQ(refused([](record::Run& run) { run.header.command = "bench"; }),
            "run.jsonl: it is no run for a statement; plumbline check --statement makes one");
  EXPECT_EQ(refused([](record::Run& run) { run.header.statement_seeds[1] = 5; }),
            "run.jsonl: its seeds are not those of a statement");
  EXPECT_EQ(refused([](record::Run& run) {
              run.header.statement_seeds = seeds_of_statement(kVersion, 1);
              run.header.seed = 1;
            }),
            "run.jsonl: its seeds are not those of a statement");
  EXPECT_EQ(refused([](record::Run& run) { run.header.profile = "tools"; }),
            "run.jsonl: profile 'tools' is not one of this suite");
  EXPECT_EQ(refused([](record::Run& run) { run.complete = false; }),
            "run.jsonl: it is not complete; plumbline check --statement --resume runs the rest");
  EXPECT_EQ(refused([](record::Run& run) { run.header.expectations = {"e.toml"}; }),
            "run.jsonl: it has expectations, which do not count in a statement");
  EXPECT_EQ(refused([](record::Run& run) { run.header.facts["mutant"] = "toy.brittle"; }),
            "run.jsonl: its subject was broken on purpose (--mutant)");
  EXPECT_EQ(refused([](record::Run& run) { run.header.facts["filter"] = "TOY-001"; }), "run.jsonl: it has a filter");
  EXPECT_EQ(refused([](record::Run& run) { run.header.started = "2027-11-21T10:02:33Z"; }),
            "run.jsonl: it is of 2027-11-21, a day that is yet to come");
  EXPECT_EQ(refused([](record::Run& run) { run.header.started = "soon"; }),
            "run.jsonl: 'soon' is no time of a run: 2026-11-21T10:02:33Z");
}

// HARNESS-060@252f
TEST(Statement, IsMadeOnlyOfThePlanOfItsProfile) {
  const auto suite = toys();
  NamedRun one = run_of(*suite);
  std::erase_if(one.run.header.plan,
                [](const auto& planned) { return planned.case_id.starts_with("toys.drop[world=3"); });
  std::erase_if(one.run.results, [](const auto& result) { return result.case_id.starts_with("toys.drop[world=3"); });
  one.run.requirements = run::tallies_of(run::requirement_verdicts(run::with_missing(one.run)));
  EXPECT_THAT(problems(*suite, {one}), ElementsAre("run.jsonl: toys.drop[world=3] is not in its plan",
                                                   "run.jsonl: nor are 8 more cases of the profile"));
}

// HARNESS-060@252f
TEST(Statement, IsNotMadeOfASubjectThatDoesNotConform) {
  const auto suite = toys();
  const auto broken = [&](const char* check, Verdict verdict) {
    return problems(*suite, {run_of(*suite, {}, [&](Result& result) {
      if (result.check != check) return;
      fails(result);
      result.verdict = verdict;
    })});
  };
  EXPECT_THAT(broken("toys.drop", Verdict::fail), ElementsAre("TOY-001 (must): fail: it broke"));
  EXPECT_THAT(broken("toys.drop", Verdict::flake), ElementsAre(HasSubstr("TOY-001 (must): flake")));
  EXPECT_THAT(broken("toys.drop", Verdict::inconclusive), ElementsAre(HasSubstr("TOY-001 (must): inconclusive")));
  EXPECT_THAT(broken("toys.look", Verdict::crash), ElementsAre(HasSubstr("TOY-002 (should): crash")));
  EXPECT_THAT(broken("toys.look", Verdict::warn), IsEmpty()) << "what only should hold";
  const auto nothing = problems(*suite, {run_of(*suite, {}, [](Result& result) {
    result.verdict = Verdict::skip;
    result.ranks[0].verdict = Verdict::skip;
  })});
  EXPECT_THAT(nothing, ElementsAre("no requirement that must hold has passed: there is nothing to state"));
}

// HARNESS-061@e1e0
TEST(Statement, FindsARecordThatContradictsItself) {
  const auto suite = toys();
  const auto forged = [&](const std::function<void(record::Run&)>& change) {
    NamedRun one = run_of(*suite);
    change(one.run);
    return problems(*suite, {one});
  };
  const auto drop = [](record::Run& run) -> Result& {
    return *std::ranges::find(run.results, "toys.drop", &Result::check);
  };
  EXPECT_THAT(forged([&](record::Run& run) { drop(run).ranks[1].verdict = Verdict::fail; }),
              ElementsAre("run.jsonl: toys.drop[world=2] is said to be a pass, and its rank 1 a fail"));
  EXPECT_THAT(forged([&](record::Run& run) { drop(run).ranks.clear(); }),
              ElementsAre("run.jsonl: toys.drop[world=2] is said to be a pass, and 0 of 2 ranks have reported"));
  EXPECT_THAT(forged([&](record::Run& run) { drop(run).tries = {Verdict::crash, Verdict::pass}; }),
              ElementsAre("run.jsonl: toys.drop[world=2] is said to be a pass, and a try of it a crash"));
  EXPECT_THAT(forged([&](record::Run& run) { drop(run).verdict = Verdict::warn; }),
              Contains("run.jsonl: toys.drop[world=2] is said to be a warn, and a requirement of it must hold"));
  EXPECT_THAT(forged([&](record::Run& run) { drop(run).violated = {"TOY-002"}; }),
              Contains("run.jsonl: toys.drop[world=2] violates TOY-002, which is none of its requirements"));
  EXPECT_THAT(forged([&](record::Run& run) { drop(run).parameters = {{"world", "x"}}; }),
              Contains(HasSubstr("other requirements or parameters")));
  EXPECT_THAT(forged([&](record::Run& run) { drop(run).verdict = Verdict::aborted; }), testing::Not(IsEmpty()));
  EXPECT_THAT(forged([&](record::Run& run) {
                drop(run).verdict = Verdict::skip;
                drop(run).ranks.clear();
              }),
              Contains("run.jsonl: toys.drop[world=2] is skipped, and the subject claims all that it needs"));
  EXPECT_THAT(forged([](record::Run& run) { run.requirements["TOY-003"].verdict = "pass"; }),
              ElementsAre(HasSubstr("the totals at its end are not those of its results")));
  EXPECT_THAT(forged([](record::Run& run) { run.results.pop_back(); }), Contains(HasSubstr("the totals at its end")));
  EXPECT_THAT(forged([&](record::Run& run) { drop(run).requirements = {"TOY-002"}; }),
              Contains(HasSubstr("has another check, other requirements or parameters than in this suite")));
  EXPECT_THAT(forged([&](record::Run& run) {
                drop(run).expectation = record::Expectation{.kind = record::Expectation::Kind::waiver,
                                                            .reason = "mine",
                                                            .origin = "conformance/waivers.toml:1"};
              }),
              Contains(HasSubstr("is waived, or taken out, otherwise than this suite says")));
  EXPECT_THAT(forged([&](record::Run& run) { drop(run).case_id = "toys.drop[world=99]"; }),
              Contains(HasSubstr("toys.drop[world=99] has a result and is not planned")));
}

TEST(Statement, IsOfAllShardsOrOfNone) {
  const auto suite = toys();
  const std::vector<NamedRun> both{run_of(*suite, {1, 2}), run_of(*suite, {2, 2})};
  EXPECT_THAT(problems(*suite, both), IsEmpty());
  EXPECT_THAT(problems(*suite, {both[0]}), ElementsAre("run-1.jsonl: shard 2 of 2 is missing"));
  EXPECT_THAT(problems(*suite, {both[0], both[0]}), ElementsAre("run-1.jsonl: is shard 1 as well as run-1.jsonl"));
  auto other = both;
  other[1].run.header.environment["cpu"] = "slide rule";
  EXPECT_THAT(problems(*suite, other), ElementsAre(HasSubstr("shards of one run must agree")));
  auto older = both;
  older[1].run.header.started = "2026-10-01T00:00:00Z";
  EXPECT_EQ(make_statement(*suite, kAcme, older).made, std::chrono::sys_days(2026y / 10 / 1)) << "its earliest part";
  EXPECT_EQ(make_statement(*suite, kAcme, both).whole.results.size(), run_of(*suite).run.results.size());
}

TEST(Statement, EndsWithItsFirstWaiver) {
  const auto suite = toys();
  EXPECT_EQ(make_statement(*suite, kAcme, {run_of(*suite)}).valid_until, std::chrono::sys_days(2027y / 11 / 21));
  suite->waivers = suite::waivers_of_toml(kWaiver, "waivers.toml");
  const auto run = run_of(*suite, {}, [](Result& result) {
    if (result.check == "toys.drop") fails(result);
  });
  EXPECT_THAT(problems(*suite, {run}), ElementsAre(HasSubstr("no requirement that must hold has passed")));
  const Statement statement = make_statement(*suite, kAcme, {run});
  EXPECT_THAT(statement.waivers, SizeIs(1));
  EXPECT_EQ(statement.valid_until, std::chrono::sys_days(2027y / 2 / 28));
  EXPECT_THAT(markdown_of(statement), HasSubstr("brittle &lt;b>wheels&lt;/b> \\| of old"));
  EXPECT_THAT(html_of(statement), HasSubstr("brittle &lt;b&gt;wheels&lt;/b&gt; | of old"));
  EXPECT_THAT(markdown_of(statement),
              HasSubstr("| A toy SHOULD be red:<br>- if it is &lt;big>;<br>- if it is loud. |"));
  EXPECT_THAT(html_of(statement),
              HasSubstr("<td>A toy SHOULD be red:<ul><li>if it is &lt;big&gt;;</li><li>if it is loud.</li></ul></td>"));
}

TEST(SubjectFile, HasTheTypeOfItsRun) {
  const auto problem = [](const char* type, suite::Door door) { return problem_of_type({.type = type}, door); };
  EXPECT_EQ(problem("backend", suite::Door::backend), "");
  EXPECT_EQ(problem("adapter", suite::Door::adapter), "");
  EXPECT_EQ(problem("framework", suite::Door::adapter), "");
  EXPECT_EQ(problem("framework", suite::Door::job), "");
  EXPECT_EQ(problem("framework", suite::Door::backend), "type 'framework', and the run is of a backend");
  EXPECT_EQ(problem("backend", suite::Door::adapter),
            "type 'backend', and the run is of an adapter: it is adapter or framework");
  EXPECT_EQ(problem("adapter", suite::Door::job), "type 'adapter', and the run is of a job: it is framework");
}

TEST(SubjectFile, IsRefusedWithItsPlaceAndWhatWouldBeRight) {
  EXPECT_THROW((void)read_subject(kSubjectTemplate, "S"), InvalidArgument) << "it is to be filled in";
  const auto refusal = [](const std::string& from, const std::string& to) -> std::string {
    std::string text = kAcmeToml;
    text.replace(text.find(from), from.size(), to);
    try {
      (void)read_subject(text, "S");
      return "";
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal("\"backend\" ", "\"library\" "),
              HasSubstr("S:5:8: type 'library'; it is backend, adapter or framework"));
  EXPECT_THAT(refusal("\"acme-ccl\"", "\" \""), HasSubstr("S:3:11: product is empty"));
  EXPECT_THAT(refusal("https://", ""), HasSubstr("url 'example.com/acme-ccl'; it begins with https://"));
  EXPECT_THAT(refusal("contact", "kontact"), HasSubstr("kontact"));
  EXPECT_THAT(refusal("\"2.4.1\"", "2.4"), HasSubstr("S:4:"));
}

// ---- the folder ----

std::string text_in(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

void replace_in(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = text_in(file);
  ASSERT_NE(text.find(from), std::string::npos) << from << " in " << file;
  text.replace(text.find(from), from.size(), to);
  std::ofstream(file, std::ios::binary) << text;
}

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    NamedRun one = run_of(*suite_);
    const fs::path made = temporary_.path() / "run";
    {
      record::Writer writer(made, one.run.header);
      writer.subject(one.run.subject);
      for (const Result& result : one.run.results) writer.write(result);
      writer.complete(2, one.run.requirements);
    }
    shards_ = {{"run.jsonl", record::read(made / "run.jsonl")}};
    records_ = {made / "run.jsonl"};
    write(folder_);
  }
  void write(const fs::path& folder, const fs::path& key = {}) const {
    write_folder(folder, *suite_, kAcmeToml, shards_, records_, key);
  }
  [[nodiscard]] Verified verify(std::chrono::sys_days today = kRunDay, const fs::path& signers = {},
                                const char* version = kVersion) const {
    return verify_folder(folder_, *suite_, version, signers, today);
  }
  // What an edit of one file leaves to be found: alone, and where the forger makes SHA256SUMS again.
  [[nodiscard]] std::vector<std::string> problems_after(const std::string& file, const std::string& from,
                                                        const std::string& to) {
    replace_in(folder_ / file, from, to);
    return verify().problems;
  }
  void renew_sums() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().filename() != "SHA256SUMS") names.push_back(entry.path().filename().string());
    std::ofstream sums(folder_ / "SHA256SUMS");
    for (const auto& [name, digest] : digests_of(folder_, names)) sums << digest << "  " << name << '\n';
  }
  void renew_statement_of(const std::string& file) const {
    auto statement = nlohmann::json::parse(text_in(folder_ / "statement.json"));
    for (auto& one : statement["subject"])
      if (one["name"] == file) one["digest"]["sha256"] = digests_of(folder_, {file}).at(file);
    std::ofstream(folder_ / "statement.json") << statement.dump(2) << '\n';
    renew_sums();
  }

  job::TemporaryFolder temporary_;
  const std::unique_ptr<suite::Suite> suite_ = toys();
  const fs::path folder_ = temporary_.path() / "statement";
  std::vector<NamedRun> shards_;
  std::vector<fs::path> records_;
};

TEST_F(Folder, HoldsWhatItSays) {
  const Verified found = verify();
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_EQ(
      found.claim,
      "acme-ccl 2.4.1 of Acme, Inc. conforms to profile toys 3 of Plumbline 7.1: 1 of 2 MUST requirements pass, 1 is "
      "not claimed or was not run");
  EXPECT_EQ(found.valid_until, std::chrono::sys_days(2027y / 11 / 21));
  EXPECT_FALSE(found.is_signed);
  EXPECT_THAT(text_in(folder_ / "REPRODUCE.sh"),
              HasSubstr("exec plumbline check --backend 'it'\\''s acme' --statement --seed 4711 --out"));
  EXPECT_THAT(text_in(folder_ / "STATEMENT.md"),
              HasSubstr("| TOY-003 | not claimed | needs capability groups, which the subject does not claim |"));
}

TEST_F(Folder, HostileJsonIsNamedAndEndsNothing) {
  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  replace_in(folder_ / "run.jsonl", "\"environment\":{", "\"environment\":{\"a\":" + deep + ",");
  EXPECT_THAT(verify().problems, Contains(HasSubstr("nested deeper than 100 levels")));
  std::ofstream(folder_ / "statement.json") << deep;
  EXPECT_THAT(verify().problems, Contains(HasSubstr("statement.json: it is no in-toto statement: it is nested")));
}

TEST_F(Folder, AShardThatIsNoneIsNamed) {
  replace_in(folder_ / "run.jsonl", "\"schema\":1,",
             "\"schema\":1,\"shard\":{\"index\":1,\"count\":-1,\"whole_plan\":\"x\"},");
  EXPECT_THAT(verify().problems, Contains(HasSubstr("shard 1 of -1; it is from 1 to their number")));
}

TEST_F(Folder, IsWrittenAlsoBySlash) {
  write(temporary_.path() / "slashed" / "");
  EXPECT_TRUE(fs::exists(temporary_.path() / "slashed" / "STATEMENT.md"));
}

TEST_F(Folder, IsNotWrittenOverAnother) {
  EXPECT_THROW(write(folder_), InvalidArgument);
  EXPECT_THAT(verify().problems, IsEmpty());
}

// har.sums_alone: a folder is right where SHA256SUMS has the digest of each file.
bool sums_alone(const fs::path& folder) {
  std::istringstream lines(text_in(folder / "SHA256SUMS"));
  for (std::string line; std::getline(lines, line);)
    if (const std::string name = line.substr(66); digests_of(folder, {name}).at(name) != line.substr(0, 64))
      return false;
  return true;
}

// HARNESS-061@e1e0
TEST_F(Folder, EveryFileThatWasChangedIsNamed) {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name == "SHA256SUMS") continue;
    const std::string text = text_in(entry.path());
    std::ofstream(entry.path(), std::ios::app) << ' ';
    EXPECT_THAT(verify().problems, Contains(testing::StartsWith(name + ": it was changed: its SHA-256 is "))) << name;
    std::ofstream(entry.path(), std::ios::binary) << text;
  }
  EXPECT_THAT(verify().problems, IsEmpty());
}

// HARNESS-061@e1e0
TEST_F(Folder, AnEditIsNamedThoughItsSumsAreRight) {
  replace_in(folder_ / "STATEMENT.md", "| TOY-003 | not claimed |", "| TOY-003 | pass |");
  renew_sums();
  EXPECT_TRUE(sums_alone(folder_)) << "har.sums_alone is found";
  EXPECT_THAT(verify().problems, ElementsAre(HasSubstr("STATEMENT.md: it was changed")));
  renew_statement_of("STATEMENT.md");
  EXPECT_TRUE(sums_alone(folder_));
  EXPECT_THAT(verify().problems, testing::UnorderedElementsAre("STATEMENT.md: it does not say what the records prove"));
}

// HARNESS-061@e1e0
TEST_F(Folder, AForgedRecordIsHeldToItsRanksAndTotals) {
  replace_in(folder_ / "run.jsonl", "\"verdict\":\"skip\"", "\"verdict\":\"pass\"");
  renew_statement_of("run.jsonl");
  EXPECT_TRUE(sums_alone(folder_));
  EXPECT_THAT(verify().problems, Contains(HasSubstr("run.jsonl: the totals at its end are not those of its results")));
}

// HARNESS-061@e1e0
TEST_F(Folder, WhatIsMissingOrTooMuchIsNamed) {
  std::ofstream(folder_ / "CERTIFICATE.html") << "x";
  renew_sums();
  EXPECT_THAT(verify().problems, ElementsAre("CERTIFICATE.html: it is no part of a statement"));
  fs::remove(folder_ / "CERTIFICATE.html");
  renew_sums();
  EXPECT_THAT(verify().problems, IsEmpty());
  std::ofstream(folder_ / "SHA256SUMS", std::ios::app) << "certified by the maintainers\n";
  EXPECT_THAT(verify().problems, ElementsAre("SHA256SUMS: it has other lines than a digest for each file"));
  renew_sums();
  for (const char* name :
       {"run.jsonl", "SUBJECT.toml", "statement.json", "SHA256SUMS", "junit.xml", "STATEMENT.html"}) {
    const std::string text = text_in(folder_ / name);
    fs::remove(folder_ / name);
    EXPECT_THAT(verify().problems, Contains(testing::StartsWith(std::string(name) + ": it is missing"))) << name;
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::ofstream(folder_ / "statement.json") << "{";
  EXPECT_THAT(verify().problems, Contains(HasSubstr("statement.json: it is no JSON")));
}

// What an archive may carry: links, pipes and names that lead out of the folder. Nothing outside is read.
TEST_F(Folder, WhatLeadsOutOfItIsNamedAndNotRead) {
  const fs::path outside = temporary_.path() / "outside";
  fs::rename(folder_ / "junit.xml", outside);
  fs::create_symlink(outside, folder_ / "junit.xml");
  EXPECT_THAT(verify().problems, ElementsAre("junit.xml: it is no part of a statement"));
  fs::remove(folder_ / "junit.xml");
  ASSERT_EQ(::mkfifo((folder_ / "junit.xml").c_str(), 0600), 0);
  EXPECT_THAT(verify().problems, ElementsAre("junit.xml: it is no part of a statement"));
  fs::remove(folder_ / "junit.xml");
  fs::rename(outside, folder_ / "junit.xml");
  EXPECT_THAT(verify().problems, IsEmpty());
  std::ofstream(folder_ / "SHA256SUMS", std::ios::app) << std::string(64, '0') << "  ../../outside\n";
  EXPECT_THAT(verify().problems, ElementsAre("../../outside: it is missing, and SHA256SUMS lists it"));
  renew_sums();
  fs::rename(folder_ / "run.jsonl", outside);
  fs::create_symlink(outside, folder_ / "run.jsonl");
  EXPECT_THAT(verify().problems,
              testing::UnorderedElementsAre("run.jsonl: it is no part of a statement", "run.jsonl: it is missing"));
}

TEST_F(Folder, OfAnotherVersionOrDayDoesNotHold) {
  EXPECT_THAT(verify(kRunDay, {}, "7.2").problems,
              ElementsAre("run.jsonl: it is a run of suite 7.1, and this is 7.2; take plumbline 7.1"));
  EXPECT_THAT(verify(2027y / 11 / 21).problems, IsEmpty()) << "its last day";
  EXPECT_THAT(verify(2027y / 11 / 22).problems, ElementsAre("statement.json: it ended on 2027-11-21"));
  EXPECT_THAT(verify(2026y / 11 / 1).problems,
              ElementsAre("run.jsonl: it is of 2026-11-21, a day that is yet to come"));
}

TEST_F(Folder, IsSignedByWhoHasTheKey) {
  if (std::system("command -v ssh-keygen >/dev/null") != 0) GTEST_SKIP() << "no ssh-keygen";
  const fs::path key = temporary_.path() / "key", other = temporary_.path() / "other";
  for (const fs::path& one : {key, other})
    ASSERT_EQ(std::system(("ssh-keygen -q -t ed25519 -N '' -f " + one.string()).c_str()), 0);
  const fs::path signers = temporary_.path() / "signers", strangers = temporary_.path() / "strangers";
  std::ofstream(signers) << "ccl@example.com " << text_in(key.string() + ".pub");
  std::ofstream(strangers) << "eve@example.com " << text_in(other.string() + ".pub");
  EXPECT_THAT(verify(kRunDay, signers).problems,
              ElementsAre("statement.json.sig: it is missing; --signers demands a signature"));
  fs::remove_all(folder_);
  write(folder_, key);
  EXPECT_TRUE(verify().is_signed);
  EXPECT_EQ(verify().signer, "") << "nobody has said whose key it is";
  const Verified found = verify(kRunDay, signers);
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_EQ(found.signer, "ccl@example.com");
  EXPECT_THAT(verify(kRunDay, strangers).problems, ElementsAre(HasSubstr("has nobody with the key of the signature")));
  // The whole forged, but for the signature.
  replace_in(folder_ / "SUBJECT.toml", "acme-ccl", "acne-ccl");
  renew_statement_of("SUBJECT.toml");
  EXPECT_THAT(verify().problems, Contains(HasSubstr("statement.json.sig: the signature is not of this file")));
  EXPECT_THAT(verify(kRunDay, signers).problems,
              Contains("statement.json.sig: the signature of ccl@example.com is not of this file"));
  EXPECT_THROW(write(temporary_.path() / "third", temporary_.path() / "no key"), InvalidArgument);
  EXPECT_FALSE(fs::exists(temporary_.path() / "third")) << "whole or not at all";
}

}  // namespace
}  // namespace plumbline::statement
