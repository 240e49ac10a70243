// `plumbline mutants`: runs the subjects that are wrong on purpose, and says which the checks find.
#include "harness/mutants/mutants.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/cli/cases.hpp"
#include "harness/cli/console.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/launch/speed.hpp"
#include "harness/mutants/hollow.hpp"
#include "harness/record/environment.hpp"
#include "harness/run/counted.hpp"
#include "harness/run/judgement.hpp"
#include "harness/run/kill_matrix.hpp"
#include "harness/run/tries.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {
namespace {

using mutants::Mutant;
using record::Result;
using record::Verdict;
using suite::Door;

struct MutantOptions {
  std::vector<std::string> components;
  std::vector<std::string> filters;
  std::vector<int> worlds;
  std::string backend = "local";
  std::vector<std::string> backend_options;
  OutputFolder out{"mutants"};
  int jobs = 2;
  bool full = false;
  bool without_missing = false;
  bool list = false;
};

struct Chosen {
  std::vector<const Mutant*> mutants, hollow;
};

void print_list(const Chosen& chosen) {
  const std::string woven = mutants::woven_program().empty() ? "a woven build" : mutants::woven_program();
  for (const Mutant* mutant : chosen.mutants) {
    const bool is_elsewhere = !mutants::why_not_woven(*mutant).empty();
    fmt::print("{:<32} violates {}, for --{}{}: {}\n", mutant->name, mutant->violates, name_of(door_of(*mutant)),
               is_elsewhere ? fmt::format(", in {} alone", woven) : "", mutant->what);
    fmt::print("{:<32} shows in {}; {}\n", "", mutant->shows,
               mutant->hides.empty() ? "hides nowhere: " + mutant->why_hides
                                     : "hides in " + mutant->hides + ": " + mutant->why_hides);
  }
  for (const Mutant* subject : chosen.hollow)
    fmt::print("{:<32} hollow, for --{}: {}\n", subject->name, name_of(door_of(*subject)), subject->what);
}

// A filter that chooses nothing: what was meant, or of which component what it names is.
[[noreturn]] void refuse_filter(const std::string& filter, bool takes_hollow, const suite::Suite& suite) {
  std::set<std::string> names, components;
  for (const Mutant& mutant : suite.mutants()) {
    names.insert({mutant.name, mutant.violates});
    const auto* requirement = suite.requirements.find(mutant.violates);
    if (requirement != nullptr &&
        (suite::matches_id(filter, mutant.name) || suite::matches_id(filter, mutant.violates)))
      components.insert(requirement->component);
  }
  if (takes_hollow)
    for (const Mutant& subject : mutants::hollow_subjects()) names.insert(subject.name);
  if (!components.empty())
    throw NotFound(
        fmt::format("--filter '{}' names no mutant that --component and --backend leave; it is of component {}", filter,
                    fmt::join(components, ", ")));
  throw NotFound(fmt::format("--filter '{}' names no mutant{}; plumbline mutants --list prints them{}", filter,
                             did_you_mean(filter, {names.begin(), names.end()}),
                             takes_hollow ? "" : ", of which --full runs the hollow subjects"));
}

Chosen chosen_by(const MutantOptions& options, const suite::Suite& suite) {
  std::set<std::string> components;
  for (const auto& [id, row] : suite.requirements.rows()) components.insert(row.component);
  for (const std::string& component : options.components)
    if (!components.contains(component))
      throw NotFound(
          fmt::format("--component '{}'; {}", component, there_are(component, {components.begin(), components.end()})));
  Chosen chosen;
  std::set<std::string> used;
  const bool takes_hollow = options.full || options.list;
  for (const Mutant& subject : mutants::hollow_subjects()) {
    bool wanted = options.filters.empty();
    for (const std::string& filter : options.filters)
      if (takes_hollow && suite::matches_id(filter, subject.name)) {
        used.insert(filter);
        wanted = true;
      }
    // Some requirements of backends are verified at one world size alone, and over a backend other components judge the
    // reference.
    const bool is_backend = door_of(subject) == Door::backend;
    const bool concerns = options.components.empty() || std::ranges::count(options.components, "collectives") > 0;
    if (is_backend && (!options.worlds.empty() || !concerns)) wanted = false;
    if (wanted && takes_hollow) chosen.hollow.push_back(&subject);
  }
  for (const Mutant& mutant : suite.mutants()) {
    const auto* requirement = suite.requirements.find(mutant.violates);
    if (requirement == nullptr) continue;  // of a component that is not built in
    // Only local is given a runtime of devices.
    if (options.backend != "local" && std::holds_alternative<mutants::WrapRuntime>(mutant.change)) continue;
    if (!options.components.empty() && std::ranges::count(options.components, requirement->component) == 0) continue;
    bool wanted = options.filters.empty();
    for (const std::string& filter : options.filters)
      if (suite::matches_id(filter, mutant.name) || suite::matches_id(filter, mutant.violates)) {
        used.insert(filter);
        wanted = true;
      }
    if (wanted) chosen.mutants.push_back(&mutant);
  }
  for (const std::string& filter : options.filters)
    if (!used.contains(filter)) refuse_filter(filter, takes_hollow, suite);
  return chosen;
}

// One case that one mutant, or none, is to run in.
struct Trial {
  const Mutant* mutant = nullptr;
  suite::PlannedCase planned;
};

class MutantRun {
 public:
  MutantRun(const suite::Suite& suite, const MutantOptions& options, const Chosen& chosen)
      : suite_(suite), options_(options), hollow_(chosen.hollow), profile_(suite.profile("full")) {
    for (const suite::Case& one : suite.cases()) case_of_id_.emplace(one.id(), &one);
    for (const Mutant* mutant : chosen.mutants) {
      if (const std::string why = why_left_out(*mutant); !why.empty())
        ++left_out_[why];
      else
        mutants_.push_back(mutant);
    }
    if (mutants_.empty() && hollow_.empty()) {
      if (left_out_.empty())
        throw NotFound("no mutant is left of what was chosen; see --component, --filter and --world-size");
      throw subject::NotAvailable("no mutant can run here; " + words_of_left_out());
    }
    for (const Mutant* mutant : mutants_) add_trials(*mutant);
    for (const Mutant* subject : hollow_) add_hollow_trials(*subject);
    if (trials_.empty())
      throw NotFound("no case is left of what was chosen; see --component, --filter and --world-size");
    std::vector<suite::PlannedCase> cases;
    for (const Trial& trial : trials_) cases.push_back(trial.planned);
    require_modules(cases, "what was chosen (--component chooses, --without-missing leaves it out)");
    std::ranges::stable_sort(trials_, {}, [](const Trial& trial) {
      return std::tuple(trial.planned.one->component(), trial.planned.one->world());
    });
    // Throws where there is no such backend, before a plan is printed.
    if (std::ranges::any_of(trials_,
                            [](const Trial& trial) { return trial.planned.one->check->door == Door::backend; }))
      (void)subject_options(Door::backend).subject();
  }

  int run() {
    slowness_ = launch::measure_slowness();
    record::Header header = header_of("mutants", fmt::format("mutants of backend {}", options_.backend));
    header.profile = profile_.name;
    header.profile_version = profile_.version;
    for (const Trial& trial : trials_) {
      const Result blank = blank_result(trial.planned, settings_of(trial));
      header.plan.push_back({.case_id = blank.case_id,
                             .requirements = blank.requirements,
                             .mode = blank.mode,
                             .seed = blank.seed,
                             .mutant = blank.mutant});
    }
    header.environment["slowness"] = slowness_;
    header.facts["backend"] = options_.backend;
    quote_suite(header, suite_);
    for (const char* matrix : {"kill-matrix.md", "hollow-matrix.md"}) {  // of an earlier run
      std::error_code error;
      std::filesystem::remove(std::filesystem::path(options_.out.path()) / matrix, error);
    }
    record::Writer writer(options_.out.path(), header);
    Console console(suite_, trials_.size(), ::isatty(STDOUT_FILENO) == 1);
    fmt::print("{} of backend {}{}: {}\n", run::counted(mutants_.size(), "mutant"), options_.backend,
               hollow_.empty() ? "" : " and " + run::counted(hollow_.size(), "hollow subject"),
               run::counted(trials_.size(), "case"));
    if (!options_.full) fmt::print("hollow subjects are left out: --full runs them, in every case of their door\n");
    if (!left_out_.empty()) {
      fmt::print("{}\n", words_of_left_out());
      writer.note(words_of_left_out());
    }
    std::cout.flush();
    const auto begun = std::chrono::steady_clock::now();
    bool whole = true;
    for (const Door door : {Door::backend, Door::adapter, Door::job}) whole = whole && run_door(door, writer, console);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (!whole && writer.in_place()) writer.stopped("a signal interrupted the run");
    const auto run = close_record(writer, whole, seconds);
    if (!run || !whole) throw RuntimeFailure("mutants: a signal interrupted the run; the matrix is not whole");
    write_outputs(options_.out.path(), *run);
    std::vector<Result> results;
    for (const auto& [key, result] : results_) results.push_back(result);
    const int of_hollow = report_hollow(results);
    const int of_mutants = mutants_.empty() ? 0 : report(run::kill_matrix(mutants_, results), seconds);
    return of_hollow == 1 || of_mutants == 0 ? of_hollow : of_mutants;
  }

 private:
  // Why nothing can be learnt of it here, if that is so.
  std::string why_left_out(const Mutant& mutant) {
    if (const std::string why = mutants::why_not_woven(mutant); !why.empty()) return why;
    if (const std::string why = mutants::why_not_under_sanitizer(mutant); !why.empty()) return why;
    const auto shows = case_of_id_.find(mutant.shows);
    if (shows != case_of_id_.end() && shows->second->parameters.has("gib") && !is_named(mutant))
      return "their cases take gigabytes of memory: --filter with their names runs them";
    if (!options_.without_missing) return {};
    for (const std::string& id : {mutant.shows, mutant.hides})
      if (const auto one = case_of_id_.find(id); one != case_of_id_.end())
        if (const std::string why = modules_.why_not(*one->second->check); !why.empty()) return "a case " + why;
    return {};
  }

  // Whether a filter is its name, or that of the requirement that it violates.
  [[nodiscard]] bool is_named(const Mutant& mutant) const {
    return std::ranges::any_of(options_.filters, [&](const std::string& filter) {
      return suite::matches_id(mutant.name, filter) || suite::matches_id(mutant.violates, filter);
    });
  }

  [[nodiscard]] std::string words_of_left_out() const {
    std::vector<std::string> parts;
    for (const auto& [why, count] : left_out_) parts.push_back(fmt::format("{} ({})", count, why));
    return fmt::format("left out: {}", fmt::join(parts, "; "));
  }

  static suite::PlannedCase planned(const suite::Case& one, const std::string& mode, std::uint64_t seed = 1) {
    return {.one = &one, .seed = seed, .mode = suite::ExecutionMode::parse(mode)};
  }

  // Each case once without a mutant: what fails then says nothing about one.
  void add_trial(const Mutant& mutant, const suite::PlannedCase& planned) {
    trials_.push_back({&mutant, planned});
    if (usual_.insert(planned.one->id() + planned.mode.name() + std::string(name_of(door_of(mutant)))).second)
      trials_.push_back({nullptr, planned});
  }

  void add_trials(const Mutant& mutant) {
    if (const auto shows = case_of_id_.find(mutant.shows); shows != case_of_id_.end())
      add_trial(mutant, planned(*shows->second, mutant.shows_arm));
    if (const auto hides = case_of_id_.find(mutant.hides); hides != case_of_id_.end())
      add_trial(mutant, planned(*hides->second, mutant.hides_arm));
    if (!options_.full) return;
    for (const auto& [id, one] : case_of_id_)
      if (belongs_to_full(*one, mutant) && id != mutant.shows && id != mutant.hides)
        add_trial(mutant, planned(*one, "plain"));
  }

  // Every case that judges the subject itself: over a backend most components' checks judge the reference.
  void add_hollow_trials(const Mutant& subject) {
    std::map<const suite::Check*, std::vector<const suite::Case*>> cases;
    for (const auto& [id, one] : case_of_id_) {
      const auto verified = suite_.verified_by(*one->check);
      const auto concerns = [&](const std::string& component) {
        return std::ranges::count(verified, component, &suite::Requirement::component) > 0;
      };
      if (!belongs_to_full(*one, subject) || (one->check->door == Door::backend && !concerns("collectives"))) continue;
      if (options_.components.empty() || std::ranges::any_of(options_.components, concerns))
        cases[one->check].push_back(one);
    }
    for (const auto& [check, of_check] : cases)
      for (std::uint64_t seed = 1; (seed - 1) * of_check.size() < mutants::hollow_draws(subject); ++seed)
        for (const suite::Case* one : of_check) add_trial(subject, planned(*one, "plain", seed));
  }

  // Whether --full runs a case with a mutant.
  [[nodiscard]] bool belongs_to_full(const suite::Case& one, const Mutant& mutant) {
    if (one.check->door != door_of(mutant) || (one.parameters.has("gib") && !is_named(mutant))) return false;
    if (!options_.worlds.empty() && std::ranges::count(options_.worlds, one.ranks()) == 0) return false;
    return !options_.without_missing || modules_.why_not(*one.check).empty();
  }

  [[nodiscard]] SubjectOptions subject_options(Door door) const {
    SubjectOptions subject;
    subject.jobs = options_.jobs;
    if (door == Door::backend) {
      subject.backend = options_.backend;
      subject.backend_options = options_.backend_options;
    }
    if (door == Door::adapter) subject.adapter = "reference";
    if (door == Door::job) {
      subject.job = reference_job();
      subject.job_launches_ranks = true;
    }
    return subject;
  }

  [[nodiscard]] launch::Options driver_of(Door door, const std::string& device) const {
    launch::Options driver = subject_options(door).driver();
    driver.stacks = false;  // a mutant that hangs is no mystery
    if (door == Door::backend && options_.backend == "local") driver.group.worker_options = device_options(device);
    return driver;
  }

  [[nodiscard]] CaseSettings settings_of(const Trial& trial) const {
    CaseSettings settings{.suite = suite_, .profile = profile_};
    // Limits are generous for subjects that may be right.
    constexpr double kPart = 0.25;
    settings.slowness = slowness_ * kPart;
    if (trial.mutant != nullptr) settings.mutant = trial.mutant->name;
    const bool of_devices =
        trial.mutant != nullptr && std::holds_alternative<mutants::WrapRuntime>(trial.mutant->change);
    if (of_devices || trial.planned.one->check->on_device) settings.device = "emulated";
    if (trial.planned.one->check->door == Door::backend)
      settings.device = subject_options(Door::backend).own_device().value_or(settings.device);
    return settings;
  }

  // Those of a device apart: a subject with one may claim less.
  bool run_door(Door door, record::Writer& writer, Console& console) {
    std::vector<const Trial*> on_host, on_device;
    for (const Trial& trial : trials_)
      if (trial.planned.one->check->door == door)
        (settings_of(trial).device == "emulated" ? on_device : on_host).push_back(&trial);
    return run_twice(door, std::move(on_host), writer, console) &&
           run_twice(door, std::move(on_device), writer, console);
  }

  bool run_twice(Door door, std::vector<const Trial*> trials, record::Writer& writer, Console& console) {
    if (!run_trials(door, trials, writer, console)) return false;
    // A machine that stood still for a while is no proof: what hung or crashed must do so again, alone.
    std::erase_if(trials, [&](const Trial* trial) {
      const auto result = results_.find(blank_result(trial->planned, settings_of(*trial)).key());
      return trial->mutant == nullptr || result == results_.end() || !run::died(result->second.verdict);
    });
    return run_trials(door, trials, writer, console);
  }

  bool run_trials(Door door, const std::vector<const Trial*>& trials, record::Writer& writer, Console& console) {
    if (trials.empty()) return true;
    std::vector<launch::Assignment> assignments;
    for (const Trial* trial : trials) {
      const bool again = results_.contains(blank_result(trial->planned, settings_of(*trial)).key());
      const std::string isolation = again ? fmt::format("{}", assignments.size()) : trial->planned.one->component();
      assignments.push_back(assignment_of(trial->planned, settings_of(*trial), isolation));
    }
    launch::Observer observer;
    observer.before = [&](std::size_t index, const nlohmann::json& description) {
      writer.subject(description);
      return outcome_without_run(trials[index]->planned, settings_of(*trials[index]), description);
    };
    observer.begin = [&](std::size_t index) {
      const suite::Case& one = *trials[index]->planned.one;
      console.begin(fmt::format("{}, {} rank{}", one.component(), one.ranks(), one.ranks() == 1 ? "" : "s"), one.id());
    };
    observer.still = [&](std::size_t index, std::chrono::duration<double> since) {
      console.still(title_of(blank_result(trials[index]->planned, settings_of(*trials[index]))), since);
    };
    observer.end = [&](std::size_t index, const launch::Outcome& outcome) {
      const Result& result = take(*trials[index], outcome);
      writer.write(run::judged(result));
      if (!run::died(result.verdict)) console.result(result);
      return true;
    };
    observer.log = [&](const std::string& line) { writer.note(line); };
    observer.output = [&](std::size_t index, int, const nlohmann::json& value) {
      if (value.contains("deviations"))
        deviating_.insert(blank_result(trials[index]->planned, settings_of(*trials[index])).key());
    };
    return launch::run(assignments, driver_of(door, settings_of(*trials.front()).device), observer);
  }

  const Result& take(const Trial& trial, const launch::Outcome& outcome) {
    Result result = result_of(trial.planned, settings_of(trial), outcome);
    if (const auto before = results_.find(result.key()); before != results_.end()) {
      const std::vector<std::string> violated = result.violated;
      result = run::after_another_try(before->second, std::move(result));
      if (result.violated.empty()) result.violated = violated;  // a try that crashed has judged nothing
      result.attempt = 2;
      result.seconds = before->second.seconds;  // until it was killed
    }
    if (trial.mutant != nullptr) result.expectation = run::expected_of(*trial.mutant, result);
    result.repeat = repeat_command(trial);
    return results_.insert_or_assign(result.key(), std::move(result)).first->second;
  }

  [[nodiscard]] std::string repeat_command(const Trial& trial) const {
    std::string command = "plumbline check --profile full";
    const Door door = trial.planned.one->check->door;
    for (const std::string& argument : subject_options(door).subject().arguments()) command += " " + quoted(argument);
    if (trial.mutant != nullptr) command += " --mutant " + trial.mutant->name;
    return command + mode_options(trial.planned.mode, door) +
           fmt::format(" --seed {} --filter {} --out results/latest/repeat", trial.planned.seed,
                       quoted(trial.planned.one->id()));
  }

  // Returns the exit status.
  int report_hollow(const std::vector<Result>& results) const {
    if (hollow_.empty()) return 0;
    const auto rows =
        run::hollow_matrix(hollow_, results, deviating_, suite_.requirements, suite_.hollow_truths).rows();
    const std::string text = mutants::to_markdown(rows);
    record::write_file(std::filesystem::path(options_.out.path()) / "hollow-matrix.md", text);
    const auto bad = std::ranges::count_if(rows, [](const mutants::HollowRow& row) { return !row.good(); });
    const auto undecided =
        std::ranges::count_if(rows, [](const mutants::HollowRow& row) { return !row.undecided.empty(); });
    fmt::print(
        "{}{}: {} hollow subjects, {} rows, {} of them with requirements that must not pass{}\n", text,
        bad > 0         ? "NOT OK"
        : undecided > 0 ? "INCONCLUSIVE"
                        : "OK",
        hollow_.size(), rows.size(), bad,
        undecided == 0 ? "" : fmt::format(", {} with requirements of which no case came to a verdict", undecided));
    fmt::print(
        "matrix: {}/hollow-matrix.md (fail: found wrong; do not meet it: in no case does it answer otherwise than the "
        "right one)\n",
        options_.out.path());
    return bad > 0 ? 1 : undecided > 0 ? 3 : 0;
  }

  // Returns the exit status.
  int report(const std::vector<run::KillRow>& rows, double seconds) const {
    record::write_file(std::filesystem::path(options_.out.path()) / "kill-matrix.md", to_markdown(rows));
    std::size_t killed = 0, hidden = 0, with_hiding = 0, unsure = 0;
    int left_out = 0;
    for (const auto& [why, count] : left_out_) left_out += count;
    for (const run::KillRow& row : rows) {
      killed += row.killed;
      unsure += row.inconclusive;
      with_hiding += !row.mutant->hides.empty();
      hidden += !row.mutant->hides.empty() && !row.showed_in_hiding && !row.inconclusive;
    }
    fmt::print("{}", to_markdown(rows));
    fmt::print(
        "{}: {} of {} mutants killed by a check of the requirement that they violate; {} of {} survive where they "
        "hide; {} inconclusive; {}{:.1f} s\nrecord: {}/run.jsonl (kill-matrix.md beside it)\n",
        std::ranges::all_of(rows, &run::KillRow::good) ? "OK" : "NOT OK", killed, rows.size(), hidden, with_hiding,
        unsure, left_out == 0 ? "" : fmt::format("{} left out; ", left_out), seconds, options_.out.path());
    return run::exit_status(rows);
  }

  const suite::Suite& suite_;
  const MutantOptions& options_;
  std::vector<const Mutant*> mutants_;   // those that run
  std::vector<const Mutant*> hollow_;    // the hollow subjects that run
  std::map<std::string, int> left_out_;  // how many do not, by why
  ModulesHere modules_;
  const suite::Profile& profile_;
  std::map<std::string, const suite::Case*> case_of_id_;
  std::vector<Trial> trials_;
  std::set<std::string> deviating_;        // keys of results in which a hollow subject did something wrong
  std::set<std::string> usual_;            // cases that run without a mutant
  std::map<std::string, Result> results_;  // by key
  double slowness_ = 1;
};

}  // namespace

Command add_mutants(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand(
      "mutants", "Run the checks on subjects with one known fault each, and print which faults they find");
  auto options = std::make_shared<MutantOptions>();
  command
      ->add_option("--component", options->components, "run only mutants that violate requirements of this component")
      ->type_name("NAME")
      ->delimiter(',');
  command->add_option("--filter", options->filters, "run only these: a mutant or requirement id with * and ?")
      ->type_name("PATTERN");
  command->add_option("--backend", options->backend, "backend that is broken")->capture_default_str();
  command->add_option("--backend-option", options->backend_options, "option of the backend; may be repeated")
      ->type_name("KEY=VALUE");
  command->add_option("--jobs", options->jobs, "worker groups that run at once")
      ->check(at_least(1, 64))
      ->capture_default_str();
  CLI::Option* const full = command->add_flag(
      "--full", options->full,
      "run every case on each mutant, not only those where it shows and hides, and all hollow subjects");
  command
      ->add_option("--world-size", options->worlds,
                   "run only with these numbers of ranks, and without hollow backends, which need all of them")
      ->delimiter(',')
      ->check(at_least(1))
      ->needs(full);
  command->add_flag("--without-missing", options->without_missing,
                    "leave out mutants whose cases need a module that is not installed, and print their number");
  options->out.add_to(*command, "folder of the record and the kill matrix");
  command->add_flag("--list", options->list, "print the mutants without running them");
  command->footer(
      "A mutant is the reference, a backend or an answer with one fault; it violates one requirement, shows\n"
      "in one case, and hides in another. A hollow subject answers, records or transfers nothing that is\n"
      "right, such as an adapter whose answers are all 0. It must fail every requirement except those that\n"
      "the hollow.toml of a component lists, each with the reason. --full writes hollow-matrix.md.\n"
      "Example: plumbline mutants --component collectives\n"
      "         plumbline mutants --full --filter 'hollow.*' --component scaler\n"
      "Exit status: 0 every mutant fails exactly where it must; 1 one does not; 2 usage error; 3 the\n"
      "harness or the machine failed, or nothing ran.");
  const auto header = [options] {
    return header_of("mutants", fmt::format("mutants of backend {}", options->backend));
  };
  const auto run = [options, header, &program] {
    const suite::Suite& suite = program.suite();
    const auto chosen = chosen_by(*options, suite);
    if (options->list) {
      print_list(chosen);
      return 0;
    }
    return with_unfinished_reports(options->out, header(), [&] { return MutantRun(suite, *options, chosen).run(); });
  };
  return {run, [options, header](const CommandLine& line, const std::string& why) {
            refuse_in_reports(line, header(), why);
          }};
}

}  // namespace plumbline::cli
