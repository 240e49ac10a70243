// `plumbline check`: takes a subject through the checks of a profile and says, requirement by requirement, whether it
// is right.
#include <filesystem>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "harness/cli/check_run.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/launch/attach.hpp"
#include "harness/statement/statement.hpp"
#include "harness/subject/place.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

// Inside the user's own launcher every rank runs this command. The driver's process, on the rank that has
// `reports`, says in them why it failed.
int run_in_job(const suite::Suite& suite, const CheckOptions& options, const Program& program,
               const subject::Place& place, UnfinishedReports* reports) {
  if (options.subject.subject().needs_launcher() && !place.is_mpi_job)
    throw InvalidArgument(
        fmt::format("backend {}: the processes that {} started ({}) are no MPI job; start them with mpirun, or give "
                    "--launcher mpirun to one of them",
                    options.subject.backend, place.launcher, place.variables));
  std::optional<CheckRun> planned;  // on all ranks: a wrong option is said before anything starts
  planned.emplace(suite, options, place.size);
  // The others find rank 0's through the link, which is there when the driver is.
  const fs::path folder = planned->folder();
  if (options.out.is_given()) fs::create_directories(folder);  // as above
  if (reports != nullptr) reports->planned(planned->header());
  const launch::Subject subject = options.subject.subject();
  const auto driver = [&](const launch::Listening& listening) -> int {
    try {
      return planned->run(listening);
    } catch (const std::exception& error) {
      planned.reset();  // the record is closed: nobody writes in the folder now
      if (reports != nullptr) reports->failed(error.what());
      return report(error);
    }
  };
  const auto worker = [&] {
    std::vector<std::string> arguments{"worker"};
    for (const std::string& argument : subject.arguments()) arguments.push_back(argument);
    for (const std::string& argument : device_options(options.device)) arguments.push_back(argument);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    return program.worker(static_cast<int>(pointers.size()), pointers.data());
  };
  return launch::run_attached(place, folder, driver, worker);
}

// The place of this process where the user's launcher started the ranks of a backend.
std::optional<subject::Place> place_in_job(const CheckOptions& options) {
  if (options.list || options.subject.launcher != "auto" || !options.subject.as_given().has_processes())
    return std::nullopt;
  return subject::place_of_launcher();
}

int plan_and_run(CheckOptions& options, bool device_given, const Program& program, UnfinishedReports* reports) {
  options.device = options.subject.device_of_run(options.device, device_given);
  const suite::Suite& suite = program.suite();
  const launch::Subject subject = options.subject.subject();
  const auto place = place_in_job(options);
  if (place && (place->size > 1 || place->is_mpi_job)) return run_in_job(suite, options, program, *place, reports);
  if (!options.list && !subject.has_processes()) options.subject.require_no_job(subject.describe());
  CheckRun run(suite, options, 0);
  if (options.list) {
    run.list();
    return 0;
  }
  if (reports != nullptr) reports->planned(run.header());
  return run.run({});
}

int run_check(CheckOptions& options, bool device_given, const Program& program) {
  const auto place = place_in_job(options);
  if (options.list || (place && place->rank > 0)) return plan_and_run(options, device_given, program, nullptr);
  return with_unfinished_reports(options.out, unplanned_header(options), [&](UnfinishedReports& reports) {
    return plan_and_run(options, device_given, program, &reports);
  });
}

// What a run for a statement may choose, beside the subject, its device and launcher, and how it is reported.
void add_statement(CLI::App& command, CheckOptions& options) {
  CLI::Option* const statement =
      command.add_flag("--statement", options.statement,
                       "run what plumbline submit requires: the whole profile, each case in its own workers, with "
                       "three seeds, and over a backend in every execution mode; --seed is the third seed (default "
                       "random). Options that select cases or change how they run are not allowed with it");
  for (const char* other : {"--filter", "--world-size", "--repeat", "--shuffle", "--plain", "--rendezvous", "--chaos",
                            "--isolate", "--expectations", "--allow-unexpected-pass", "--warnings-fail", "--no-control",
                            "--time-limit", "--fail-fast", "--mutant"})
    statement->excludes(command.get_option(other));
}

// Three seeds that are two would prove less than three.
void require_fresh(std::uint64_t seed) {
  const auto seeds = statement::seeds_of_statement(PLUMBLINE_VERSION, seed);
  if (seed == seeds[0] || seed == seeds[1])
    throw InvalidArgument(fmt::format("--seed {}: every statement has it already; give another one", seed));
}

// The fresh seed of a statement: that of the record which is resumed, else one that nobody chose.
void choose_fresh_seed(CheckOptions& options) {
  const fs::path record = fs::path(options.out.path()) / "run.jsonl";
  if (options.resume && fs::exists(record))
    options.selection.seed = record::read(record).header.seed;
  else if (options.shard.empty())
    options.selection.seed = std::random_device{}();
  else
    throw InvalidArgument(
        fmt::format("--shard {}: of a statement all shards have one fresh seed; give each the same: --seed {}",
                    options.shard, std::random_device{}()));
}

}  // namespace

Command add_check(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("check", "Check that a subject meets the requirements of a profile");
  auto options = std::make_shared<CheckOptions>();
  options->subject.add_to(*command, SubjectOptions::Kind::cases, program);
  options->selection.profile.clear();
  command->add_option(
      "--profile", options->selection.profile,
      "profile that the subject claims: collectives, topology, pipeline, data-parallel, mixed-precision, gossip or "
      "full (default collectives; of an adapter the one with the most cases for what it claims, with --filter full)");
  command
      ->add_option("--filter", options->selection.filters,
                   "run only these: a requirement, check or case id with * and ?, component:X, operation:X, tag:X or "
                   "source:X, in "
                   "capitals or not; may be repeated")
      ->type_name("PATTERN");
  command
      ->add_option("--world-size", options->selection.worlds,
                   "run only with these numbers of ranks, each at most 256: 2,3")
      ->delimiter(',')
      ->check(at_least(1));
  CLI::Option* const seed = command->add_option("--seed", options->selection.seed, "random seed of inputs and delays");
  seed->check(seed_number())->capture_default_str();
  command->add_option("--repeat", options->selection.repeat, "run the plan N times, each time with the next seed")
      ->check(at_least(1, 10000))
      ->capture_default_str();
  command
      ->add_option("--shuffle", options->shuffle,
                   "run in random order within a component and world size (default seed: a fresh one)")
      ->expected(0, 1)
      ->default_str("random")
      ->type_name("[SEED]");
  command->add_flag("--plain", options->plain, "run every case in mode plain only");
  command->add_flag("--rendezvous", options->rendezvous,
                    "run every case in mode rendezvous: a send returns only after its receive is posted");
  command
      ->add_option("--chaos", options->chaos,
                   "run every case in mode chaos: random delays, late reads and late completion")
      ->type_name("SEED");
  command
      ->add_option("--isolate", options->isolate,
                   "start a fresh worker group per component and world size, or per case")
      ->check(CLI::IsMember({"component", "each"}))
      ->capture_default_str();
  command->add_option("--shard", options->shard, "run only the I-th of N parts; plumbline merge joins their records")
      ->type_name("I/N");
  CLI::Option* const expectations =
      command
          ->add_option("--expectations", options->expectations,
                       "file of the known failures of the subject; see plumbline expectations")
          ->type_name("FILE");
  command
      ->add_flag("--allow-unexpected-pass", options->allow_unexpected_pass,
                 "do not fail the run when a case passes that is expected to fail")
      ->needs(expectations);
  command->add_flag("--warnings-fail", options->warnings_fail, "exit with status 1 on a warning");
  command->add_flag("--no-control", options->no_control, "do not repeat on the reference what failed on the subject");
  command
      ->add_option("--time-limit", options->time_limit,
                   "time limit of a case on the subject (default the check's own limit, longer on a slow machine)")
      ->check(seconds());
  command
      ->add_option("--budget", options->budget,
                   "end the run after this time; the rest is not run, and the exit status is 3 unless a case failed "
                   "(--resume runs the rest)")
      ->type_name("SECONDS")
      ->check(seconds());
  command
      ->add_option("--progress", options->progress,
                   "time between lines about a running case, when the output is not a terminal")
      ->check(seconds())
      ->capture_default_str();
  options->reports.add_to(*command);
  CLI::Option* const device =
      command
          ->add_option("--device", options->device,
                       "device of the ranks' memory and of training checks: cpu, cuda, cuda:N, emulated or emulated:N; "
                       "without N rank R uses device R modulo their number")
          ->type_name("DEVICE")
          ->check(device_name(true))
          ->capture_default_str();
  options->out.add_to(*command, "folder of the record");
  command->add_flag("--list", options->list,
                    "print the planned cases without running them; with --adapter also what would be skipped, and why");
  command->add_flag("--fail-fast", options->fail_fast, "stop at the first failure");
  add_statement(*command, *options);
  command->add_flag("--resume", options->resume,
                    "continue the record in --out, or the last one: run what has no result yet");
  group_options(*command, "Subject",
                {"--backend", "--backend-option", "--launcher", "--control-address", "--mutant", "--adapter", "--job",
                 "--job-launches-ranks", "--job-serves-ranks", "--device"});
  group_options(*command, "What runs",
                {"--profile", "--filter", "--world-size", "--list", "--shard", "--resume", "--statement"});
  group_options(*command, "How it runs",
                {"--seed", "--repeat", "--shuffle", "--plain", "--rendezvous", "--chaos", "--isolate", "--jobs",
                 "--time-limit", "--budget", "--fail-fast"});
  group_options(*command, "Verdict", {"--expectations", "--allow-unexpected-pass", "--warnings-fail", "--no-control"});
  group_options(*command, "Output", {"--out", "--progress", "--label", "--subject-name"});
  command->footer(
      "Example: plumbline check --backend mpi --world-size 2,3 --filter 'COLL-0*'\n"
      "         plumbline check --profile data-parallel --job 'python3 train.py'\n"
      "         plumbline check --adapter './my_adapter' --profile topology\n"
      "Exit status: 0 no case failed; 1 a case failed; 2 usage error; 3 the harness or the machine failed,\n"
      "or nothing ran.");
  return {[options, device, seed, &program] {
            options->out.rename(name_of_run(*options));
            if (options->resume && !options->list) options->out.reuse_last();
            if (options->statement) options->isolate = "each";
            if (options->statement && seed->count() == 0) choose_fresh_seed(*options);
            if (options->statement) require_fresh(options->selection.seed);
            return run_check(*options, device->count() > 0, program);
          },
          [options](const CommandLine& line, const std::string& why) {
            options->subject.backend = line.value("--backend");
            options->subject.adapter = line.value("--adapter");
            options->subject.job = line.value("--job");
            if (line.has("--mutant")) options->subject.mutant = line.value("--mutant");
            if (line.has("--device")) options->device = line.value("--device");
            if (line.has("--profile")) options->selection.profile = line.value("--profile");
            refuse_in_reports(line, unplanned_header(*options), why);
          }};
}

}  // namespace plumbline::cli
