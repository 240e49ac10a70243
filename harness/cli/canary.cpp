// `plumbline canary`: is it safe to go from one library, version or set of options to another?
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/bench/benchmark.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/canary_rows.hpp"
#include "harness/cli/cases.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/launch/process.hpp"
#include "harness/run/counted.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"
#include "reference/support/quantile.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct CanaryOptions {
  SubjectOptions a;
  std::string against, against_launcher, against_mutant;
  std::vector<std::string> against_options, variables, against_variables;
  std::vector<std::string> operations, dtypes{"f32", "bf16"}, sizes{"4", "4Ki", "1Mi"};
  std::vector<int> worlds{2, 3, 4};
  int launches = 5;
  double min_seconds = 0.02;
  double time_limit = 120;
  std::uint64_t seed = 1;
  CanaryLimits limits;
  OutputFolder out{"canary"};

  /// The other side: with a launcher and control address as on the first, where it has none of its own.
  [[nodiscard]] SubjectOptions b() const {
    SubjectOptions other = a;
    other.backend = against;
    other.backend_options = against_options;
    other.mutant = against_mutant;
    if (!against_launcher.empty()) other.launcher = against_launcher;
    return other;
  }
};

// By variables the user chooses what backend options cannot: NCCL_ALGO, OMPI_MCA_coll_tuned_allreduce_algorithm.
std::vector<std::pair<std::string, std::string>> variables_in(const char* option,
                                                              const std::vector<std::string>& words) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw InvalidArgument(fmt::format("{} '{}' is not NAME=VALUE", option, word));
    const std::string name = word.substr(0, equals);
    if (std::ranges::find(launch::kVariablesOfRanks, name) != launch::kVariablesOfRanks.end())
      throw InvalidArgument(fmt::format("{} '{}': the driver sets variables of that name itself", option, word));
    if (std::ranges::find(variables, name, &std::pair<std::string, std::string>::first) != variables.end())
      throw InvalidArgument(fmt::format("{} '{}': {} is given twice", option, word, name));
    variables.emplace_back(name, word.substr(equals + 1));
  }
  return variables;
}

class Canary {
 public:
  explicit Canary(const CanaryOptions& options) : options_(options), a_(options.a.driver()), b_(driver_of_b(options)) {
    a_.group.variables = variables_in("--variable", options.variables);
    b_.group.variables = variables_in("--against-variable", options.against_variables);
    for (launch::Options* driver : {&a_, &b_}) driver->group.worker_options.emplace_back("--no-flight");
    for (const int world : options.worlds) require_ranks("--world-size", world, kMostRanks);
    for (const int world : options.worlds)
      for (const comm::Operation operation : chosen_operations())
        for (const comm::DType dtype : chosen_dtypes())
          for (const std::int64_t bytes : chosen_sizes()) add_row(world, operation, dtype, bytes);
    add_orders();
    const auto benchmarks = reinterpret_cast<bench::BenchmarksFunction*>(
        subject::open_module("benchmarks", bench::kBenchmarksSymbol, "the benchmarks"));
    for (const bench::Benchmark& one : benchmarks()->registry) benchmarks_.insert(one.name);
  }

  int run() {
    fmt::print("A is {}, B is {}: {}, each side is launched {} times\n", described(a_), described(b_),
               run::counted(rows_.size(), "call"), options_.launches);
    std::error_code error;
    fs::create_directories(options_.out.path(), error);
    if (error) throw RuntimeFailure(fmt::format("--out '{}': {}", options_.out.path(), error.message()));
    for (int launch = 0; launch < options_.launches && !interrupted_; ++launch) {
      fmt::print("launch {} of {}\n", launch + 1, options_.launches);
      std::cout.flush();
      // Each is first as often as the other.
      for (const bool is_a : {launch % 2 == 0, launch % 2 != 0}) launch_side(is_a, launch == 0);
    }
    if (interrupted_) {
      std::cerr << "plumbline: canary: a signal interrupted the run\n";
      return 3;
    }
    compare();
    return tell();
  }

  /// Whether a signal ended it before there was anything to write.
  [[nodiscard]] bool interrupted() const { return interrupted_; }

 private:
  // With the variables, which tell two sides of one library apart.
  static std::string described(const launch::Options& side) {
    std::string text = side.group.subject.describe();
    for (const auto& [name, value] : side.group.variables) text += fmt::format(", {}={}", name, value);
    return text;
  }

  // What is wrong with B's options is said of those.
  static launch::Options driver_of_b(const CanaryOptions& options) {
    const auto words = [&options](const std::exception& error) {
      const std::string text = error.what();
      if (text.starts_with("--launcher") && !options.against_launcher.empty()) return "--against-" + text.substr(2);
      return text.starts_with("--backend") ? "--against" + text.substr(std::string("--backend").size()) : text;
    };
    try {
      return options.b().driver();
    } catch (const NotFound& error) {
      throw NotFound(words(error));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(words(error));
    }
  }

  struct Times {
    std::vector<double> a, b;  // medians of launches
  };

  [[nodiscard]] std::vector<comm::Operation> chosen_operations() const {
    const auto known = bench::canary_operations();
    if (options_.operations.empty()) return {known.begin(), known.end()};
    std::vector<comm::Operation> chosen;
    std::vector<std::string> names;
    for (const comm::Operation one : known) names.emplace_back(name_of(one));
    for (const std::string& name : options_.operations) {
      const auto found = std::ranges::find(names, name);
      if (found == names.end())
        throw InvalidArgument(fmt::format("--operations '{}'; the operations are {}{}", name, fmt::join(names, ", "),
                                          did_you_mean(name, names)));
      chosen.push_back(known[static_cast<std::size_t>(found - names.begin())]);
    }
    return chosen;
  }
  [[nodiscard]] std::vector<comm::DType> chosen_dtypes() const {
    std::vector<comm::DType> chosen;
    for (const std::string& name : options_.dtypes) {
      const auto dtype = comm::parse_dtype(name);
      if (!dtype || !is_floating(*dtype))
        throw InvalidArgument(fmt::format("--dtypes '{}'; the types are f16, bf16, f32, f64", name));
      chosen.push_back(*dtype);
    }
    return chosen;
  }
  [[nodiscard]] std::vector<std::int64_t> chosen_sizes() const {
    std::vector<std::int64_t> chosen;
    for (const std::string& text : options_.sizes) {
      const auto bytes = bytes_in("--sizes", text);
      if (bytes < 8 && bytes != 4 && bytes != 2)
        throw InvalidArgument(fmt::format("--sizes {}: it is 2, 4, or 8 and more bytes", text));
      chosen.push_back(bytes);
    }
    return chosen;
  }

  void add_row(int world, comm::Operation operation, comm::DType dtype, std::int64_t bytes) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;  // bytes of all ranks' answers to an all_to_all
    if (bytes > kMost / world / world)
      throw InvalidArgument(
          fmt::format("--sizes {}: with {} ranks it is at most {} bytes", bytes, world, kMost / world / world));
    const auto elements = bytes / static_cast<std::int64_t>(size_of(dtype));
    if (elements == 0) return;  // less than one of this type
    rows_.push_back(
        {.probe = {
             .operation = operation, .dtype = dtype, .ranks = world, .elements = elements, .seed = options_.seed}});
  }
  void add_orders() {
    constexpr std::int64_t kMostProbes = std::int64_t{1} << 24;  // a byte each on every rank
    for (const int world : options_.worlds)
      for (const std::int64_t bytes : chosen_sizes())
        if (world > 1 && bytes / 4 >= 1 && bytes / 4 * world * (world - 1) / 2 <= kMostProbes)
          orders_.push_back({.ranks = world, .elements = bytes / 4});
  }

  // ---- one launch of one side ----

  [[nodiscard]] launch::Assignment task(int world, json arguments) const {
    arguments.update({{"repetitions", 5}, {"min_seconds", options_.min_seconds}});
    return {.command = {{"type", "task"}, {"name", "bench"}, {"device", "cpu"}, {"arguments", std::move(arguments)}},
            .world = world,
            .isolation = "canary",
            .limit = std::chrono::duration<double>(options_.time_limit)};
  }

  // What a task's end means, by the task's number.
  using Take = std::function<void(const launch::Outcome&, const json& answer)>;
  struct Work {
    std::vector<launch::Assignment> tasks;
    std::vector<Take> takes;
    void add(launch::Assignment task, Take take) {
      tasks.push_back(std::move(task));
      takes.push_back(std::move(take));
    }
  };

  void launch_side(bool is_a, bool first) {
    Work work;
    const launch::ScratchFolder scratch;
    for (const int world : options_.worlds) {
      if (first) add_answers(work, world, is_a, scratch.path());
      add_times(work, world, is_a);
    }
    json answer;
    launch::Observer observer;
    observer.before = [&](std::size_t, const json& description) -> std::optional<launch::Outcome> {
      const json& capabilities = description.at("capabilities");
      (is_a ? a_version_ : b_version_) = capabilities.value("version", "");
      if (!description.value("one_host", true))
        throw InvalidArgument("canary: its answers are compared on one host, and these ranks are on several");
      for (CanaryRow& row : rows_)
        if (const json dtypes = capabilities.value("dtypes", json::array());
            std::ranges::count(dtypes, json(name_of(row.probe.dtype))) == 0)
          row.is_unclaimed = true;
      return std::nullopt;
    };
    observer.output = [&answer](std::size_t, int, const json& value) { answer = value; };
    observer.end = [&](std::size_t index, const launch::Outcome& outcome) {
      work.takes[index](outcome, answer);
      answer = nullptr;
      return true;
    };
    observer.log = [](const std::string& line) { std::cerr << line << '\n'; };
    if (!launch::run(work.tasks, is_a ? a_ : b_, observer)) interrupted_ = true;
  }

  void add_answers(Work& work, int world, bool is_a, const fs::path& scratch) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const bench::CanaryProbe& probe = rows_[i].probe;
      if (probe.ranks != world) continue;
      const fs::path folder = scratch / std::to_string(i);
      fs::create_directories(folder);
      work.add(task(world, {{"benchmark", "canary.values"},
                            {"operation", name_of(probe.operation)},
                            {"dtype", name_of(probe.dtype)},
                            {"elements", probe.elements},
                            {"seed", probe.seed},
                            {"folder", folder.string()}}),
               [this, i, is_a, folder](const launch::Outcome& outcome, const json&) {
                 take_answers(i, is_a, folder, outcome);
               });
    }
    for (std::size_t i = 0; i < orders_.size(); ++i)
      if (orders_[i].ranks == world)
        work.add(task(world, {{"benchmark", "canary.order"}, {"elements", orders_[i].elements}}),
                 [this, i, is_a](const launch::Outcome&, const json& answer) { take_order(orders_[i], is_a, answer); });
  }

  void take_answers(std::size_t row, bool is_a, const fs::path& folder, const launch::Outcome& outcome) {
    CanarySide& side = is_a ? rows_[row].a : rows_[row].b;
    if (outcome.verdict == record::Verdict::error)
      throw RuntimeFailure(fmt::format("canary: {}: {}", described(is_a ? a_ : b_), outcome.reason));
    if (outcome.verdict != record::Verdict::pass) {
      side.problem = fmt::format("{}: {}", name_of(outcome.verdict), outcome.reason);
      return;
    }
    auto& outs = (is_a ? a_outs_ : b_outs_)[row];
    for (int rank = 0; rank < rows_[row].probe.ranks; ++rank) {
      std::ifstream stream(folder / std::to_string(rank), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
      const auto view = std::as_bytes(std::span(bytes));
      outs.emplace_back(view.begin(), view.end());
    }
    fs::remove_all(folder);
    side.answer = judge_canary(rows_[row].probe, outs);
    if (!a_outs_.contains(row) || !b_outs_.contains(row)) return;
    if (is_whole(row, a_outs_[row]) && is_whole(row, b_outs_[row]))
      rows_[row].difference = compare_canary(rows_[row].probe, a_outs_[row], b_outs_[row]);
    a_outs_.erase(row);
    b_outs_.erase(row);
  }
  // Whether every rank wrote what it should have: else judge_canary() has said so.
  [[nodiscard]] bool is_whole(std::size_t row, const std::vector<std::vector<std::byte>>& outs) const {
    const bench::CanaryProbe& probe = rows_[row].probe;
    for (int rank = 0; rank < probe.ranks; ++rank)
      if (outs[static_cast<std::size_t>(rank)].size() !=
          static_cast<std::size_t>(elements_out(probe, rank)) * size_of(probe.dtype))
        return false;
    return true;
  }

  static void take_order(CanaryOrder& order, bool is_a, const json& answer) {
    if (!answer.is_object()) return;
    auto& found = is_a ? order.a : order.b;
    for (const json& part : answer.at("parts")) {
      const std::string text = part.at("order");
      if (std::ranges::find(found, text) == found.end()) found.push_back(text);
    }
    (is_a ? order.a_changes : order.b_changes) = answer.at("changes");
  }

  // What bench measures: calls of f32.
  void add_times(Work& work, int world, bool is_a) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const bench::CanaryProbe& probe = rows_[i].probe;
      const std::string benchmark = fmt::format("collectives.{}", name_of(probe.operation));
      if (probe.ranks != world || probe.dtype != comm::DType::f32 || world < 2 || !benchmarks_.contains(benchmark))
        continue;
      work.add(task(world, {{"benchmark", benchmark}, {"bytes", 4 * probe.elements}}),
               [this, i, is_a](const launch::Outcome& outcome, const json& answer) {
                 if (outcome.verdict != record::Verdict::pass || !answer.is_object()) return;
                 const auto samples = answer.at("samples").get<std::vector<double>>();
                 (is_a ? times_[i].a : times_[i].b).push_back(quantile(samples, 0.5));
               });
    }
  }

  // ---- the end ----

  void compare() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      CanaryRow& row = rows_[i];
      if (row.a.problem.starts_with("refuse") && row.b.problem.starts_with("refuse")) row.is_unclaimed = true;
      const Times& times = times_[i];
      if (times.a.size() == times.b.size() && static_cast<int>(times.a.size()) == options_.launches)
        for (std::size_t k = 0; k < times.a.size(); ++k) row.ratios.push_back(times.b[k] / times.a[k]);
    }
  }

  static json side_json(const launch::Options& side, const std::string& version) {
    json variables = json::object();
    for (const auto& [name, value] : side.group.variables) variables[name] = value;
    return {{"subject", side.group.subject.describe()}, {"version", version}, {"variables", std::move(variables)}};
  }

  [[nodiscard]] int tell() const {
    fmt::print("A: {} {}\nB: {} {}\n{}{}", described(a_), a_version_, described(b_), b_version_,
               table_of(rows_, options_.limits), orders_text(orders_));
    json found = to_json(rows_, orders_, options_.limits);
    const record::Header header = header_of("canary", a_.group.subject.describe());
    found.update({{"suite_version", header.suite_version},
                  {"started", header.started},
                  {"arguments", header.arguments},
                  {"a", side_json(a_, a_version_)},
                  {"b", side_json(b_, b_version_)},
                  {"environment", header.environment}});
    const fs::path file = fs::path(options_.out.path()) / "canary.json";
    record::write_file(file, found.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
    const auto bad =
        std::ranges::count_if(rows_, [this](const CanaryRow& row) { return is_bad(row, options_.limits); });
    const auto differ = std::ranges::count_if(rows_, [](const CanaryRow& row) { return row.difference.differing > 0; });
    fmt::print("{}: B {} A in {} of {}; bits differ in {}{}\nfigures: {}\n", bad == 0 ? "OK" : "NOT OK",
               bad == 0 ? "may replace" : "is wrong, slower or too different beside",
               bad == 0 ? rows_.size() : static_cast<std::size_t>(bad), run::counted(rows_.size(), "call"), differ,
               noise_text(rows_, options_.limits), file.string());
    return bad == 0 ? 0 : 1;
  }

  const CanaryOptions& options_;
  launch::Options a_, b_;
  std::vector<CanaryRow> rows_;
  std::vector<CanaryOrder> orders_;
  std::map<std::size_t, std::vector<std::vector<std::byte>>> a_outs_, b_outs_;  // of rows
  std::map<std::size_t, Times> times_;
  std::set<std::string> benchmarks_;   // that there are
  std::string a_version_, b_version_;  // as the backends say them
  bool interrupted_ = false;
};

}  // namespace

Command add_canary(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand(
      "canary", "Compare two backends, versions or configurations before an upgrade: bits, errors, order, time");
  auto options = std::make_shared<CanaryOptions>();
  options->a.add_to(*command, SubjectOptions::Kind::one_group, program);
  command->add_option("--against", options->against, "backend that is to replace --backend")
      ->type_name("NAME")
      ->required();
  command->add_option("--against-option", options->against_options, "option of the backend --against; may be repeated")
      ->type_name("KEY=VALUE");
  command->add_option("--against-launcher", options->against_launcher,
                      "program that starts its ranks (default as --launcher)");
  command
      ->add_option("--variable", options->variables,
                   "variable in the environment of the ranks of --backend, such as NCCL_ALGO=Ring; may be repeated")
      ->type_name("NAME=VALUE");
  command
      ->add_option("--against-variable", options->against_variables,
                   "the same for the ranks of --against; may be repeated")
      ->type_name("NAME=VALUE");
  command->add_option("--against-mutant", options->against_mutant, "break it on purpose in one known way");
  command->add_option("--operations", options->operations, "run only these operations: all_reduce,all_gather")
      ->delimiter(',');
  command->add_option("--dtypes", options->dtypes, "element types: f16, bf16, f32, f64")
      ->type_name("DTYPE")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--sizes", options->sizes, "bytes that one rank sends another: 4,64Ki,1MiB")
      ->type_name("SIZE")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--world-size", options->worlds, "numbers of ranks, each at most 256: 2,3,4")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str();
  command
      ->add_option("--launches", options->launches,
                   "launches of each side, alternately; a difference in time counts only if it shows in every launch, "
                   "of at least 3")
      ->check(at_least(1, 1000))
      ->capture_default_str();
  command->add_option("--min-time", options->min_seconds, "least duration of a sample")
      ->check(seconds())
      ->capture_default_str();
  command->add_option("--time-limit", options->time_limit, "time limit of a call")
      ->check(seconds())
      ->capture_default_str();
  command->add_option("--seed", options->seed, "random seed of the inputs")
      ->check(seed_number())
      ->capture_default_str();
  command->add_option("--slower", options->limits.slower, "slowdown of B that is tolerated, as a share of A's time")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_flag("--same-bits", options->limits.same_bits, "fail when the results are not bit-identical");
  options->out.add_to(*command, "folder of canary.json");
  group_options(*command, "Subject A",
                {"--backend", "--backend-option", "--variable", "--launcher", "--control-address", "--mutant"});
  group_options(*command, "Subject B",
                {"--against", "--against-option", "--against-variable", "--against-launcher", "--against-mutant"});
  group_options(
      *command, "What runs",
      {"--operations", "--dtypes", "--sizes", "--world-size", "--launches", "--min-time", "--time-limit", "--seed"});
  group_options(*command, "Verdict", {"--slower", "--same-bits"});
  group_options(*command, "Output", {"--out"});
  command->footer(
      "Example: plumbline canary --backend mpi --launcher mpirun --against mpi \\\n"
      "             --against-launcher mpiexec.mpich\n"
      "         plumbline canary --backend plugin:./old.so --against plugin:./new.so --same-bits\n"
      "         plumbline canary --backend nccl --against nccl --variable NCCL_ALGO=Ring \\\n"
      "             --against-variable NCCL_ALGO=Tree\n"
      "Exit status: 0 B is no worse than A; 1 it is slower, less exact, or differs with --same-bits;\n"
      "2 usage error; 3 the harness or the machine failed.");
  return [options] {
    options->a.require_no_job("canary");
    options->b().require_no_job("canary");
    Canary canary(*options);
    return in_output_folder(options->out, [&] {
      const int status = canary.run();
      if (canary.interrupted()) options->out.discard();
      return status;
    });
  };
}

}  // namespace plumbline::cli
