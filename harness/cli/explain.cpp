// `plumbline explain`: what a requirement demands, why, what tests it, and how it was shown that the test can fail; or
// which requirements go back to a bug.
#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/cases.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/mutants/evidence.hpp"
#include "harness/mutants/hollow.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/record/file.hpp"
#include "harness/run/counted.hpp"
#include "harness/run/findings.hpp"
#include "harness/run/summary.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {
namespace {

struct ExplainOptions {
  std::string id;
  std::string record;
};

// Of the adapter door: the checks that ask each operation.
std::map<std::string, std::vector<const suite::Check*>> checks_by_operation(const suite::Suite& suite) {
  std::map<std::string, std::vector<const suite::Check*>> all;
  for (const suite::Check& check : suite.checks())
    for (const std::string& operation : check.operations) all[operation].push_back(&check);
  return all;
}

// All that can be asked for, but cases.
std::vector<std::string> known_ids(const suite::Suite& suite) {
  std::vector<std::string> names;
  for (const auto& [requirement, row] : suite.requirements.rows()) names.push_back(requirement);
  for (const suite::Check& check : suite.checks()) names.push_back(check.id);
  for (const mutants::Mutant& mutant : suite.mutants()) names.push_back(mutant.name);
  for (const mutants::Mutant& subject : mutants::hollow_subjects()) names.push_back(subject.name);
  for (const auto& [bug, row] : suite.bugs) names.push_back(bug);
  for (const auto& [operation, checks] : checks_by_operation(suite)) names.push_back(operation);
  return names;
}

// The id as the suite spells it, whatever letters of it are capitals; one that is not known as it was given.
std::string as_spelt(const suite::Suite& suite, const std::string& given) {
  const std::size_t end = std::min(given.find_first_of("@["), given.size());
  const std::vector<std::string> names = known_ids(suite);
  const auto known = std::ranges::find_if(
      names, [&](const std::string& name) { return in_lower_case(name) == in_lower_case(given.substr(0, end)); });
  if (known == names.end()) return given;
  const std::string rest = given.substr(end);
  if (!rest.starts_with('[')) return *known + in_lower_case(rest);  // a hash, if anything
  for (const suite::Case& one : suite.cases())
    if (in_lower_case(one.id()) == in_lower_case(given)) return one.id();
  return *known + rest;
}

// The requirements that an id stands for: its own, or those of a check, a case or a mutant.
std::vector<const suite::Requirement*> meant_by(const suite::Suite& suite, const std::string& id) {
  if (const auto* requirement = suite.requirements.find(suite::id_of_citation(id))) {
    if (id.find('@') != std::string::npos && id != requirement->citation())
      throw InvalidArgument(
          fmt::format("'{}' cites a sentence that has changed; it is {} now", id, requirement->citation()));
    return {requirement};
  }
  const std::size_t bracket = id.find('[');
  for (const suite::Check& check : suite.checks()) {
    if (check.id != id.substr(0, bracket)) continue;
    std::vector<std::string> cases;
    if (bracket != std::string::npos)
      for (const suite::Case& one : suite::cases_of(check)) cases.push_back(one.id());
    if (bracket == std::string::npos || std::ranges::count(cases, id) > 0) return suite.verified_by(check);
    throw NotFound(fmt::format("'{}' is not a case of {}{}", id, check.id, did_you_mean(id, cases)));
  }
  for (const mutants::Mutant& mutant : suite.mutants())
    if (mutant.name == id) return {suite.requirements.find(mutant.violates)};
  throw NotFound(fmt::format(
      "'{}' is no requirement, check, case, operation, mutant, hollow subject or bug; plumbline requirements "
      "and plumbline mutants --list print them{}",
      id, did_you_mean(id, known_ids(suite))));
}

void print_reports(const suite::Bug& bug) {
  for (const std::string& report : bug.reports) fmt::print("             {} ({})\n", report, suite::address_of(report));
}

void print_source(const suite::Suite& suite, const std::string& source) {
  const auto id = suite::bug_in(source);
  const auto bug = id ? suite.bugs.find(*id) : suite.bugs.end();
  if (bug == suite.bugs.end()) {
    fmt::print("  source     {}\n", source);
    return;
  }
  fmt::print("  real bug   {}: {}\n", source, bug->second.what);
  print_reports(bug->second);
}

// What the sizes of "2x1x1" are of, in a check whose axis has such values; nothing of other axes.
std::string_view dimensions_of(const suite::Check& check, const suite::Axis& axis) {
  if (axis.values.empty() || std::ranges::count(axis.values.front(), 'x') != 2) return "";
  if (axis.name == "grid") return "tensor x pipeline x data ranks";
  return axis.name == "sizes" && check.id.starts_with("groups.") ? "pipeline x data x tensor ranks" : "";
}

void print_check(const suite::Suite& suite, const std::string& id) {
  std::set<int> worlds;
  int cases = 0;
  const suite::Check* check = nullptr;
  for (const suite::Case& one : suite.cases()) {
    if (one.check->id != id) continue;
    check = one.check;
    ++cases;
    if (one.parameters.has("world")) worlds.insert(one.parameters.world());
  }
  if (check == nullptr) return;
  const std::string where =
      worlds.empty() ? std::string("of an adapter") : fmt::format("at {} ranks", fmt::join(worlds, ", "));
  fmt::print("  check      {} ({} door): {} case{} {}{}\n", id, name_of(check->door), cases, cases == 1 ? "" : "s",
             where, check->deadlock_prone ? ", in modes plain, rendezvous and chaos" : "");
  for (const suite::Axis& axis : check->axes)
    if (const std::string_view dimensions = dimensions_of(*check, axis); !dimensions.empty())
      fmt::print("             {}={}: {}\n", axis.name, axis.values.front(), dimensions);
}

std::string under(const std::string& mode) { return mode == suite::ExecutionMode{}.name() ? "" : " under " + mode; }

// Every line of the text after the sign.
void print_lines(char sign, std::string_view text) {
  for (const auto line : std::views::split(text, '\n'))
    fmt::print("             {} {}\n", sign, std::string_view(line.begin(), line.end()));
}

void print_edits(const suite::Edits& edits) {
  for (const suite::SourceEdit& edit : edits.list) {
    fmt::print("             {}{}{}\n", edit.file, edit.function.empty() ? "" : ", in ", edit.function);
    print_lines('-', edit.find);
    if (!edit.replace.empty()) print_lines('+', edit.replace);
  }
}

void print_mutant(const mutants::Mutant& mutant) {
  fmt::print("  mutant     {}: {} (after {})\n", mutant.name, mutant.what, mutant.source);
  if (const auto* edits = std::get_if<suite::Edits>(&mutant.change)) print_edits(*edits);
  fmt::print("             shows in {}{}\n", mutant.shows, under(mutant.shows_arm));
  if (mutant.hides.empty())
    fmt::print("             hides nowhere: {}\n", mutant.why_hides);
  else
    fmt::print("             hides in {}{}: {}\n", mutant.hides, under(mutant.hides_arm), mutant.why_hides);
  const bool is_elsewhere = !mutants::why_not_woven(mutant).empty();
  const std::string woven = mutants::woven_program().empty() ? "build/woven/bin/plumbline" : mutants::woven_program();
  fmt::print("             run it: {} mutants --filter {}\n", is_elsewhere ? quoted(woven) : program_to_repeat(),
             mutant.name);
}

// The result as it is for one requirement: a failure that names others has found nothing wrong with it.
record::Result about(record::Result result, const std::string& id) {
  if (run::is_about(result, id)) return result;
  result.verdict = record::Verdict::pass;
  result.expectation.reset();
  return result;
}

void print_verdicts(const record::Run& run, const std::string& id) {
  std::vector<record::Result> results;
  for (const record::Result& result : run::with_missing(run))
    if (std::ranges::count(result.requirements, id) > 0) results.push_back(about(result, id));
  std::vector<std::string> counts;
  for (const auto& [judgement, count] : run::count_judgements(results))
    counts.push_back(fmt::format("{} {}", count, name_of(judgement)));
  fmt::print("  verdict    {} on {}: {}\n", run.header.started, run.header.subject,
             counts.empty() ? "not in this record" : fmt::format("{}", fmt::join(counts, ", ")));
  for (const record::Result& result : results)
    if (run::is_bad(result, run.header)) {
      fmt::print("             {} {}: {}\n", name_of(run::judge(result)), title_of(result), result.reason);
      fmt::print("             repeat: {}\n", as_started(result.repeat));
      return;
    }
}

// The doors of the checks of a requirement, each with the modules that all its checks there need.
std::map<suite::Door, std::set<std::string>> doors_of(const suite::Suite& suite, const suite::Requirement& row) {
  std::map<suite::Door, std::set<std::string>> doors;
  for (const suite::Check& check : suite.checks()) {
    if (std::ranges::count(suite.verified_by(check), &row) == 0) continue;
    const std::set<std::string> modules(check.modules.begin(), check.modules.end());
    const auto [door, is_new] = doors.try_emplace(check.door, modules);
    if (!is_new) std::erase_if(door->second, [&](const std::string& module) { return !modules.contains(module); });
  }
  return doors;
}

// A command for each kind of subject that the requirement can be judged on: backends first, on the one that is always
// here.
void print_commands(const suite::Suite& suite, const suite::Requirement& row, const std::string& profile) {
  const char* heading = "run it";
  for (const auto& [door, modules] : doors_of(suite, row)) {
    const bool is_backend = door == suite::Door::backend;
    std::string notes = is_backend ? "  # on backend local; --backend NAME judges another" : "";
    if (!modules.empty())
      notes += fmt::format("{}needs module {}", notes.empty() ? "  # " : "; ", fmt::join(modules, ", "));
    fmt::print("  {:<10} {} check {}--profile {} --filter {}{}\n", heading, program_to_repeat(),
               is_backend ? "" : fmt::format("--{} CMD ", name_of(door)), profile, row.id, notes);
    heading = "";
  }
}

// With its mutants; only that one where `id` names one.
void print_requirement(const suite::Suite& suite, const suite::Requirement& row, const std::string& id) {
  fmt::print("{} ({}, since {}): {}\n", row.id, suite::name_of(row.level), row.since,
             suite::with_items_after("\n    ", row.text));
  if (row.level == suite::Level::may)
    fmt::print("  may        it is optional: the MUST is for a subject that claims it\n");
  if (!row.rationale.empty()) fmt::print("  because    {}\n", row.rationale);
  for (const suite::Term& term : suite.requirements.terms_in(row))
    fmt::print("  term       {}: {}\n", term.forms, term.meaning);
  fmt::print("  cited as   {}\n", row.citation());
  for (const std::string& source : row.sources) print_source(suite, source);
  if (!row.needs.empty()) fmt::print("  needs      {}\n", fmt::join(row.needs, ", "));
  for (const std::string& check : mutants::checks_of(suite, row)) print_check(suite, check);
  const bool asks_one = std::ranges::count(suite.mutants(), id, &mutants::Mutant::name) > 0;
  for (const mutants::Mutant& mutant : suite.mutants())
    if (asks_one ? mutant.name == id : mutant.violates == row.id) print_mutant(mutant);
  std::string profiles;
  for (const suite::Profile& profile : suite.profiles())
    if (suite.belongs(row, profile)) {
      if (profiles.empty()) print_commands(suite, row, profile.name);
      profiles += (profiles.empty() ? "" : ", ") + profile.name;
    }
  fmt::print("  profiles   {}\n", profiles);
}

// A hollow subject violates every requirement that is not true of it.
void print_hollow(const suite::Suite& suite, const mutants::Mutant& subject) {
  fmt::print("{} (hollow subject, for --{}): {}\n", subject.name, name_of(door_of(subject)), subject.what);
  const suite::HollowTruths& truths = suite.hollow_truths;
  const auto found = truths.find(subject.name);
  fmt::print("  must fail  every requirement of the {} door that it meets{}\n", name_of(door_of(subject)),
             found == truths.end() ? "" : ", but for those that are true of it:");
  if (found != truths.end())
    for (const auto& [requirement, reason] : found->second) fmt::print("             {}: {}\n", requirement, reason);
  fmt::print("  run it     {} mutants --full --filter {}\n", program_to_repeat(), subject.name);
}

// The requirements that name it as a source, and the mutants that repeat it.
void print_bug(const suite::Suite& suite, const suite::Bug& bug) {
  const auto is_of_it = [&](const std::string& source) { return suite::bug_in(source) == bug.id; };
  fmt::print("{} (real bug): {}\n  reported\n", bug.id, bug.what);
  print_reports(bug);
  for (const auto& [id, row] : suite.requirements.rows())
    if (std::ranges::any_of(row.sources, is_of_it))
      fmt::print("  forbidden by {} ({}): {}\n", id, suite::name_of(row.level),
                 suite::with_items_after("\n    ", row.text));
  for (const mutants::Mutant& mutant : suite.mutants())
    if (is_of_it(mutant.source)) fmt::print("  repeated by mutant {}: {}\n", mutant.name, mutant.what);
}

// What asks an operation, and how to run that.
void print_operation(const suite::Suite& suite, const std::string& operation,
                     const std::vector<const suite::Check*>& checks) {
  fmt::print("{} (operation of adapters): asked by {}\n", operation, run::counted(checks.size(), "check"));
  for (const suite::Check* check : checks) {
    std::vector<std::string> ids;
    for (const suite::Requirement* row : suite.verified_by(*check)) ids.push_back(row->id);
    fmt::print("  check      {} ({}): {}\n", check->id, check->convention, fmt::join(ids, ", "));
  }
  fmt::print("  described  {} adapter --describe {}\n", program_to_repeat(), operation);
  fmt::print("  run it     {} check --adapter CMD --filter operation:{}\n", program_to_repeat(), operation);
}

// The record of --record, where it has a verdict on a requirement.
record::Run judged_record(const std::string& given) {
  record::Run run = read_record(given);
  const auto results = run::with_missing(run);
  if (std::ranges::all_of(results, [](const record::Result& result) { return result.requirements.empty(); }))
    throw InvalidArgument(
        fmt::format("'{}' is a record of plumbline {}, without a verdict on any requirement; give that "
                    "of plumbline check",
                    given, run.header.command));
  return run;
}

int run_explain(const ExplainOptions& options, const Program& program) {
  const suite::Suite& suite = program.suite();
  const std::string id = as_spelt(suite, options.id);
  const auto& hollow = mutants::hollow_subjects();
  if (const auto found = std::ranges::find(hollow, id, &mutants::Mutant::name); found != hollow.end()) {
    print_hollow(suite, *found);
    return 0;
  }
  std::optional<record::Run> run;
  if (!options.record.empty()) run = on_behalf_of("--record", [&] { return judged_record(options.record); });
  if (const auto bug = suite.bugs.find(id); bug != suite.bugs.end()) {
    if (run) throw InvalidArgument(fmt::format("--record: a record has no verdict on bug {}; give a requirement", id));
    print_bug(suite, bug->second);
    return 0;
  }
  const auto operations = checks_by_operation(suite);
  if (const auto operation = operations.find(id); operation != operations.end()) {
    if (run)
      throw InvalidArgument(fmt::format("--record: a record has no verdict on operation {}; give a requirement", id));
    print_operation(suite, id, operation->second);
    return 0;
  }
  for (const suite::Requirement* row : meant_by(suite, id)) {
    print_requirement(suite, *row, id);
    if (run) print_verdicts(*run, row->id);
  }
  return 0;
}

}  // namespace

Command add_explain(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand(
      "explain", "Explain a requirement with its sources, checks and mutants, an operation or a bug");
  auto options = std::make_shared<ExplainOptions>();
  command
      ->add_option(
          "id", options->id,
          "id of a requirement, check, case, mutant or hollow subject, name of an operation of adapters, or bug "
          "that requirements name")
      ->type_name("ID")
      ->required();
  command
      ->add_option("--record", options->record, "also print the verdict in this record: its run.jsonl, or its folder")
      ->type_name("RUN");
  command->footer(
      "Example: plumbline explain COLL-049 --record results/latest/check-local\n"
      "         plumbline explain COL-02\n"
      "         plumbline explain schedules.lower\n"
      "Exit status: 0 success; 2 usage error, or no such id or record.");
  return [options, &program] { return run_explain(*options, program); };
}

}  // namespace plumbline::cli
