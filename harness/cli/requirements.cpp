// `plumbline requirements`: the sentences by which subjects are judged.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/cli/program.hpp"
#include "harness/mutants/evidence.hpp"
#include "harness/run/counted.hpp"
#include "harness/subject/known_subjects.hpp"
#include "harness/suite/coverage.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

struct RequirementOptions {
  std::string profile;
  std::string format = "table";
  bool coverage = false;
};

// Whom its checks can judge.
std::vector<std::string_view> subjects_of(const suite::Suite& suite, const suite::Requirement& row) {
  std::vector<std::string_view> names;
  for (const suite::Judged judged : suite::judged_by(suite, row)) names.push_back(name_of(judged));
  return names;
}

std::vector<const suite::Requirement*> selected(const suite::Suite& suite, const std::string& profile) {
  std::vector<const suite::Requirement*> rows;
  for (const auto& [id, requirement] : suite.requirements.rows())
    if (profile.empty() || suite.belongs(requirement, suite.profile(profile))) rows.push_back(&requirement);
  return rows;
}

void print_table(const std::vector<const suite::Requirement*>& rows) {
  for (const suite::Requirement* row : rows)
    fmt::print("{:<11} {:<6} {}\n", row->citation(), suite::name_of(row->level),
               suite::with_items_after(fmt::format("\n{:19}", ""), row->text));
  fmt::print("{}\n", run::counted(rows.size(), "requirement"));
}

void print_json(const suite::Suite& suite, const std::vector<const suite::Requirement*>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const suite::Requirement* row : rows) {
    nlohmann::json terms = nlohmann::json::object();
    for (const suite::Term& term : suite.requirements.terms_in(*row)) terms[term.forms] = term.meaning;
    list.push_back({{"id", row->id},
                    {"hash", suite::sentence_hash(row->text)},
                    {"component", row->component},
                    {"level", suite::name_of(row->level)},
                    {"since", row->since},
                    {"text", row->text},
                    {"terms", std::move(terms)},
                    {"rationale", row->rationale},
                    {"source", row->sources},
                    {"checks", mutants::checks_of(suite, *row)},
                    {"subjects", subjects_of(suite, *row)},
                    {"mutants", mutants::mutants_of(suite, *row)},
                    {"needs", row->needs},
                    {"tags", row->tags}});
  }
  fmt::print("{}\n", list.dump(2));
}

// The head of a component: what its words mean.
void print_markdown_head(const suite::Suite& suite, const std::string& component) {
  fmt::print("## {}\n\n", component);
  const std::vector<suite::Term> terms = suite.requirements.terms_of(component);
  if (!terms.empty()) fmt::print("| term | meaning |\n| --- | --- |\n");
  for (const suite::Term& term : terms) fmt::print("| {} | {} |\n", term.forms, term.meaning);
  fmt::print("{}| id | level | requirement | checks | mutants | source |\n| --- | --- | --- | --- | --- | --- |\n",
             terms.empty() ? "" : "\n");
}

void print_markdown(const suite::Suite& suite, const std::vector<const suite::Requirement*>& rows) {
  std::string component;
  for (const suite::Requirement* row : rows) {
    if (row->component != component) {
      if (!component.empty()) fmt::print("\n");
      print_markdown_head(suite, component = row->component);
    }
    fmt::print("| {} | {} | {}{} | {} | {} | {} |\n", row->id, suite::name_of(row->level),
               suite::with_items_after("<br>", row->text),
               row->rationale.empty() ? "" : fmt::format("<br>*{}*", row->rationale),
               fmt::join(mutants::checks_of(suite, *row), ", "), fmt::join(mutants::mutants_of(suite, *row), ", "),
               fmt::join(row->sources, ", "));
  }
}

// What a subject that claims the profile must keep, as conformance/mustpass has it for each profile's version.
void print_must_pass(const std::vector<const suite::Requirement*>& rows) {
  for (const suite::Requirement* row : rows)
    if (row->level == suite::Level::must) fmt::print("{}\n", row->citation());
}

// How many rows no subject but the reference can meet, by component.
void print_own(const suite::Suite& suite, const std::vector<const suite::Requirement*>& rows) {
  std::map<std::string, int> own;
  int sum = 0;
  for (const suite::Requirement* row : rows)
    if (suite::judged_by(suite, *row) == std::set{suite::Judged::reference}) ++own[row->component], ++sum;
  std::vector<std::string> parts;
  for (const auto& [component, count] : own) parts.push_back(fmt::format("{} {}", component, count));
  fmt::print("{} of them for no subject but the reference's own classes{}{}\n", sum, parts.empty() ? "" : ": ",
             fmt::join(parts, ", "));
}

// What each row rests on: the checks that verify it, whom these judge, their cases and world sizes, the mutants that
// show them at work.
// Returns 1 where something is inconsistent.
int print_coverage(const suite::Suite& suite, const std::vector<const suite::Requirement*>& rows) {
  fmt::print("{:<11} {:<6} {:>6} {:>6} {:>7}  {:<18} {}\n", "requirement", "level", "checks", "cases", "mutants",
             "subjects", "world sizes");
  std::size_t with_mutant = 0;
  std::vector<std::string> problems = suite.problems();
  for (const suite::Requirement* row : rows) {
    const std::vector<std::string> checks = mutants::checks_of(suite, *row), proofs = mutants::mutants_of(suite, *row);
    int cases = 0;
    std::set<int> worlds;
    for (const suite::Case& one : suite.cases())
      if (std::ranges::count(checks, one.check->id) > 0) {
        ++cases;
        if (one.check->door == suite::Door::backend) worlds.insert(one.world());
      }
    with_mutant += proofs.empty() ? 0 : 1;
    if (proofs.empty()) problems.push_back(fmt::format("{} has no mutant", row->id));
    fmt::print("{:<11} {:<6} {:>6} {:>6} {:>7}  {:<18} {}\n", row->id, suite::name_of(row->level), checks.size(), cases,
               proofs.size(), fmt::format("{}", fmt::join(subjects_of(suite, *row), " ")),
               worlds.empty() ? "-" : fmt::format("{}", fmt::join(worlds, " ")));
  }
  fmt::print("{}, {} of them with a mutant that violates it\n", run::counted(rows.size(), "requirement"), with_mutant);
  print_own(suite, rows);
  for (std::string& dead : suite::dead_checks(suite, subject::known_subjects())) problems.push_back(std::move(dead));
  for (const std::string& problem : problems) fmt::print("problem: {}\n", problem);
  return problems.empty() ? 0 : 1;
}

}  // namespace

Command add_requirements(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("requirements", "Print the requirements");
  auto options = std::make_shared<RequirementOptions>();
  command->add_option("--profile", options->profile, "print only the requirements of this profile");
  CLI::Option* const format = command
                                  ->add_option("--format", options->format,
                                               "table, json, md, or must-pass (the citations of all MUST requirements)")
                                  ->type_name("FORMAT")
                                  ->capture_default_str();
  command
      ->add_flag("--coverage", options->coverage,
                 "print the checks, cases and mutants of each requirement, and whom the checks can judge: backend, "
                 "adapter, job, or no subject but the reference")
      ->excludes(format);
  command->footer(
      "Level may: the requirement is optional, and its MUST is for a subject that claims it.\n"
      "Example: plumbline requirements --profile collectives --format md\n"
      "Exit status: 0 success; 2 usage error.");
  return [options, &program] {
    const auto rows = selected(program.suite(), options->profile);
    if (options->coverage) return print_coverage(program.suite(), rows);
    if (options->format == "table")
      print_table(rows);
    else if (options->format == "json")
      print_json(program.suite(), rows);
    else if (options->format == "md")
      print_markdown(program.suite(), rows);
    else if (options->format == "must-pass")
      print_must_pass(rows);
    else
      throw InvalidArgument(fmt::format("--format '{}'; it must be table, json, md or must-pass", options->format));
    return 0;
  };
}

}  // namespace plumbline::cli
