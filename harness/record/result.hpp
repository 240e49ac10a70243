// harness/record/result.hpp: what a run found out, as values. run.jsonl is a list of these, a line each.
//
// Model   A header, then results and measurements as they come, last `complete`. Only the driver writes. Every reader
//         (console, JUnit, metrics, exit status) works from these values alone, and accepts a record without an end.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace plumbline::record {

inline constexpr int kSchema = 1;

/// Of a case, and of one rank in it: the subject's own word, whatever anybody expected. `aborted`: ended because
/// another rank failed. `error`: the harness failed. `missing`: planned, but no result. `flake`: of several tries some
/// passed and some failed. `not_run`: planned, and the run was stopped on purpose before it.
enum class Verdict {
  pass,
  warn,
  skip,
  fail,
  refuse,
  hang,
  crash,
  error,
  inconclusive,
  missing,
  aborted,
  flake,
  not_run
};
[[nodiscard]] std::string_view name_of(Verdict verdict);
[[nodiscard]] std::optional<Verdict> parse_verdict(std::string_view name);
/// Whether the subject is at fault: fail, refuse, hang, crash. A flake is at fault sometimes and is none of them.
[[nodiscard]] bool is_failure(Verdict verdict);

struct Failure {
  std::string where;  // "reduction_checks.cpp:41"
  std::string message;
  std::string requirement = {};  // that it names; may be empty
  /// An exception that ended the rank's body: no assertion has judged anything by it.
  bool uncaught = false;
  /// What the message says of values, as the check wrote them; empty: it is not about values, or states no bound.
  std::string expected = {}, got = {}, bound = {};
  /// The rank that it is about, where that is another one than the one that reports: of a job.
  std::optional<int> rank = {};
};

struct RankResult {
  int rank = 0;
  Verdict verdict = Verdict::missing;
  double seconds = 0;
  std::vector<Failure> failures;
  std::vector<std::string> violated;  // requirements that its failures name; empty where one of them names none
  std::string last_event;             // from the flight ring, where it says something
  std::string host;                   // that it is on; empty where all ranks are on the driver's
};

/// What was known of a case before it ran: said by the subject's owner (expectation), granted by the suite's
/// maintainers (waiver), or a fault of the check itself (suite issue).
struct Expectation {
  enum class Kind { expectation, waiver, suite_issue };
  Kind kind = Kind::expectation;
  /// Of an expectation: what the case does. A waiver covers every failure.
  std::optional<Verdict> verdict;
  /// Whether the case is executed: not where its check is at fault, nor where the owner says that it hangs or crashes.
  bool run = true;
  std::string reason;
  std::string link;    // may be empty
  std::string origin;  // "expectations.toml:12"

  friend bool operator==(const Expectation&, const Expectation&) = default;
};
[[nodiscard]] std::string_view name_of(Expectation::Kind kind);

struct Result {
  std::string check;    // "collectives.all_reduce.exact"
  std::string case_id;  // with its parameters
  std::vector<std::pair<std::string, std::string>> parameters;
  std::vector<std::string> requirements;
  std::string mode = "plain";
  std::uint64_t seed = 0;
  int repetition = 0;
  std::string role = "subject";  // or "control": the same on the reference, to tell the subject from the machine
  std::string mutant;            // by which the subject was broken; of `plumbline mutants`
  int attempt = 1;
  Verdict verdict = Verdict::missing;
  std::string reason;  // one line: why it is not a pass
  /// Those of `requirements` that its failures name, where every failure does; empty: the verdict is about all of them.
  std::vector<std::string> violated;
  std::optional<Expectation> expectation;
  std::string
      judgement;  // what it counts as with its expectation, for readers without the rules (run::judge); else empty
  std::vector<Verdict> tries;  // where it ran more than once: how each ended
  std::vector<RankResult> ranks;
  double seconds = 0;
  double limit_seconds = 0;
  std::string output;  // the tail of what the group printed
  std::string repeat;  // the command that runs it alone

  /// What a plan has once: case, arm, seed, repetition, role, mutant.
  [[nodiscard]] std::string key() const;
};

/// What one fresh group of processes measured: the unit that statistics are about, since repetitions of one group share
/// its memory, its cores and its luck.
struct Launch {
  std::vector<double> samples;
  /// What else its host did meanwhile: "steal", a share of all processor time; "load"; "waited", the share of the time
  /// for which its slowest rank had no core; "calibration_seconds" of a loop that uses no memory; "window_seconds" and
  /// "windows_missed_ratio" of a measurement in windows.
  std::map<std::string, double> host = {};
};

struct Measurement {
  std::string benchmark;
  /// The same whether it was measured or not (Result::case_id): "collectives.barrier[bytes=0,world=2]".
  std::string case_id = {};
  std::map<std::string, std::string> labels;  // subject, world, bytes, dtype, op, …
  std::vector<double> samples;                // of the unit, one a repetition, the slowest rank each; of all launches
  std::string unit;                           // "seconds"
  std::map<std::string, double> derived;      // "algbw_bytes_per_second", "busbw_bytes_per_second", …
  bool answer_checked = false;
  std::vector<Launch> launches = {};  // in the order in which they ran; empty: not recorded
  std::string noisy = {};             // why its numbers are not to be believed; empty: the host was quiet
};

/// One step of a training run.
struct Step {
  int step = 0;
  double loss = 0;
  std::map<std::string, double> values;  // "difference", "bound", "accuracy", …
};

/// A case that a run is going to have a result of.
struct Planned {
  std::string case_id;
  std::vector<std::string> requirements;
  std::string mode = "plain";
  std::uint64_t seed = 0;
  int repetition = 0;
  std::string mutant = {};
  /// That of its Result.
  [[nodiscard]] std::string key() const;
};

/// A requirement as the suite of the run has it.
struct Sentence {
  std::string level;  // "must", "should", "may"
  std::string text;
  std::vector<std::string> sources = {};  // rows of the bug catalogue, papers, sections
};

/// Where a check stands in the suite's sources.
struct Place {
  std::string file;  // "conformance/collectives/copy_checks.cpp"
  int line = 0;
};

/// The part of a whole run that a record has.
struct ShardOf {
  int index = 1;  // from 1
  int count = 1;
  std::string whole_plan;  // hash
};

struct Header {
  std::string command;  // "check", "bench", "train"
  std::string subject;  // "backend local"
  std::string suite_version;
  std::string plan_hash;
  std::string profile;          // that the subject is held to; bench and train hold it to none
  std::string profile_version;  // "0.1"
  std::uint64_t seed = 0;
  std::string started;  // UTC, ISO 8601
  std::vector<std::string> arguments;
  nlohmann::json environment = nlohmann::json::object();
  /// In order: what is without a result in the end is `missing`.
  std::vector<Planned> plan;
  /// The files whose expectations counted: the one that was named, then those that it includes.
  std::vector<std::string> expectations;
  /// What conditions of expectations can ask about the whole run: backend, mutant, os, cores, …
  std::map<std::string, std::string> facts;
  /// A case that passes against its expectation does not fail the run.
  bool allow_unexpected_pass = false;
  /// A warning fails the run.
  bool warnings_fail = false;
  std::optional<ShardOf> shard;
  /// Of a run for a statement (`check --statement`): fixed, of the release, fresh. Empty: it is no such run.
  std::vector<std::uint64_t> statement_seeds;
  /// How reports name the subject, where somebody chose it (--subject-name); else name_of_subject() does.
  std::string subject_name;
  /// What somebody wants to know the run by (--label): in reports and metrics.
  std::map<std::string, std::string> labels;
  /// Seconds after which nothing more is begun; 0: no such limit.
  double budget_seconds = 0;
  /// Of the plan's requirements and checks: reports are made from the record alone.
  std::map<std::string, Sentence> requirements;  // by id
  std::map<std::string, Place> checks;           // by id
};

/// What the cases of a requirement came to.
struct RequirementTally {
  std::string verdict;  // "pass", "expected-fail", …
  int cases = 0;
  int ran = 0;  // those that were not skipped
};

/// A run that was read back: the last attempt of each key holds.
struct Run {
  Header header;
  /// What the subject said of itself when it was ready: capabilities, environment (its runtime's version and settings).
  nlohmann::json subject = nlohmann::json::object();
  std::vector<Result> results;   // of the subject
  std::vector<Result> controls;  // of the reference in its place
  std::vector<Measurement> measurements;
  std::vector<Step> steps;
  bool complete = false;
  std::map<std::string, RequirementTally> requirements;  // of a complete one, by id
  double seconds = 0;
  /// Why it was ended on purpose before all that was planned had run: "the budget of 60 s is spent"; empty: it was not.
  std::string stopped;
};

void to_json(nlohmann::json& json, const Expectation& expectation);
void from_json(const nlohmann::json& json, Expectation& expectation);
void to_json(nlohmann::json& json, const Result& result);
void from_json(const nlohmann::json& json, Result& result);
void to_json(nlohmann::json& json, const Measurement& measurement);
void from_json(const nlohmann::json& json, Measurement& measurement);
void to_json(nlohmann::json& json, const Step& step);
void from_json(const nlohmann::json& json, Step& step);
void to_json(nlohmann::json& json, const Planned& planned);
void from_json(const nlohmann::json& json, Planned& planned);
void to_json(nlohmann::json& json, const Header& header);
void from_json(const nlohmann::json& json, Header& header);
void to_json(nlohmann::json& json, const Failure& failure);
void from_json(const nlohmann::json& json, Failure& failure);
void to_json(nlohmann::json& json, const RequirementTally& tally);
void from_json(const nlohmann::json& json, RequirementTally& tally);
void to_json(nlohmann::json& json, const RankResult& rank);
void from_json(const nlohmann::json& json, RankResult& rank);

/// A finite number as it is, others as the strings "inf", "-inf", "nan", for JSON has no word for them.
[[nodiscard]] nlohmann::json number_or_word(double value);
[[nodiscard]] double number_from(const nlohmann::json& json);

}  // namespace plumbline::record
