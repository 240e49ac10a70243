// `plumbline check`: takes a subject through the checks of a profile and says, requirement by requirement, whether it is
// right.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/cli/console.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/launch/attach.hpp"
#include "harness/record/environment.hpp"
#include "harness/record/file.hpp"
#include "harness/record/summary.hpp"
#include "harness/subject/modules.hpp"
#include "harness/suite/plan.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/training.hpp"

namespace plumbline::cli {
namespace {

using record::Result;
using record::Verdict;
namespace fs = std::filesystem;

struct CheckOptions {
  SubjectOptions subject;
  suite::Selection selection;
  std::string shuffle;
  std::string out;
  std::string device = "cpu";
  double time_limit = 0;
  bool list = false;
  bool fail_fast = false;
  bool resume = false;
};

// ---- before anything runs ----

suite::Selection selection_of(const CheckOptions& options, const launch::Subject& subject) {
  suite::Selection selection = options.selection;
  selection.door = subject.adapter.empty() ? suite::Door::backend : suite::Door::adapter;
  if (!options.shuffle.empty()) {
    std::uint64_t seed = std::random_device{}();
    if (options.shuffle != "random") {
      if (const std::string why = seed_number()(options.shuffle); !why.empty())
        throw InvalidArgument("--shuffle: " + why);
      seed = std::stoull(options.shuffle);
    }
    selection.shuffle = seed;
  }
  return selection;
}

std::string default_folder(const launch::Subject& subject) {
  return "results/latest/check-" + (subject.adapter.empty() ? subject.backend : std::string("adapter"));
}

Result blank_result(const suite::Suite& suite, const suite::PlannedCase& planned) {
  const suite::Case& one = *planned.one;
  Result result{.check = one.check->id,
                .case_id = one.id(),
                .parameters = one.parameters.all(),
                .seed = planned.seed,
                .repetition = planned.repetition};
  for (const suite::Requirement* requirement : suite.verified_by(*one.check))
    result.requirements.push_back(requirement->id);
  return result;
}

std::string quoted(const std::string& text) {
  const bool plain = std::ranges::all_of(
      text, [](unsigned char c) { return std::isalnum(c) || std::strchr("-_./:=,+", c) != nullptr; });
  if (plain && !text.empty()) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Runs one case alone, and leaves the record that it is from as it is.
std::string repeat_command(const CheckOptions& options, const launch::Subject& subject, const Result& result) {
  std::string command = "plumbline check";
  for (const std::string& argument : subject.arguments()) command += " " + quoted(argument);
  if (options.selection.profile != "collectives") command += " --profile " + quoted(options.selection.profile);
  if (options.device != "cpu") command += " --device " + options.device;
  if (options.subject.launcher != "auto") command += " --launcher " + options.subject.launcher;
  if (options.time_limit > 0) command += fmt::format(" --time-limit {}", options.time_limit);
  return fmt::format("{} --seed {} --filter {} --out results/latest/repeat", command, result.seed,
                     quoted(result.case_id));
}

// ---- one run ----

class CheckRun {
 public:
  CheckRun(const suite::Suite& suite, const CheckOptions& options, int attached_processes)
      : suite_(suite), options_(options), driver_(options.subject.driver()) {
    if (attached_processes > 0) {
      driver_.group.launcher = launch::Launcher::attached;
      driver_.group.attached_processes = attached_processes;
      driver_.jobs = 1;  // the job's ranks are one group
    }
    const launch::Subject& subject = driver_.group.subject;
    suite::Selection selection = selection_of(options, subject);
    selection.largest_world = attached_processes;
    profile_ = &suite.profile(selection.profile);
    if (selection.door == suite::Door::adapter && !selection.worlds.empty())
      throw InvalidArgument(
          fmt::format("--world-size {}: an adapter is asked by one process; the option is for backends",
                      fmt::join(selection.worlds, ",")));
    if (selection.door == suite::Door::adapter && options.device != "cpu")
      throw InvalidArgument(
          fmt::format("--device {}: an adapter computes where it likes; the option is for backends", options.device));
    check_worlds(selection);
    plan_ = suite::make_plan(suite, selection);
    require_modules();
    folder_ = options.out.empty() ? default_folder(subject) : options.out;
    header_ = {.command = "check",
               .subject = subject.describe(),
               .suite_version = PLUMBLINE_VERSION,
               .plan_hash = suite::plan_hash(conditions(), PLUMBLINE_VERSION, plan_),
               .profile = profile_->name,
               .seed = selection.seed,
               .started = record::utc_now()};
    header_.arguments = record::command_line();
    if (selection.shuffle) words_ += fmt::format(", --shuffle={}", *selection.shuffle);
    if (options.device != "cpu") words_ += ", --device=" + options.device;
    for (const suite::PlannedCase& planned : plan_) {
      const Result blank = blank_result(suite, planned);
      header_.plan.push_back({blank.case_id, blank.requirements, blank.arm, blank.seed, blank.repetition});
    }
  }

  [[nodiscard]] const std::string& folder() const { return folder_; }

  void list() const {
    for (const suite::PlannedCase& planned : plan_) fmt::print("{}\n", planned.one->id());
  }

  int run(const std::function<void(const launch::Rendezvous&)>& listening) {
    prepare_record();
    // A launcher that gives its ranks a terminal does not show it to anybody.
    const bool attached = driver_.group.launcher == launch::Launcher::attached;
    Console console(suite_, todo_.size(), ::isatty(STDOUT_FILENO) == 1 && !attached);
    fmt::print("{}: {} cases of profile {} {}, seed {}{}\n", header_.subject, todo_.size(), profile_->name,
               profile_->version, header_.seed, words_);
    std::cout.flush();
    console_ = &console;
    std::vector<launch::Assignment> assignments;
    for (const suite::PlannedCase* planned : todo_) assignments.push_back(assignment_of(*planned));
    const auto begun = std::chrono::steady_clock::now();
    bool whole = todo_.empty();
    std::exception_ptr failure;  // of the machine: what there is by then is still worth its files
    try {
      whole = whole || launch::run(assignments, driver_, observer(listening));
    } catch (...) {
      failure = std::current_exception();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (failure && !writer_->in_place()) std::rethrow_exception(failure);  // nothing ran: the record before this stays
    const auto run = close_record(*writer_, whole && !stopped_, seconds);
    if (!run) return interrupted();
    console.summary(*run, folder_);
    try {
      write_outputs(folder_, *run);
    } catch (const RuntimeFailure&) {
      if (!failure) throw;  // else the first error is the one to tell
    }
    if (failure) std::rethrow_exception(failure);
    return whole ? record::exit_status(*run) : interrupted();
  }

 private:
  [[nodiscard]] int interrupted() const {
    std::cerr << "plumbline: interrupted; plumbline check … --resume --out " << folder_ << " runs the rest\n";
    return 3;
  }

  // What all results of a record have in common.
  [[nodiscard]] std::string conditions() const {
    return fmt::format("{} on {} within {}", driver_.group.subject.describe(), options_.device, options_.time_limit);
  }

  void check_worlds(const suite::Selection& selection) const {
    if (driver_.group.launcher == launch::Launcher::attached) return;
    for (const int world : selection.worlds) require_ranks("--world-size", world);
  }

  void require_modules() const {
    std::set<std::string> modules;
    for (const suite::PlannedCase& planned : plan_)
      modules.insert(planned.one->check->modules.begin(), planned.one->check->modules.end());
    for (const std::string& module : modules)
      if (const std::string why = subject::why_not_here(module, training::kTrainingFactory); !why.empty())
        throw subject::NotAvailable(fmt::format("profile {} needs module {}: {}", profile_->name, module, why));
  }

  // Begins the record, or takes one up: then only what has no result is left to do.
  void prepare_record() {
    std::map<std::string, bool> have;  // a result that holds
    if (options_.resume) {
      if (!fs::exists(fs::path(folder_) / "run.jsonl"))
        throw InvalidArgument(fmt::format("--resume: there is no record in '{}'", folder_));
      const record::Run before = record::read(fs::path(folder_) / "run.jsonl");
      if (before.header.plan_hash != header_.plan_hash)
        throw InvalidArgument(fmt::format(
            "--resume: '{}' holds another plan ({}, {} cases, hash {}) than this one (hash {}); give the same options, "
            "or another --out",
            folder_, before.header.subject, before.header.plan.size(), before.header.plan_hash, header_.plan_hash));
      for (const Result& result : before.results) {
        have[result.key()] = result.verdict != Verdict::error;
        attempts_[result.key()] = result.attempt;
      }
      writer_.emplace(record::Writer::resume(folder_));
    } else {
      header_.environment = record::capture_environment();
      writer_.emplace(folder_, header_);
    }
    for (const suite::PlannedCase& planned : plan_)
      if (!have[blank_result(suite_, planned).key()]) todo_.push_back(&planned);
    // There is only one group then: what leaves calls behind comes last.
    if (driver_.group.launcher == launch::Launcher::attached)
      std::ranges::stable_partition(todo_, [](const auto* planned) { return !planned->one->check->spoils_group; });
  }

  [[nodiscard]] std::chrono::duration<double> limit_of(const suite::Case& one) const {
    if (options_.time_limit > 0) return std::chrono::duration<double>(options_.time_limit);
    return one.check->limit;
  }

  launch::Assignment assignment_of(const suite::PlannedCase& planned) const {
    const suite::Case& one = *planned.one;
    nlohmann::json command{{"type", "run"}, {"case", one.number}, {"seed", planned.seed}};
    if (options_.device != "cpu") command["device"] = options_.device;
    return {.command = std::move(command),
            .world = one.world(),
            .isolation = one.component(),
            .limit = limit_of(one),
            .spoils_group = one.check->spoils_group};
  }

  launch::Observer observer(const std::function<void(const launch::Rendezvous&)>& listening) {
    launch::Observer observer;
    observer.before = [this](std::size_t index, const nlohmann::json& description) {
      writer_->subject(description);
      return decide(*todo_[index]->one, description);
    };
    observer.begin = [this](std::size_t index) {
      const suite::Case& one = *todo_[index]->one;
      console_->begin(fmt::format("{}, {} rank{}", one.component(), one.world(), one.world() == 1 ? "" : "s"),
                      one.id());
    };
    observer.end = [this](std::size_t index, const launch::Outcome& outcome) { return take(*todo_[index], outcome); };
    observer.log = [this](const std::string& line) {
      writer_->note(line);
      console_->line(line);
    };
    observer.listening = listening;
    return observer;
  }

  // What the subject's own words decide without a run.
  std::optional<launch::Outcome> decide(const suite::Case& one, const nlohmann::json& description) const {
    const nlohmann::json& capabilities = description.at("capabilities");
    const auto claims = capabilities.at("claims").get<std::vector<std::string>>();
    const auto dtypes = capabilities.at("dtypes").get<std::vector<std::string>>();
    std::vector<std::string> needs;
    for (const comm::Capability need : one.check->needs) needs.emplace_back(name_of(need));
    for (const suite::Requirement* requirement : suite_.verified_by(*one.check))
      needs.insert(needs.end(), requirement->needs.begin(), requirement->needs.end());
    const auto without = [&](const std::string& what, bool mandatory) {
      return launch::Outcome{
          .verdict = mandatory ? Verdict::fail : Verdict::skip,
          .reason = mandatory
                        ? fmt::format("profile {} demands {}, which the subject does not claim", profile_->name, what)
                        : fmt::format("needs {}, which the subject does not claim", what)};
    };
    if (one.check->door == suite::Door::adapter) {
      const auto operations = description.value("operations", std::vector<std::string>{});
      for (const std::string& operation : one.check->operations)
        if (std::ranges::count(operations, operation) == 0) return without("operation " + operation, false);
      return std::nullopt;
    }
    for (const std::string& need : needs)
      if (std::ranges::count(claims, need) == 0)
        return without("capability " + need, std::ranges::count(profile_->mandatory, need) > 0);
    if (one.parameters.has("dtype") && std::ranges::count(dtypes, one.parameters.text("dtype")) == 0)
      return without("dtype " + one.parameters.text("dtype"), false);
    return std::nullopt;
  }

  bool take(const suite::PlannedCase& planned, const launch::Outcome& outcome) {
    Result result = blank_result(suite_, planned);
    result.verdict = outcome.verdict;
    result.reason = outcome.reason;
    result.ranks = outcome.ranks;
    result.output = outcome.output;
    result.seconds = outcome.seconds;
    result.limit_seconds = limit_of(*planned.one).count();
    result.repeat = repeat_command(options_, driver_.group.subject, result);
    // A failure of what only should be is a warning; a crash or a hang never is.
    const auto requirements = suite_.verified_by(*planned.one->check);
    const bool wrong = result.verdict == Verdict::fail || result.verdict == Verdict::refuse;
    if (wrong && !requirements.empty() &&
        std::ranges::all_of(requirements, [](const suite::Requirement* r) { return r->level == suite::Level::should; }))
      result.verdict = Verdict::warn;
    result.attempt = ++attempts_[result.key()];
    writer_->write(result);
    console_->result(result);
    if (options_.fail_fast && record::is_failure(result.verdict)) stopped_ = true;
    return !stopped_;
  }

  const suite::Suite& suite_;
  const CheckOptions& options_;
  launch::Options driver_;
  const suite::Profile* profile_ = nullptr;
  std::vector<suite::PlannedCase> plan_;
  std::vector<const suite::PlannedCase*> todo_;
  std::map<std::string, int> attempts_;  // made, by key
  std::string folder_;
  record::Header header_;
  std::optional<record::Writer> writer_;
  Console* console_ = nullptr;
  std::string words_;  // of options that a person should see at a glance
  bool stopped_ = false;
};

// Inside the user's own mpirun or srun every rank runs this command.
int run_in_job(const suite::Suite& suite, const CheckOptions& options, const Program& program,
               const launch::JobPlace& place) {
  CheckRun planned(suite, options, place.size);  // on all ranks: a wrong option is said before anything starts
  fs::create_directories(planned.folder());      // likewise
  const launch::Subject subject = options.subject.subject();
  const auto driver = [&](const launch::Listening& listening) -> int {
    try {
      return planned.run(listening);
    } catch (const std::exception& error) {
      return report(error);
    }
  };
  const auto worker = [&] {
    std::vector<std::string> arguments{"worker"};
    for (const std::string& argument : subject.arguments()) arguments.push_back(argument);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    return program.worker(static_cast<int>(pointers.size()), pointers.data());
  };
  return launch::run_attached(place, planned.folder(), driver, worker);
}

int run_check(const CheckOptions& options, const Program& program) {
  const suite::Suite& suite = program.suite();
  const launch::Subject subject = options.subject.subject();
  const auto place = launch::job_place();
  if (place && subject.has_processes() && options.subject.launcher == "auto" && !options.list)
    return run_in_job(suite, options, program, *place);
  if (!options.list && !subject.has_processes()) options.subject.require_no_job(subject.describe());
  CheckRun run(suite, options, 0);
  if (options.list) {
    run.list();
    return 0;
  }
  return run.run({});
}

}  // namespace

Command add_check(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("check", "Take a subject through conformance checks and judge it");
  auto options = std::make_shared<CheckOptions>();
  options->subject.add_to(*command, SubjectOptions::Kind::cases);
  command
      ->add_option("--profile", options->selection.profile, "What the subject claims: collectives, data-parallel, full")
      ->capture_default_str();
  command->add_option("--filter", options->selection.filters,
                      "Only these: a requirement, check or case id with * and ?, component:X, tag:X, source:X; may be "
                      "given several times");
  command->add_option("--world-size", options->selection.worlds, "Only these numbers of ranks: 2,3")
      ->delimiter(',')
      ->check(at_least(1));
  command->add_option("--seed", options->selection.seed, "Of everything random")
      ->check(seed_number())
      ->capture_default_str();
  command->add_option("--repeat", options->selection.repeat, "Run the plan so often, each time with the next seed")
      ->check(at_least(1, 10000))
      ->capture_default_str();
  command
      ->add_option("--shuffle", options->shuffle,
                   "Random order within a component and world size, by a seed or a fresh one")
      ->expected(0, 1)
      ->default_str("random")
      ->type_name("[SEED]");
  command->add_option("--time-limit", options->time_limit, "Seconds a case may take, instead of each check's own")
      ->check(seconds());
  command->add_option("--device", options->device, "Where the training checks compute")
      ->check(device_name())
      ->capture_default_str();
  command->add_option("--out", options->out, "Folder of the record (default: results/latest/check-SUBJECT)")
      ->type_name("DIR");
  command->add_flag("--list", options->list, "Print the planned cases and run nothing");
  command->add_flag("--fail-fast", options->fail_fast, "Stop at the first failure");
  command->add_flag("--resume", options->resume, "Go on with the record in --out: run what has no result yet");
  command->footer("Example: plumbline check --backend mpi --world-size 2,3 --filter 'COLL-0*'");
  return [options, &program] { return run_check(*options, program); };
}

}  // namespace plumbline::cli
