#include "harness/record/result.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::record {

using nlohmann::json;

namespace {
constexpr std::array<std::string_view, 13> kVerdicts{"pass",    "warn",  "skip",   "fail",         "refuse",
                                                     "hang",    "crash", "error",  "inconclusive", "missing",
                                                     "aborted", "flake", "not-run"};
constexpr std::array<std::string_view, 3> kKinds{"expectation", "waiver", "suite-issue"};
Verdict verdict_from(const json& value) { return parse_verdict(value.get<std::string>()).value_or(Verdict::error); }
}  // namespace

std::string_view name_of(Verdict verdict) { return kVerdicts[static_cast<std::size_t>(verdict)]; }

std::optional<Verdict> parse_verdict(std::string_view name) {
  const auto found = std::ranges::find(kVerdicts, name);
  if (found == kVerdicts.end()) return std::nullopt;
  return static_cast<Verdict>(found - kVerdicts.begin());
}

std::string_view name_of(Expectation::Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

bool is_failure(Verdict verdict) {
  return verdict == Verdict::fail || verdict == Verdict::refuse || verdict == Verdict::hang ||
         verdict == Verdict::crash;
}

namespace {

std::string key_of(const std::string& case_id, const std::string& mode, std::uint64_t seed, int repetition,
                   const std::string& mutant) {
  const std::string key = fmt::format("{} arm={} seed={} repetition={}", case_id, mode, seed, repetition);
  return mutant.empty() ? key : fmt::format("{} mutant={}", key, mutant);
}

constexpr const char* kSubject = "subject";

}  // namespace

std::string Planned::key() const { return key_of(case_id, mode, seed, repetition, mutant); }
std::string Result::key() const {
  const std::string key = key_of(case_id, mode, seed, repetition, mutant);
  return role == kSubject ? key : fmt::format("{} role={}", key, role);
}

json number_or_word(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_from(const json& value) {
  if (value.is_number()) return value.get<double>();
  const auto word = value.get<std::string>();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  return word == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

void to_json(json& out, const Failure& failure) {
  out = {{"where", failure.where}, {"message", failure.message}};
  if (!failure.requirement.empty()) out["requirement"] = failure.requirement;
  if (failure.uncaught) out["uncaught"] = true;
  for (const auto& [name, value] :
       {std::pair("expected", &failure.expected), std::pair("got", &failure.got), std::pair("bound", &failure.bound)})
    if (!value->empty()) out[name] = *value;
  if (failure.rank) out["rank"] = *failure.rank;
}

void from_json(const json& in, Failure& failure) {
  failure.where = in.at("where").get<std::string>();
  failure.message = in.at("message").get<std::string>();
  failure.requirement = in.value("requirement", "");
  failure.uncaught = in.value("uncaught", false);
  failure.expected = in.value("expected", "");
  failure.got = in.value("got", "");
  failure.bound = in.value("bound", "");
  if (in.contains("rank")) failure.rank = in.at("rank").get<int>();
}

void to_json(json& out, const RequirementTally& tally) {
  out = {{"verdict", tally.verdict}, {"cases", tally.cases}, {"ran", tally.ran}};
}

void from_json(const json& in, RequirementTally& tally) {
  tally.verdict = in.at("verdict").get<std::string>();
  tally.cases = in.at("cases").get<int>();
  tally.ran = in.at("ran").get<int>();
}

void to_json(json& out, const RankResult& rank) {
  out = {{"rank", rank.rank}, {"verdict", name_of(rank.verdict)}, {"seconds", rank.seconds}};
  if (!rank.failures.empty()) out["failures"] = rank.failures;
  if (!rank.violated.empty()) out["violated"] = rank.violated;
  if (!rank.last_event.empty()) out["last_event"] = rank.last_event;
  if (!rank.host.empty()) out["host"] = rank.host;
}

void from_json(const json& in, RankResult& rank) {
  rank.rank = in.at("rank").get<int>();
  rank.verdict = verdict_from(in.at("verdict"));
  rank.seconds = in.at("seconds").get<double>();
  rank.failures = in.value("failures", std::vector<Failure>{});
  rank.violated = in.value("violated", std::vector<std::string>{});
  rank.last_event = in.value("last_event", "");
  rank.host = in.value("host", "");
}

void to_json(json& out, const Expectation& expectation) {
  out = {{"kind", name_of(expectation.kind)}, {"reason", expectation.reason}, {"origin", expectation.origin}};
  if (expectation.verdict) out["verdict"] = name_of(*expectation.verdict);
  if (!expectation.run) out["run"] = false;
  if (!expectation.link.empty()) out["link"] = expectation.link;
}

void from_json(const json& in, Expectation& expectation) {
  const auto kind = in.at("kind").get<std::string>();
  const auto found = std::ranges::find(kKinds, kind);
  if (found == kKinds.end())
    throw InvalidArgument(
        fmt::format("expectation of kind '{}'; it is {}, {} or {}", kind, kKinds[0], kKinds[1], kKinds[2]));
  expectation.kind = static_cast<Expectation::Kind>(found - kKinds.begin());
  if (in.contains("verdict")) expectation.verdict = verdict_from(in.at("verdict"));
  expectation.run = in.value("run", true);
  expectation.reason = in.at("reason").get<std::string>();
  expectation.link = in.value("link", "");
  expectation.origin = in.at("origin").get<std::string>();
}

void to_json(json& out, const Result& result) {
  out = {{"type", "result"},
         {"check", result.check},
         {"case", result.case_id},
         {"requirements", result.requirements},
         {"arm", result.mode},
         {"seed", result.seed},
         {"repetition", result.repetition},
         {"attempt", result.attempt},
         {"verdict", name_of(result.verdict)},
         {"ranks", result.ranks},
         {"seconds", result.seconds},
         {"limit_seconds", result.limit_seconds},
         {"repeat", result.repeat}};
  json& parameters = out["parameters"] = json::object();
  for (const auto& [name, value] : result.parameters) parameters[name] = value;
  if (!result.reason.empty()) out["reason"] = result.reason;
  if (!result.violated.empty()) out["violated"] = result.violated;
  if (result.role != kSubject) out["role"] = result.role;
  if (!result.mutant.empty()) out["mutant"] = result.mutant;
  if (result.expectation) out["expectation"] = *result.expectation;
  if (!result.judgement.empty()) out["judgement"] = result.judgement;
  for (const Verdict verdict : result.tries) out["tries"].push_back(name_of(verdict));
  if (!result.output.empty()) out["output"] = result.output;
}

void from_json(const json& in, Result& result) {
  result.check = in.at("check").get<std::string>();
  result.case_id = in.at("case").get<std::string>();
  result.requirements = in.at("requirements").get<std::vector<std::string>>();
  result.mode = in.at("arm").get<std::string>();
  result.seed = in.at("seed").get<std::uint64_t>();
  result.repetition = in.at("repetition").get<int>();
  result.attempt = in.at("attempt").get<int>();
  result.verdict = verdict_from(in.at("verdict"));
  result.ranks = in.at("ranks").get<std::vector<RankResult>>();
  result.seconds = in.at("seconds").get<double>();
  result.limit_seconds = in.at("limit_seconds").get<double>();
  result.repeat = in.at("repeat").get<std::string>();
  for (const auto& [name, value] : in.at("parameters").items())
    result.parameters.emplace_back(name, value.get<std::string>());
  result.reason = in.value("reason", "");
  result.violated = in.value("violated", std::vector<std::string>{});
  result.role = in.value("role", kSubject);
  result.mutant = in.value("mutant", "");
  if (in.contains("expectation")) result.expectation = in.at("expectation").get<Expectation>();
  result.judgement = in.value("judgement", "");
  for (const json& verdict : in.value("tries", json::array())) result.tries.push_back(verdict_from(verdict));
  result.output = in.value("output", "");
}

void to_json(json& out, const Measurement& measurement) {
  out = {{"type", "measurement"},
         {"benchmark", measurement.benchmark},
         {"labels", measurement.labels},
         {"samples", measurement.samples},
         {"unit", measurement.unit},
         {"derived", measurement.derived},
         {"answer_checked", measurement.answer_checked}};
  if (!measurement.case_id.empty()) out["case"] = measurement.case_id;
  for (const Launch& launch : measurement.launches)
    out["launches"].push_back({{"samples", launch.samples}, {"host", launch.host}});
  if (!measurement.noisy.empty()) out["noisy"] = measurement.noisy;
}

void from_json(const json& in, Measurement& measurement) {
  measurement.benchmark = in.at("benchmark").get<std::string>();
  measurement.labels = in.at("labels").get<std::map<std::string, std::string>>();
  measurement.samples = in.at("samples").get<std::vector<double>>();
  measurement.unit = in.at("unit").get<std::string>();
  measurement.derived = in.at("derived").get<std::map<std::string, double>>();
  measurement.answer_checked = in.at("answer_checked").get<bool>();
  measurement.case_id = in.value("case", "");
  measurement.noisy = in.value("noisy", "");
  for (const json& launch : in.value("launches", json::array()))
    measurement.launches.push_back({.samples = launch.at("samples").get<std::vector<double>>(),
                                    .host = launch.at("host").get<std::map<std::string, double>>()});
}

void to_json(json& out, const Step& step) {
  out = {{"type", "step"}, {"step", step.step}, {"loss", number_or_word(step.loss)}};
  json& values = out["values"] = json::object();
  for (const auto& [name, value] : step.values) values[name] = number_or_word(value);
}

void from_json(const json& in, Step& step) {
  step.step = in.at("step").get<int>();
  step.loss = number_from(in.at("loss"));
  for (const auto& [name, value] : in.at("values").items()) step.values[name] = number_from(value);
}

void to_json(json& out, const Planned& planned) {
  out = {{"case", planned.case_id},
         {"requirements", planned.requirements},
         {"arm", planned.mode},
         {"seed", planned.seed},
         {"repetition", planned.repetition}};
  if (!planned.mutant.empty()) out["mutant"] = planned.mutant;
}

void from_json(const json& in, Planned& planned) {
  planned.case_id = in.at("case").get<std::string>();
  planned.requirements = in.at("requirements").get<std::vector<std::string>>();
  planned.mode = in.at("arm").get<std::string>();
  planned.seed = in.at("seed").get<std::uint64_t>();
  planned.repetition = in.at("repetition").get<int>();
  planned.mutant = in.value("mutant", "");
}

void to_json(json& out, const Header& header) {
  out = {{"type", "header"},
         {"schema", kSchema},
         {"command", header.command},
         {"subject", header.subject},
         {"suite_version", header.suite_version},
         {"plan_hash", header.plan_hash},
         {"profile", header.profile},
         {"seed", header.seed},
         {"started", header.started},
         {"arguments", header.arguments},
         {"environment", header.environment},
         {"plan", header.plan}};
  if (!header.profile_version.empty()) out["profile_version"] = header.profile_version;
  if (!header.expectations.empty()) out["expectations"] = header.expectations;
  if (!header.facts.empty()) out["facts"] = header.facts;
  if (header.allow_unexpected_pass) out["allow_unexpected_pass"] = true;
  if (header.warnings_fail) out["warnings_fail"] = true;
  if (!header.subject_name.empty()) out["subject_name"] = header.subject_name;
  if (!header.labels.empty()) out["labels"] = header.labels;
  if (!header.statement_seeds.empty()) out["statement_seeds"] = header.statement_seeds;
  if (header.budget_seconds > 0) out["budget_seconds"] = header.budget_seconds;
  for (const auto& [id, sentence] : header.requirements)
    out["requirements"][id] = {{"level", sentence.level}, {"text", sentence.text}, {"sources", sentence.sources}};
  for (const auto& [id, place] : header.checks) out["checks"][id] = {{"file", place.file}, {"line", place.line}};
  if (header.shard)
    out["shard"] = {
        {"index", header.shard->index}, {"count", header.shard->count}, {"whole_plan", header.shard->whole_plan}};
}

void from_json(const json& in, Header& header) {
  header.command = in.at("command").get<std::string>();
  header.subject = in.at("subject").get<std::string>();
  header.suite_version = in.at("suite_version").get<std::string>();
  header.plan_hash = in.at("plan_hash").get<std::string>();
  header.profile = in.at("profile").get<std::string>();
  header.profile_version = in.value("profile_version", "");
  header.seed = in.at("seed").get<std::uint64_t>();
  header.started = in.at("started").get<std::string>();
  header.arguments = in.at("arguments").get<std::vector<std::string>>();
  header.environment = in.at("environment");
  header.plan = in.at("plan").get<std::vector<Planned>>();
  header.expectations = in.value("expectations", std::vector<std::string>{});
  header.facts = in.value("facts", std::map<std::string, std::string>{});
  header.allow_unexpected_pass = in.value("allow_unexpected_pass", false);
  header.warnings_fail = in.value("warnings_fail", false);
  header.subject_name = in.value("subject_name", "");
  header.labels = in.value("labels", std::map<std::string, std::string>{});
  header.statement_seeds = in.value("statement_seeds", std::vector<std::uint64_t>());
  header.budget_seconds = in.value("budget_seconds", 0.0);
  const json requirements = in.value("requirements", json::object());
  for (const auto& [id, sentence] : requirements.items())
    header.requirements[id] = {sentence.at("level").get<std::string>(), sentence.at("text").get<std::string>(),
                               sentence.value("sources", std::vector<std::string>{})};
  const json checks = in.value("checks", json::object());
  for (const auto& [id, place] : checks.items())
    header.checks[id] = {place.at("file").get<std::string>(), place.at("line").get<int>()};
  if (in.contains("shard")) {
    const json& shard = in.at("shard");
    header.shard = {shard.at("index").get<int>(), shard.at("count").get<int>(),
                    shard.at("whole_plan").get<std::string>()};
    if (header.shard->index < 1 || header.shard->index > header.shard->count)
      throw InvalidArgument(
          fmt::format("shard {} of {}; it is from 1 to their number", header.shard->index, header.shard->count));
  }
}

}  // namespace plumbline::record
