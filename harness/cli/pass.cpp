// `plumbline pass`: what the data-parallel pass makes of a program, what is different, and whether its order is kept.
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/cli/arguments.hpp"
#include "harness/cli/json_text.hpp"
#include "harness/cli/op_diff.hpp"
#include "harness/cli/pass_against.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/record/file.hpp"
#include "harness/run/counted.hpp"
#include "reference/comm/errors.hpp"
#include "reference/program/pass_json.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/race_json.hpp"
#include "reference/program/validate.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {
namespace {

using nlohmann::json;

struct PassCommand {
  std::string file, rings, against, convention = "plumbline", format = "text", out;
  std::int64_t max_fuse_numel = program::kMostFusedElements, max_overlap_rings = program::kMostOverlappedRings;
  bool use_sharding = false, keeps_scaling = false, diff = false, check = false;
  std::uint64_t seed = 1;
  int inputs = 3;
  bool exact = false;
};

// ---- the file ----

struct Asked {
  program::Program program;
  program::Rings rings;
};

// {"program": {...}, "rings": {...}}, or the program's own fields with "rings" among them.
Asked asked_in(const PassCommand& command) {
  const std::string name = "program " + command.file;
  json value = parse_json(read_text("program", command.file), name);
  json rings;
  if (value.is_object()) {
    rings = value.value("rings", json());
    value.erase("rings");
    if (value.contains("program")) {
      if (value.size() > 1)
        throw InvalidArgument(fmt::format("{}: beside program and rings there is '{}'", name,
                                          (value.begin().key() == "program" ? ++value.begin() : value.begin()).key()));
      value = json(value["program"]);
    }
  }
  if (!command.rings.empty()) rings = parse_json(read_text("--rings", command.rings), "--rings " + command.rings);
  if (rings.is_null() && value.is_object())
    throw InvalidArgument(
        fmt::format(R"({}: it has no rings; give them there or with --rings, as {{"0": [0, 1], "12": [0, 1]}})", name));
  Asked asked{.program = program::program_of_json(value, name),
              .rings = program::rings_of_json(rings, name + ": rings")};
  try {
    require_valid(asked.program, asked.rings, {.order = !command.check});  // of the order --check is to report
  } catch (const program::InvalidProgram& error) {
    throw InvalidArgument(fmt::format("{}: {}", name, error.what()));
  }
  return asked;
}

program::PassOptions options_of(const PassCommand& command) {
  program::PassOptions options;
  if (command.convention == "paddle")
    options.convention = program::Convention::paddle;
  else if (command.convention != "plumbline")
    throw InvalidArgument(fmt::format("--convention: there is no '{}'; {}", command.convention,
                                      there_are(command.convention, {"plumbline", "paddle"})));
  if (command.max_fuse_numel < 0)
    throw InvalidArgument(
        fmt::format("--max-fuse-numel: {} is negative; give an element count of 0 or more", command.max_fuse_numel));
  if (command.max_overlap_rings < 0 || command.max_overlap_rings > 1 << 20)
    throw InvalidArgument(
        fmt::format("--max-overlap-rings: {} is out of range; give 0 to {}", command.max_overlap_rings, 1 << 20));
  options.max_fuse_numel = command.max_fuse_numel;
  options.max_overlap_rings = static_cast<int>(command.max_overlap_rings);
  options.use_sharding = command.use_sharding;
  options.gradient_scale = !command.keeps_scaling;
  return options;
}

// ---- what is shown ----

std::string text_of(const program::Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.ops.size(); ++i) text += fmt::format("{:>5}  {}\n", i, line_of(program.ops[i]));
  return text;
}

std::string text_of(const std::vector<OpChange>& changes) {
  std::string text;
  for (const OpChange& change : changes)
    text += fmt::format("{} {:>5}  {}\n", change.is_new ? '+' : '-', change.position, change.line);
  return text + fmt::format("{} gone or changed, {} new or changed\n",
                            run::counted(std::ranges::count(changes, false, &OpChange::is_new), "op"),
                            std::ranges::count(changes, true, &OpChange::is_new));
}

json json_of(const std::vector<OpChange>& changes) {
  json list = json::array();
  for (const OpChange& change : changes)
    list.push_back({{"change", change.is_new ? "new" : "gone"}, {"position", change.position}, {"op", change.line}});
  return list;
}

std::string text_of(const std::vector<program::Race>& races, const char* when) {
  std::string text;
  for (const program::Race& race : races) text += fmt::format("race {}: {}: {}\n", when, race.variable, race.why);
  return text;
}

// "the limit before op 12"; positions are those after the overlap.
std::string closing_of(const program::GradientGroup& group) {
  using program::Closed;
  if (group.closed_by == Closed::end) return "the end";
  if (group.closed_by == Closed::op) return fmt::format("op {}, which touches one", group.closed_at);
  if (group.closed_by == Closed::alone)
    return fmt::format("op {}, whose gradient or the one here must be alone", group.closed_at);
  return fmt::format("the {} at op {}", name_of(group.closed_by), group.closed_at);
}

std::string summary_of(const program::PassResult& result) {
  if (!result.skipped.empty()) return "nothing was done: " + result.skipped + '\n';
  std::string text;
  for (const std::string& line : result.summary.info) text += line + '\n';
  for (const program::GradientGroup& group : result.groups)
    text += fmt::format("{}: {}, {} of {}, ring {}: {}; closed by {}\n", group.fused_variable,
                        run::counted(group.gradients.size(), "gradient"), run::counted(group.numel, "element"),
                        name_of(group.dtype), group.ring, fmt::join(group.gradients, ", "), closing_of(group));
  for (const std::string& line : result.analysis.refused) text += "no " + line + '\n';
  return result.analysis.is_applied ? text : "nothing is reduced over data-parallel ranks\n";
}

void write(const PassCommand& command, const std::string& text) {
  if (command.out.empty()) {
    fmt::print("{}", text);
    return;
  }
  const auto file =
      output_file(command.out, command.format == "json" ? "pass.json" : "pass.txt",
                  {{"program", command.file}, {"--rings", command.rings}, {"--against", command.against}});
  record::write_file(file, text);
  fmt::print("written: {}\n", file.string());
}

json json_of(const std::vector<program::ProgramProblem>& problems) {
  json list = json::array();
  for (const program::ProgramProblem& problem : problems)
    list.push_back({{"fault", name_of(problem.fault)},
                    {"op", problem.op},
                    {"variable", problem.variable},
                    {"message", problem.message}});
  return list;
}

// A program whose ops read what is not written yet is no subject of a pass.
int report_order(const PassCommand& command, const std::vector<program::ProgramProblem>& problems) {
  if (command.format == "json") {
    write(command, json{{"problems", json_of(problems)}}.dump() + '\n');
    return 1;
  }
  std::string text;
  for (const program::ProgramProblem& problem : problems)
    text += fmt::format("error: {}: {}\n", name_of(problem.fault), problem.message);
  write(command, text + fmt::format("NOT OK: {} error{} in the order of ops; {}\n", problems.size(),
                                    problems.size() == 1 ? "" : "s",
                                    command.against.empty() ? "the pass is not applied" : "nothing is run"));
  return 1;
}

// ---- another program beside it ----

// One program for all ranks, or "programs", one for each; of what the pass prints, its "final".
std::vector<program::Program> programs_in(json value, const std::string& name,
                                          const std::vector<program::Program>& same_as) {
  if (value.is_object() && value.contains("final")) {
    value = json(value["final"]);
    if (value.is_object() && value.contains("same_as")) return same_as;
  }
  if (!value.is_object() || !value.contains("programs")) return {program::program_of_json(value, name)};
  if (value.size() > 1 || !value["programs"].is_array() || value["programs"].empty())
    throw InvalidArgument(
        fmt::format("{}: programs must be a list of programs, one for each rank, beside rings", name));
  std::vector<program::Program> programs;
  for (const json& one : value["programs"])
    programs.push_back(program::program_of_json(one, fmt::format("{}, programs[{}]", name, programs.size())));
  return programs;
}

// `first` has the rings and the program that a second file may refer to.
ProgramSide side_in(const std::string& option, const std::string& file, json rings, const ProgramSide* first) {
  const std::string name = option + ' ' + file;
  json value = parse_json(read_text(option, file), name);
  if (value.is_object()) {
    if (rings.is_null()) rings = value.value("rings", json());
    value.erase("rings");
    if (value.size() == 1 && value.contains("program")) value = json(value["program"]);
  }
  ProgramSide side{.programs = programs_in(std::move(value), name, first ? first->programs : decltype(side.programs){}),
                   .rings = {}};
  if (side.programs.empty()) throw InvalidArgument(name + ": final is the same as a program that does not exist");
  if (rings.is_null() && first == nullptr)
    throw InvalidArgument(
        fmt::format(R"({}: it has no rings; give them there or with --rings, as {{"0": [0, 1]}})", name));
  side.rings = rings.is_null() ? first->rings : program::rings_of_json(rings, name + ": rings");
  for (std::size_t i = 0; i < side.programs.size(); ++i)
    on_behalf_of(side.programs.size() == 1 ? name : fmt::format("{}, programs[{}]", name, i),
                 [&] { require_valid(side.programs[i], side.rings, {.order = first == nullptr}); });
  return side;
}

std::string op_text(const char* when, const program::Program& program, int position) {
  if (position < 0) return fmt::format("  {}: no op writes it\n", when);
  return fmt::format("  {}: op {}, {}\n", when, position, line_of(program.ops[static_cast<std::size_t>(position)]));
}

std::string name_of_value(const ValueDifference& one) {
  return fmt::format("{}'{}'", one.is_gradient ? "the gradient of " : "", one.variable);
}

std::string text_of(const AgainstReport& report, const ProgramSide& before, const ProgramSide& after) {
  if (!report.collectives.empty()) return fmt::format("NOT OK: {}\n", report.collectives);
  std::string text;
  if (!report.differences.empty()) {
    const ValueDifference& first = report.differences.front();
    text = first.problem.empty()
               ? fmt::format("rank {}: {}, element {}: expected {:.9g}, got {:.9g} (inputs of seed {})\n", first.rank,
                             name_of_value(first), first.index, first.expected, first.got, first.seed)
               : fmt::format("rank {}: {}: {} (inputs of seed {})\n", first.rank, name_of_value(first), first.problem,
                             first.seed);
    text +=
        op_text("before", before.of(first.rank), first.before) + op_text("after", after.of(first.rank), first.after);
  }
  if (!report.is_equal() && !report.mixed.empty())
    text += fmt::format("the order of collectives differs: {}\n", report.mixed);
  return text + fmt::format("{}: {} of {} gradients, parameters and values that persist differ on {} rank{}\n",
                            report.is_equal() ? "OK" : "NOT OK", report.differences.size(), report.compared,
                            report.ranks, report.ranks == 1 ? "" : "s");
}

json json_of(const AgainstReport& report) {
  json differences = json::array();
  const auto position = [](int op) { return op < 0 ? json() : json(op); };
  for (const ValueDifference& one : report.differences) {
    json& value = differences.emplace_back(json{{"rank", one.rank},
                                                {"variable", one.variable},
                                                {"gradient", one.is_gradient},
                                                {"seed", one.seed},
                                                {"op_before", position(one.before)},
                                                {"op_after", position(one.after)}});
    if (one.problem.empty())
      value.update({{"index", one.index}, {"expected", one.expected}, {"got", one.got}});
    else
      value["problem"] = one.problem;
  }
  json value{{"equal", report.is_equal()},
             {"ranks", report.ranks},
             {"compared", report.compared},
             {"differences", std::move(differences)}};
  if (!report.collectives.empty()) value["collectives"] = report.collectives;
  if (!report.mixed.empty()) value["mixed_collectives"] = report.mixed;
  return value;
}

int run_against(const PassCommand& command) {
  const json rings = command.rings.empty() ? json() : parse_json(read_text("--rings", command.rings), "--rings");
  const ProgramSide before = side_in("program", command.file, rings, nullptr);
  const ProgramSide after = side_in("--against", command.against, command.rings.empty() ? json() : rings, &before);
  for (const program::Program& one : after.programs)
    if (const auto problems = find_problems(one, after.rings); !problems.empty())
      return report_order(command, problems);
  AgainstReport report;
  try {
    report = compare_programs(before, after, {.seed = command.seed, .inputs = command.inputs, .exact = command.exact});
  } catch (const Unsupported& error) {
    throw InvalidArgument(fmt::format("--against: {}", error.what()));
  }
  write(command, command.format == "json" ? json_of(report).dump() + '\n' : text_of(report, before, after));
  return report.is_equal() ? 0 : 1;
}

int run_pass(const PassCommand& command) {
  if (command.format != "text" && command.format != "json")
    throw InvalidArgument(
        fmt::format("--format: there is no '{}'; {}", command.format, there_are(command.format, {"text", "json"})));
  if (!command.against.empty()) return run_against(command);
  const program::PassOptions options = options_of(command);
  const Asked asked = asked_in(command);
  if (command.check)
    if (const auto problems = find_problems(asked.program, asked.rings); !problems.empty())
      return report_order(command, problems);
  const program::PassResult result = apply_data_parallel_pass(asked.program, asked.rings, options);
  std::vector<OpChange> changes;
  if (command.diff) changes = changes_between(asked.program.ops, result.program.ops);
  std::vector<program::Race> before, after;
  if (command.check) before = find_races(asked.program), after = find_races(result.program);
  if (command.format == "json") {
    json value = json_of(result, asked.program);
    if (command.diff) value["diff"] = json_of(changes);
    if (command.check) value["races"] = {{"before", program::json_of(before)}, {"after", program::json_of(after)}};
    write(command, value.dump() + '\n');
  } else {
    std::string text = command.diff ? text_of(changes) : text_of(result.program);
    text += summary_of(result);
    if (command.check)
      text += text_of(before, "before the pass") + text_of(after, "after the pass") +
              fmt::format("{}: {} races before the pass, {} after it\n", after.empty() ? "OK" : "NOT OK", before.size(),
                          after.size());
    write(command, text);
  }
  return after.empty() ? 0 : 1;
}

}  // namespace

Command add_pass(CLI::App& app, const Program&) {
  CLI::App* command = app.add_subcommand(
      "pass", "Apply the data-parallel pass to a program: prune scalings, overlap and fuse reductions");
  auto options = std::make_shared<PassCommand>();
  command->add_option("program", options->file, "program as JSON, with the ranks of its rings")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--rings", options->rings,
                   "ranks of each ring as JSON, {\"12\": [0, 1]}, if the program does not hold them")
      ->type_name("FILE");
  CLI::Option* const against =
      command
          ->add_option("--against", options->against,
                       "run the program and the one in this file on their ranks and compare what both train, in "
                       "place of the pass; exit status 1 if it differs")
          ->type_name("FILE");
  command->add_option("--seed", options->seed, "random seed of the first inputs (default 1)")
      ->check(seed_number())
      ->needs(against)
      ->type_name("N");
  command->add_option("--inputs", options->inputs, "number of random inputs (default 3)")
      ->check(at_least(1, 1000))
      ->needs(against)
      ->type_name("N");
  command
      ->add_flag("--exact", options->exact, "compare bit for bit in the types of the programs, not to 1e-6 in 64 bits")
      ->needs(against);
  command->add_option("--convention", options->convention, "plumbline, or paddle (with the defects of Paddle 3.3.1)")
      ->capture_default_str();
  CLI::Option* const fused =
      command->add_option("--max-fuse-numel", options->max_fuse_numel, "most elements of a fused reduction")
          ->capture_default_str();
  CLI::Option* const overlapped = command
                                      ->add_option("--max-overlap-rings", options->max_overlap_rings,
                                                   "most rings that overlap; with N + 1 or more no reduction overlaps")
                                      ->capture_default_str();
  command
      ->add_flag("--use-sharding", options->use_sharding, "parameters are sharded: neither overlap nor fuse reductions")
      ->excludes(fused)
      ->excludes(overlapped);
  command->add_flag("--keep-scaling", options->keeps_scaling, "keep the scaling of gradients");
  command->add_flag("--diff", options->diff, "print only the removed and the added ops");
  command->add_flag("--check", options->check,
                    "check that no op reads what is written later, and that every order of memory accesses is "
                    "enforced; exit status 1 otherwise");
  command->add_option("--format", options->format, "text or json")->type_name("FORMAT")->capture_default_str();
  command->add_option("--out", options->out, "file to write in place of standard output; in a folder pass.txt or .json")
      ->type_name("FILE");
  for (const char* other : {"--convention", "--max-fuse-numel", "--max-overlap-rings", "--use-sharding",
                            "--keep-scaling", "--diff", "--check"})
    against->excludes(command->get_option(other));
  command->footer(
      "Example: plumbline pass program.json --diff --check\n"
      "         plumbline pass program.json --against rewritten.json\n"
      "A file of --against is a program, what --format json prints, or {\"programs\": [...]}, one for each\n"
      "rank; it has the rings of the first if it holds none.\n"
      "The program format is in share/doc/plumbline/reference/program/README.md of the installation.\n"
      "Exit status: 0 success; 1 --check or --against found a problem; 2 usage error; 3 the output was\n"
      "not written.");
  return [options] { return run_pass(*options); };
}

}  // namespace plumbline::cli
