#include "harness/cli/cases.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "harness/expectations/facts.hpp"
#include "harness/launch/process.hpp"
#include "harness/record/environment.hpp"
#include "harness/run/case_rules.hpp"
#include "harness/run/findings.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/training_module.hpp"

namespace plumbline::cli {

using record::Result;

std::chrono::duration<double> CaseSettings::limit_of(const suite::Case& one) const {
  if (time_limit > 0) return std::chrono::duration<double>(time_limit);
  const auto own = std::chrono::duration<double>(one.check->limit) * slowness;
  return std::max(own, std::chrono::duration<double>(least_limit));
}

CaseSettings CaseSettings::for_control() const {
  CaseSettings settings = *this;
  settings.least_limit = std::exchange(settings.time_limit, 0);
  return settings;
}

std::string ModulesHere::why_not(const suite::Check& check) {
  for (const std::string& module : check.modules) {
    const auto [found, is_new] = why_not_.try_emplace(module);
    if (is_new) found->second = subject::why_no_training();
    if (!found->second.empty()) return fmt::format("needs module {}: {}", module, found->second);
  }
  return {};
}

void require_modules(const std::vector<suite::PlannedCase>& cases, const std::string& who) {
  ModulesHere modules;
  for (const suite::PlannedCase& planned : cases)
    if (const std::string why = modules.why_not(*planned.one->check); !why.empty())
      throw subject::NotAvailable(fmt::format("{} {}", who, why));
}

std::vector<std::string> device_options(const std::string& device) {
  if (device == "cpu") return {};
  return {"--device", device};
}

launch::Assignment assignment_of(const suite::PlannedCase& planned, const CaseSettings& settings,
                                 const std::string& isolation) {
  const suite::Case& one = *planned.one;
  nlohmann::json command{{"type", "run"}, {"case", one.number}, {"seed", planned.seed}};
  if (settings.device != "cpu") command["device"] = settings.device;
  if (planned.mode != suite::ExecutionMode{}) command["arm"] = planned.mode.name();
  if (!settings.mutant.empty()) command["mutant"] = settings.mutant;
  return {.command = std::move(command),
          .world = one.world(),
          .isolation = isolation,
          .limit = settings.limit_of(one),
          .spoils_group = one.check->spoils_group};
}

Result blank_result(const suite::PlannedCase& planned, const CaseSettings& settings) {
  Result result = expectations::blank_result(settings.suite, *planned.one);
  result.mode = planned.mode.name();
  result.seed = planned.seed;
  result.repetition = planned.repetition;
  result.mutant = settings.mutant;
  return result;
}

Result result_of(const suite::PlannedCase& planned, const CaseSettings& settings, const launch::Outcome& outcome) {
  Result result = blank_result(planned, settings);
  result.verdict = run::verdict_at_level(outcome.verdict, settings.suite.verified_by(*planned.one->check));
  result.reason = outcome.reason;
  result.ranks = outcome.ranks;
  result.violated = run::violated_by(outcome.verdict, outcome.ranks, result.requirements);
  result.output = outcome.output;
  result.seconds = outcome.seconds;
  result.limit_seconds = settings.limit_of(*planned.one).count();
  return result;
}

std::optional<launch::Outcome> outcome_without_run(const suite::PlannedCase& planned, const CaseSettings& settings,
                                                   const nlohmann::json& description) {
  const auto word = run::word_without_run(settings.suite, settings.profile, planned, description, settings.device,
                                          record::available_memory());
  if (!word) return std::nullopt;
  return launch::Outcome{.verdict = word->verdict, .reason = word->reason};
}

void quote_suite(record::Header& header, const suite::Suite& suite) {
  for (const record::Planned& planned : header.plan) {
    header.checks.try_emplace(planned.case_id.substr(0, planned.case_id.find('[')));
    for (const std::string& id : planned.requirements) header.requirements.try_emplace(id);
  }
  for (const suite::Check& check : suite.checks())
    if (const auto found = header.checks.find(check.id); found != header.checks.end())
      found->second = {check.file, check.line};
  for (auto& [id, sentence] : header.requirements)
    if (const suite::Requirement* row = suite.requirements.find(id))
      sentence = {std::string(suite::name_of(row->level)), row->text, row->sources};
}

std::string title_of(const Result& result) {
  std::string title = result.case_id;
  if (result.mode != suite::ExecutionMode{}.name()) title += fmt::format(" under {}", result.mode);
  if (!result.mutant.empty()) title += fmt::format(" of {}", result.mutant);
  return title;
}

std::string mode_options(const suite::ExecutionMode& mode, suite::Door door) {
  if (door != suite::Door::backend) return {};
  switch (mode.kind) {
    case suite::ExecutionMode::Kind::rendezvous:
      return " --rendezvous";
    case suite::ExecutionMode::Kind::chaos:
      return fmt::format(" --chaos {}", mode.seed);
    default:
      return " --plain";
  }
}

std::string program_to_repeat() {
  namespace fs = std::filesystem;
  const std::vector<std::string> words = record::command_line();
  const std::string typed = words.empty() ? "plumbline" : words.front();
  if (typed.find('/') == std::string::npos) return quoted(typed);
  const std::string name = fs::path(typed).filename().string();
  const auto in_path = launch::find_program(name);
  std::error_code error;
  return quoted(in_path && fs::equivalent(*in_path, typed, error) ? name : typed);
}

std::string as_started(const std::string& command) {
  constexpr std::string_view kName = "plumbline ";
  return command.starts_with(kName) ? program_to_repeat() + command.substr(kName.size() - 1) : command;
}

// The suite judges what it records, also of a run that continues another, which train alone does not.
std::string reference_job() {
  std::error_code error;
  const std::string executable = std::filesystem::canonical("/proc/self/exe", error).string();
  return quoted(executable) +
         " train --spec \"$PLUMBLINE_SPEC\" --record \"$PLUMBLINE_RECORD\" --backend local --no-judge";
}

}  // namespace plumbline::cli
