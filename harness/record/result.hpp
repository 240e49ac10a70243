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

/// Of a case, and of one rank in it. `aborted`: ended because another rank failed. `error`: the harness failed.
/// `missing`: planned, but no result.
enum class Verdict { pass, warn, skip, fail, refuse, hang, crash, error, inconclusive, missing, aborted };
[[nodiscard]] std::string_view name_of(Verdict verdict);
[[nodiscard]] std::optional<Verdict> parse_verdict(std::string_view name);
/// Whether the subject is at fault: fail, refuse, hang, crash.
[[nodiscard]] bool is_failure(Verdict verdict);

struct Failure {
  std::string where;  // "all_reduce_checks.cpp:41"
  std::string message;
};

struct RankResult {
  int rank = 0;
  Verdict verdict = Verdict::missing;
  double seconds = 0;
  std::vector<Failure> failures;
  std::string last_event;  // from the flight ring, where it says something
};

struct Result {
  std::string check;    // "collectives.all_reduce.exact"
  std::string case_id;  // with its parameters
  std::vector<std::pair<std::string, std::string>> parameters;
  std::vector<std::string> requirements;
  std::string arm = "plain";
  std::uint64_t seed = 0;
  int repetition = 0;
  int attempt = 1;
  Verdict verdict = Verdict::missing;
  std::string reason;  // one line: why it is not a pass
  std::vector<RankResult> ranks;
  double seconds = 0;
  double limit_seconds = 0;
  std::string output;  // the tail of what the group printed
  std::string repeat;  // the command that runs it alone

  /// What a plan has once: case, arm, seed, repetition.
  [[nodiscard]] std::string key() const;
};

struct Measurement {
  std::string benchmark;
  std::map<std::string, std::string> labels;  // subject, world, bytes, dtype, op, …
  std::vector<double> samples;                // of the unit, one a repetition, the slowest rank each
  std::string unit;                           // "seconds"
  std::map<std::string, double> derived;      // "algbw_bytes_per_second", "busbw_bytes_per_second", …
  bool answer_checked = false;
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
  std::string arm = "plain";
  std::uint64_t seed = 0;
  int repetition = 0;
  /// That of its Result.
  [[nodiscard]] std::string key() const;
};

struct Header {
  std::string command;  // "check", "bench", "train"
  std::string subject;  // "backend local"
  std::string suite_version;
  std::string plan_hash;
  std::string profile;
  std::uint64_t seed = 0;
  std::string started;  // UTC, ISO 8601
  std::vector<std::string> arguments;
  nlohmann::json environment = nlohmann::json::object();
  /// In order: what is without a result in the end is `missing`.
  std::vector<Planned> plan;
};

/// A run that was read back: the last attempt of each key holds.
struct Run {
  Header header;
  /// What the subject said of itself when it was ready: capabilities, environment (its runtime's version and settings).
  nlohmann::json subject = nlohmann::json::object();
  std::vector<Result> results;
  std::vector<Measurement> measurements;
  std::vector<Step> steps;
  bool complete = false;
  double seconds = 0;
};

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
void to_json(nlohmann::json& json, const RankResult& rank);
void from_json(const nlohmann::json& json, RankResult& rank);

/// A finite number as it is, others as the strings "inf", "-inf", "nan", for JSON has no word for them.
[[nodiscard]] nlohmann::json number_or_word(double value);
[[nodiscard]] double number_from(const nlohmann::json& json);

}  // namespace plumbline::record
