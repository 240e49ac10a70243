#include "harness/cli/check_run.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/cli/outputs.hpp"
#include "harness/launch/speed.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/record/environment.hpp"
#include "harness/run/control.hpp"
#include "harness/run/counted.hpp"
#include "harness/run/judgement.hpp"
#include "harness/run/shards.hpp"
#include "harness/run/summary.hpp"
#include "harness/run/tries.hpp"
#include "harness/statement/statement.hpp"
#include "harness/subject/adapter/client.hpp"
#include "harness/subject/backend_name.hpp"
#include "harness/suite/eligibility.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {

using record::Result;
using record::Verdict;
namespace fs = std::filesystem;

namespace {

/// That of a run whose options do not say what is wanted.
constexpr const char* kUsualProfile = "collectives";

// ---- options ----

std::uint64_t seed_of(const std::string& option, const std::string& text) {
  if (const std::string why = seed_number()(text); !why.empty()) throw InvalidArgument(option + ": " + why);
  return std::stoull(text);
}

std::vector<suite::ExecutionMode> arms_of(const CheckOptions& options) {
  using Kind = suite::ExecutionMode::Kind;
  std::vector<suite::ExecutionMode> modes;
  if (options.plain) modes.push_back({});
  if (options.rendezvous) modes.push_back({.kind = Kind::rendezvous});
  if (!options.chaos.empty()) modes.push_back({.kind = Kind::chaos, .seed = seed_of("--chaos", options.chaos)});
  return modes;
}

// Empty: what an adapter claims decides. What a filter names may be of any profile.
std::string profile_as_given(const CheckOptions& options) {
  if (!options.selection.profile.empty()) return options.selection.profile;
  if (options.subject.adapter.empty()) return kUsualProfile;
  return options.selection.filters.empty() ? "" : "full";
}

// What an adapter claims, which is started for that. Who waits too long for its greeting is told for whom.
nlohmann::json claims_of(const std::string& adapter, double time_limit) {
  using std::chrono::milliseconds, std::chrono::duration;
  constexpr duration<double> least(10), most(86400), quiet(5);  // a program starts before it answers
  subject::AdapterOptions how;
  if (time_limit > 0)
    how.limit = std::chrono::ceil<milliseconds>(std::clamp(duration<double>(time_limit), least, most));
  std::mutex mutex;
  std::condition_variable_any answered;
  const std::jthread notice([&](const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    answered.wait_for(lock, stop, quiet, [] { return false; });
    if (!stop.stop_requested())
      fmt::print(stderr, "waiting for the greeting of adapter '{}', at most {:.0f} s (--time-limit)\n", adapter,
                 duration<double>(how.limit).count());
  });
  return subject::open_adapter(adapter, how)->claims();
}

// Where no filter says what is wanted, an adapter is started to hear what it claims: it is held to all of that.
std::string profile_of(const suite::Suite& suite, const CheckOptions& options, const launch::Subject& subject) {
  if (const std::string given = profile_as_given(options); !given.empty()) return given;
  const auto found = suite::profiles_for_adapter(suite, claims_of(subject.adapter, options.time_limit));
  const auto most = std::ranges::max_element(found, {}, &suite::ProfileCases::cases);
  return most == found.end() ? kUsualProfile : most->profile->name;
}

suite::Selection selection_as_given(const suite::Suite& suite, const CheckOptions& options,
                                    const launch::Subject& subject, int attached_processes) {
  suite::Selection selection = options.selection;
  selection.door = subject.door();
  selection.largest_world = attached_processes;
  selection.modes = arms_of(options);
  if (!options.shard.empty()) selection.shard = suite::Shard::parse(options.shard);

  if (selection.shard.count > 1 && options.shuffle == "random")
    throw InvalidArgument("--shuffle: give it the same seed in every shard: --shuffle=7");
  if (!options.shuffle.empty())
    selection.shuffle = options.shuffle == "random" ? std::random_device{}() : seed_of("--shuffle", options.shuffle);
  if (selection.door != suite::Door::backend && !selection.modes.empty())
    throw InvalidArgument(
        fmt::format("--{}: the messages of {} are not visible to Plumbline; the option is for backends",
                    options.plain        ? "plain"
                    : options.rendezvous ? "rendezvous"
                                         : "chaos",
                    selection.door == suite::Door::job ? "a job" : "an adapter"));
  if (selection.door == suite::Door::job && options.device.starts_with("emulated"))
    throw InvalidArgument(
        fmt::format("--device {}: a job computes on cpu or cuda; emulated ones are for backends", options.device));
  if (selection.door != suite::Door::adapter) {
    selection.profile = profile_of(suite, options, subject);
    return selection;
  }
  if (!selection.worlds.empty())
    throw InvalidArgument(fmt::format("--world-size {}: an adapter serves a single process; the option is for backends",
                                      fmt::join(selection.worlds, ",")));
  if (options.device != "cpu")
    throw InvalidArgument(
        fmt::format("--device {}: an adapter chooses its device itself; the option is for backends", options.device));
  selection.profile = profile_of(suite, options, subject);
  return selection;
}

suite::Selection selection_of(const suite::Suite& suite, const CheckOptions& options, const launch::Subject& subject,
                              int attached_processes) {
  suite::Selection given = selection_as_given(suite, options, subject, attached_processes);
  if (!options.statement) return given;
  const auto seeds = statement::seeds_of_statement(PLUMBLINE_VERSION, given.seed);
  return statement::selection_of_statement(given.door, given.profile, seeds, given.shard);
}

// The reference in the subject's place; nothing where it is the subject.
std::optional<launch::Subject> control_of(const launch::Subject& subject) {
  launch::Subject control{.backend = "local"};
  if (!subject.adapter.empty()) control = {.adapter = "reference"};
  if (!subject.job.empty()) control = {.job = reference_job(), .job_launches_ranks = true};
  const bool same = subject.backend == control.backend && subject.adapter == control.adapter &&
                    subject.job == control.job && subject.mutant.empty();
  if (same) return std::nullopt;
  return control;
}

expectations::Facts facts_of(const launch::Subject& subject, const CheckOptions& options) {
  expectations::Facts facts{{"device", options.device}, {"launcher", options.subject.launcher}};
  if (!subject.backend.empty()) facts["backend"] = subject.backend;
  if (!subject.adapter.empty()) facts["adapter"] = subject.adapter;
  if (!subject.job.empty()) facts["job"] = subject.job;
  if (!subject.mutant.empty()) facts["mutant"] = subject.mutant;
  if (!options.selection.filters.empty())
    facts["filter"] = fmt::format("{}", fmt::join(options.selection.filters, " "));
  return facts;
}

}  // namespace

std::string name_of_run(const CheckOptions& options) {
  const launch::Subject subject = options.subject.as_given();
  const suite::Door door = subject.door();
  return "check-" +
         (door == suite::Door::backend ? subject::file_name_of(subject.backend) : std::string(name_of(door)));
}

record::Header unplanned_header(const CheckOptions& options) {
  const launch::Subject subject = options.subject.as_given();
  record::Header header{.command = "check",
                        .subject = subject.describe(),
                        .suite_version = PLUMBLINE_VERSION,
                        .profile = profile_as_given(options),
                        .seed = options.selection.seed,
                        .started = record::utc_now()};
  header.facts = facts_of(subject, options);
  options.reports.put_into(header);
  return header;
}

// ---- before anything runs ----

namespace {

// A second group costs a start, and processes of a backend wait for each other busily.
int usual_jobs(const launch::Subject& subject, std::size_t cases) {
  constexpr std::size_t kMany = 500;
  if (cases < kMany || subject.has_processes() || !subject.job.empty()) return 1;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 4U));
}

}  // namespace

CheckRun::CheckRun(const suite::Suite& suite, const CheckOptions& options, int attached_processes)
    : suite_(suite),
      options_(options),
      driver_(options.subject.driver()),
      selection_(selection_of(suite, options, driver_.group.subject, attached_processes)),
      settings_{.suite = suite,
                .profile = suite.profile(selection_.profile),
                .device = options.device,
                .time_limit = options.time_limit} {
  driver_.group.worker_options = device_options(options.device);
  driver_.remind = std::chrono::duration<double>(options.progress);
  if (attached_processes > 0) {
    driver_.group.launcher = launch::Launcher::attached;
    driver_.group.attached_processes = attached_processes;
    driver_.jobs = 1;  // the job's ranks are one group
    if (options.subject.jobs > 1)
      throw InvalidArgument(fmt::format(
          "--jobs {}: the ranks that you started are one group; run it outside mpirun and srun", options.subject.jobs));
    if (options.isolate == "each")
      throw InvalidArgument(fmt::format("{}: the ranks that you started are one group; run it outside mpirun and srun",
                                        options.statement ? "--statement" : "--isolate each"));
  } else {
    for (const int world : selection_.worlds) require_ranks("--world-size", world, kMostRanks);
  }
  plan_ = suite::make_plan(suite, selection_);
  if (attached_processes == 0 && options.subject.jobs == 0)
    driver_.jobs = usual_jobs(driver_.group.subject, plan_.size());
  if (!options.list) require_modules(plan_, "profile " + settings_.profile.name);
  if (!options.expectations.empty())
    book_ = expectations::Expectations::read(options.expectations, suite, expectations::today());
  folder_ = options.out.path();
  make_header();
}

void CheckRun::make_header() {
  header_ = {.command = "check",
             .subject = driver_.group.subject.describe(),
             .suite_version = PLUMBLINE_VERSION,
             .plan_hash = suite::plan_hash(conditions(), PLUMBLINE_VERSION, plan_),
             .profile = settings_.profile.name,
             .profile_version = settings_.profile.version,
             .seed = options_.selection.seed,
             .started = record::utc_now()};
  if (options_.statement) header_.statement_seeds = selection_.seeds;
  header_.arguments = record::command_line();
  header_.facts = facts_of(driver_.group.subject, options_);
  header_.allow_unexpected_pass = options_.allow_unexpected_pass;
  header_.warnings_fail = options_.warnings_fail;
  header_.budget_seconds = options_.budget;
  options_.reports.put_into(header_);
  if (book_) header_.expectations = book_->files();
  if (selection_.shard.count > 1) {
    suite::Selection whole = selection_;
    whole.shard = {};
    header_.shard = record::ShardOf{
        .index = selection_.shard.index,
        .count = selection_.shard.count,
        .whole_plan = suite::plan_hash(conditions(), PLUMBLINE_VERSION, suite::make_plan(suite_, whole))};
  }
  for (const suite::PlannedCase& planned : plan_) {
    const Result blank = blank_result(planned, settings_);
    header_.plan.push_back({blank.case_id, blank.requirements, blank.mode, blank.seed, blank.repetition});
  }
  quote_suite(header_, suite_);
}

// Cases that an adapter would skip are listed with the reason: it is started to hear what it claims.
void CheckRun::list() const {
  const std::string& adapter = driver_.group.subject.adapter;
  const nlohmann::json claims = adapter.empty() ? nlohmann::json() : claims_of(adapter, options_.time_limit);
  for (const suite::PlannedCase& planned : plan_) {
    const auto outcome = claims.is_null() ? std::nullopt : outcome_without_run(planned, settings_, claims);
    const std::string words = outcome ? fmt::format("  {}: {}", name_of(outcome->verdict), outcome->reason) : "";
    fmt::print("{}{}\n", title_of(blank_result(planned, settings_)), words);
  }
}

// What all results of a record have in common.
std::string CheckRun::conditions() const {
  return fmt::format("{} on {} within {} expecting {}", driver_.group.subject.describe(), options_.device,
                     options_.time_limit, options_.expectations);
}

// ---- the record ----

namespace {

// Of the subject's result for which a control ran.
std::string subject_key(Result control) {
  control.role = "subject";
  return control.key();
}

}  // namespace

// It takes hours to make.
void CheckRun::refuse_to_replace_statement() const {
  const fs::path file = fs::path(folder_) / "run.jsonl";
  std::error_code error;
  if (fs::exists(file, error) && !record::read(file).header.statement_seeds.empty())
    throw InvalidArgument(fmt::format(
        "--out '{}': it has the record of a run for a statement; give another folder, or --resume", folder_));
}

// A statement is of one machine, build and subject from its first case to its last.
void CheckRun::require_same_machine(const record::Run& before) {
  const record::Run now{.header = header_, .subject = before.subject};
  const nlohmann::json then = run::comparable_environment(before), here = run::comparable_environment(now);
  for (const auto& [name, value] : then.items())
    if (here.value(name, nlohmann::json()) != value)
      throw InvalidArgument(fmt::format("--resume: '{}' was begun with another {}: {}, and here it is {}", folder_,
                                        name, value.dump(), here.value(name, nlohmann::json()).dump()));
  resumed_subject_ = before.subject.value("capabilities", nlohmann::json());
}

void CheckRun::take_up_record(std::map<std::string, bool>& have) {
  const fs::path file = fs::path(folder_) / "run.jsonl";
  if (!fs::exists(file)) throw InvalidArgument(fmt::format("--resume: there is no record in '{}'", folder_));
  const record::Run before = record::read(file);
  if (before.header.plan_hash != header_.plan_hash)
    throw InvalidArgument(fmt::format(
        "--resume: '{}' holds another plan ({}, {}, hash {}) than this one (hash {}); give the same options, "
        "or another --out",
        folder_, before.header.subject, run::counted(before.header.plan.size(), "case"), before.header.plan_hash,
        header_.plan_hash));
  if (options_.statement) require_same_machine(before);
  for (const auto* results : {&before.results, &before.controls})
    for (const Result& result : *results) attempts_[result.key()] = result.attempt;
  for (const Result& result : before.results) {
    if (result.verdict == Verdict::error) continue;  // it is run again
    have[result.key()] = true;
    latest_[result.key()] = result;  // a second try or the control arm may still be owed
  }
  for (const Result& control : before.controls) controlled_.insert(subject_key(control));
  writer_.emplace(record::Writer::resume(folder_));
}

// Begins the record, or takes one up: then only what has no result is left to do.
void CheckRun::prepare_record() {
  settings_.slowness = launch::measure_slowness();
  header_.environment = environment_of_run();
  header_.environment["slowness"] = settings_.slowness;
  std::map<std::string, bool> have;  // a result that holds
  if (options_.resume) {
    take_up_record(have);
  } else {
    if (options_.statement) refuse_to_replace_statement();
    writer_.emplace(folder_, header_);
  }
  for (const suite::PlannedCase& planned : plan_)
    if (!have[blank_result(planned, settings_).key()]) todo_.push_back(&planned);
  // There is only one group then: what leaves calls behind comes last.
  if (attached())
    std::ranges::stable_partition(todo_, [](const auto* planned) { return !planned->one->check->spoils_group; });
  facts_ = header_.facts;
  facts_.merge(expectations::facts_of_environment(header_.environment));
  facts_.merge(expectations::Facts{{"profile", header_.profile}, {"suite_version", header_.suite_version}});
}

void CheckRun::write(Result& result) {
  result.repeat = repeat_command(driver_.group.subject, result);
  result.attempt = ++attempts_[result.key()];
  writer_->write(run::judged(result));
  if (result.role == "subject") latest_[result.key()] = result;
  metrics_.look(*writer_, [this] {
    record::Run so_far{.header = header_};
    for (const auto& [key, one] : latest_) so_far.results.push_back(run::judged(one));
    return so_far;
  });
}

// ---- running ----

int CheckRun::run(const std::function<void(const launch::Rendezvous&)>& listening) {
  prepare_record();
  // A launcher that gives its ranks a terminal does not show it to anybody.
  Console console(suite_, todo_.size(), ::isatty(STDOUT_FILENO) == 1 && !attached(), driver_.jobs);
  console_ = &console;
  std::string words;  // of options that a person should see at a glance
  if (selection_.shard.count > 1) words += ", shard " + selection_.shard.name();
  if (selection_.shuffle) words += fmt::format(", --shuffle={}", *selection_.shuffle);
  if (options_.device != "cpu") words += ", --device=" + options_.device;
  fmt::print("{}: {} of profile {} {}, seed {}{}\n", header_.subject, run::counted(todo_.size(), "case"),
             settings_.profile.name, settings_.profile.version, header_.seed, words);
  if (options_.selection.profile.empty() && options_.selection.filters.empty() &&
      settings_.profile.name != kUsualProfile)
    fmt::print("profile {} has the most cases for what the adapter claims; --profile NAME chooses another\n",
               settings_.profile.name);
  std::cout.flush();
  if (book_)
    for (const auto& lines : {book_->expired(), book_->soon_expired()})
      for (const std::string& line : lines) console.line(line);
  const auto begun = std::chrono::steady_clock::now();
  if (options_.budget > 0)
    driver_.until = begun + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                std::chrono::duration<double>(options_.budget));
  bool whole = false;
  std::exception_ptr failure;  // of the machine: what there is by then is still worth its files
  std::string stopped;
  try {
    whole = all_passes(listening);
    stopped = why_stopped(whole);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    stopped = fmt::format("the run failed: {}", error.what());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  show_owed();
  if (failure && !writer_->in_place()) std::rethrow_exception(failure);  // nothing ran: the record before this stays
  if (!stopped.empty() && writer_->in_place()) writer_->stopped(stopped);
  const auto run = close_record(*writer_, stopped.empty(), seconds);
  if (!run && whole) throw RuntimeFailure(fmt::format("{} before any case has run", stopped));
  if (!run) return interrupted();
  console.summary(*run, folder_);
  say_unless_shown(*run);
  try {
    write_outputs(folder_, *run);
  } catch (const RuntimeFailure&) {
    if (!failure) throw;  // else the first error is the one to tell
  }
  if (failure) std::rethrow_exception(failure);
  return whole ? run::exit_status(*run) : interrupted();
}

// A mutant that passes proves something only where a case of what it violates has run.
void CheckRun::say_unless_shown(const record::Run& run) const {
  const std::string& name = options_.subject.mutant;
  if (name.empty() || run::exit_status(run) != 0) return;
  const mutants::Mutant& mutant = mutants::find_mutant(suite_, name);
  const bool is_judged = std::ranges::any_of(run.results, [&](const Result& one) {
    return one.verdict != Verdict::skip && std::ranges::count(one.requirements, mutant.violates) > 0;
  });
  if (!is_judged)
    fmt::print("{} violates {}, of which no case ran; it shows in {}\n", name, mutant.violates, mutant.shows);
}

int CheckRun::interrupted() const {
  std::cerr << "plumbline: check: a signal interrupted the run; the same command with --resume --out " << folder_
            << " runs the rest\n";
  return 3;
}

bool CheckRun::budget_is_spent() const { return driver_.until && std::chrono::steady_clock::now() >= *driver_.until; }

bool CheckRun::lacks_results() const {
  return std::ranges::any_of(plan_, [&](const suite::PlannedCase& planned) {
    return !latest_.contains(blank_result(planned, settings_).key());
  });
}

std::string CheckRun::why_stopped(bool whole) const {
  if (!whole) return "a signal interrupted the run";
  if (stopped_) return "--fail-fast ended the run at the first failure";
  if (budget_is_spent() && lacks_results()) return fmt::format("the budget of {} s is spent", options_.budget);
  return {};
}

// False when a signal interrupted them.
bool CheckRun::all_passes(const std::function<void(const launch::Rendezvous&)>& listening) {
  const auto take_subject = [this](const suite::PlannedCase& planned, const launch::Outcome& outcome) {
    return take(planned, outcome);
  };
  const bool alone = options_.isolate == "each";
  const Pass pass{.driver = driver_, .cases = todo_, .alone = alone, .take = take_subject, .listening = listening};
  if (!(alone ? run_each_alone(pass) : run_pass(pass))) return false;
  return stopped_ || (second_tries() && control_arm());
}

// What the first group says of the subject tells which cases need no group of their own, since they are skipped.
bool CheckRun::run_each_alone(const Pass& pass) {
  Cases some, rest;
  for (const suite::PlannedCase* planned : pass.cases) (some.empty() ? some : rest).push_back(planned);
  const auto part = [&pass](const Cases& cases) {
    return Pass{.driver = pass.driver, .cases = cases, .alone = true, .take = pass.take, .listening = pass.listening};
  };
  if (!run_pass(part(some))) return false;
  some.clear();
  for (const suite::PlannedCase* planned : rest) {
    if (stopped_) return true;
    const auto outcome = description_.is_null() ? std::nullopt : before(*planned, description_);
    if (outcome)
      pass.take(*planned, *outcome);
    else
      some.push_back(planned);
  }
  return stopped_ || run_pass(part(some));
}

bool CheckRun::run_pass(const Pass& pass) {
  if (pass.cases.empty()) return true;
  std::vector<launch::Assignment> assignments;
  for (const suite::PlannedCase* planned : pass.cases) {
    const std::string isolation = pass.alone ? fmt::format("{}", assignments.size()) : planned->one->component();
    assignments.push_back(assignment_of(*planned, pass.is_subject ? settings_ : settings_.for_control(), isolation));
  }
  if (latest_.empty()) assignments.front().command["first"] = true;
  return launch::run(assignments, pass.driver, observer(pass));
}

launch::Observer CheckRun::observer(const Pass& pass) {
  launch::Observer observer;
  if (pass.is_subject)
    observer.before = [&](std::size_t index, const nlohmann::json& description) {
      return before(*pass.cases[index], description);
    };
  observer.begin = [&](std::size_t index) {
    const suite::Case& one = *pass.cases[index]->one;
    const char* const title = pass.is_subject ? "" : "control run: ";
    console_->begin(fmt::format("{}{}, {} rank{}", title, one.component(), one.ranks(), one.ranks() == 1 ? "" : "s"),
                    one.id());
  };
  observer.still = [&](std::size_t index, std::chrono::duration<double> since) {
    console_->still(pass.cases[index]->one->id(), since);
  };
  observer.end = [&](std::size_t index, const launch::Outcome& outcome) {
    for (const std::string& warning : outcome.warnings) {
      const std::string line = fmt::format("warning: {}: {}", pass.cases[index]->one->id(), warning);
      writer_->note(line);
      console_->line(line);
    }
    return pass.take(*pass.cases[index], outcome);
  };
  observer.log = [this](const std::string& line) {
    writer_->note(line);
    console_->line(line);
  };
  observer.listening = pass.listening;
  return observer;
}

// What is known of the subject and of the case decides without a run.
std::optional<launch::Outcome> CheckRun::before(const suite::PlannedCase& planned, const nlohmann::json& description) {
  writer_->subject(description);
  if (!known_) {
    if (!resumed_subject_.is_null() && resumed_subject_ != description.value("capabilities", nlohmann::json::object()))
      throw InvalidArgument(fmt::format(
          "--resume: '{}' was begun with a subject that claims other things, or is of another version", folder_));
    description_ = description;
    const suite::Identity subject = expectations::identity_of(description, facts_);
    facts_["subject"] = subject.name;
    if (!subject.version.empty()) facts_["version"] = subject.version;
    known_.emplace(suite_, book_ ? &*book_ : nullptr, subject, facts_, expectations::today());
    if (const std::string line = suite::unasked_conventions(suite_, description); !line.empty()) {
      writer_->note(line);
      console_->line(line);
    }
  }
  if (const auto expectation = known_->of(blank_result(planned, settings_)); expectation && !expectation->run)
    return launch::Outcome{.verdict = Verdict::skip, .reason = run::why_not_run(*expectation)};
  return outcome_without_run(planned, settings_, description);
}

// ---- results ----

bool CheckRun::is_bad(const Result& result) const { return run::is_bad(result, header_); }

// A first result, or one of a further try.
bool CheckRun::take(const suite::PlannedCase& planned, const launch::Outcome& outcome) {
  Result result = result_of(planned, settings_, outcome);
  if (known_) result.expectation = known_->of(result);
  if (const auto before = latest_.find(result.key()); before != latest_.end())
    result = run::after_another_try(before->second, std::move(result));
  write(result);
  if (wants_another_try(result)) {
    owed_.insert(result.key());
    if (result.verdict == Verdict::hang) announce_hang(result);
  } else {
    owed_.erase(result.key());
    console_->result(result);
  }
  if (options_.fail_fast && is_bad(result)) stopped_ = true;
  return !stopped_;
}

// A hang takes its whole limit, and once more when it is tried again: nobody should wait for that without knowing.
void CheckRun::announce_hang(const Result& result) {
  constexpr int kAnnounced = 3;
  if (++hangs_ > kAnnounced) return;
  const char* const advice = hangs_ < kAnnounced ? "--time-limit SECONDS sets how long a case may take"
                                                 : "more hangs are not announced; --fail-fast ends a run at the first";
  console_->line(fmt::format("hang after {:.1f} s: {}\n      it is tried once more at the end, alone; {}",
                             result.seconds, title_of(result), advice));
}

bool CheckRun::wants_another_try(const Result& result) const {
  if (attached() || options_.fail_fast) return false;  // ranks that somebody else started cannot be replaced
  return run::wants_another_try(result, header_);
}

// Whether what came before it is to blame for a crash or a hang shows when it runs alone.
bool CheckRun::second_tries() {
  std::set<std::string> given_up;  // by key
  for (int round = 1; round < run::kMostTries && !stopped_; ++round) {
    std::map<const Result*, const suite::PlannedCase*> planned_of;
    std::vector<const Result*> owed;
    for (const suite::PlannedCase& planned : plan_)
      if (const auto result = latest_.find(blank_result(planned, settings_).key());
          result != latest_.end() && !given_up.contains(result->first) && wants_another_try(result->second)) {
        planned_of[&result->second] = &planned;
        owed.push_back(&result->second);
      }
    const run::SecondTries chosen = run::choose_second_tries(owed);
    for (const std::string& note : chosen.notes) writer_->note(note);
    for (const Result* result : chosen.given_up) {
      given_up.insert(result->key());
      owed_.erase(result->key());
      console_->result(*result);
    }
    Cases again;
    for (const Result* result : chosen.again) again.push_back(planned_of.at(result));
    if (!run_pass({.driver = driver_,
                   .cases = again,
                   .alone = true,
                   .take = [this](const auto& planned, const auto& outcome) { return take(planned, outcome); }}))
      return false;
  }
  return true;
}

// What a run that ended early did not try again stands as it is.
void CheckRun::show_owed() {
  if (owed_.empty()) return;
  for (const suite::PlannedCase& planned : plan_)
    if (const std::string key = blank_result(planned, settings_).key(); owed_.contains(key))
      console_->result(latest_.at(key));
  console_->line(fmt::format("{} {} not tried again: the run ended before that", owed_.size(),
                             owed_.size() == 1 ? "case was" : "cases were"));
}

// ---- the control run ----

bool CheckRun::control_arm() {
  const auto control = control_of(driver_.group.subject);
  if (!control || options_.no_control || stopped_) return true;
  Cases bad;
  for (const suite::PlannedCase& planned : plan_) {
    const auto result = latest_.find(blank_result(planned, settings_).key());
    if (result == latest_.end() || controlled_.contains(result->first)) continue;
    if (run::wants_control(result->second, header_)) bad.push_back(&planned);
  }
  if (bad.size() > run::kMostRunAgain) {
    writer_->note(fmt::format("{} cases are bad; the control run has the first {}", bad.size(), run::kMostRunAgain));
    bad.resize(run::kMostRunAgain);
  }
  if (bad.empty()) return true;
  launch::Options driver{.group = {.subject = *control, .executable = driver_.group.executable},
                         .jobs = driver_.jobs,
                         .until = driver_.until};
  return run_pass(
      {.driver = driver, .cases = bad, .is_subject = false, .take = [this](const auto& planned, const auto& outcome) {
         take_control(planned, outcome);
         return true;
       }});
}

void CheckRun::take_control(const suite::PlannedCase& planned, const launch::Outcome& outcome) {
  Result control = result_of(planned, settings_.for_control(), outcome);
  control.role = "control";
  write(control);
  auto result = run::after_control(latest_.at(blank_result(planned, settings_).key()), control);
  if (!result) return;
  write(*result);
  console_->line(fmt::format("INCONCLUSIVE {}\n      {}", title_of(*result), result->reason));
}

// ---- the command that runs one case alone ----

// It leaves the record that it is from as it is.
std::string CheckRun::repeat_command(const launch::Subject& subject, const Result& result) const {
  std::string command = "plumbline check";
  for (const std::string& argument :
       (result.role == "control" ? control_of(subject).value_or(subject) : subject).arguments())
    command += " " + quoted(argument);
  if (settings_.profile.name != kUsualProfile) command += " --profile " + quoted(settings_.profile.name);
  if (options_.device != "cpu") command += " --device " + options_.device;
  if (options_.subject.launcher != "auto" && result.role != "control")
    command += " --launcher " + options_.subject.launcher;
  if (options_.time_limit > 0 && (result.role != "control" || result.limit_seconds == options_.time_limit))
    command += fmt::format(" --time-limit {}", options_.time_limit);
  command += mode_options(suite::ExecutionMode::parse(result.mode), selection_.door);
  return fmt::format("{} --seed {} --filter {} --out results/latest/repeat", command, result.seed,
                     quoted(result.case_id));
}

}  // namespace plumbline::cli
