// harness/cli/program.hpp: the command line `plumbline`, a file per sub-command.
//
// Exit    0 all as it should be; 1 the subject failed; 2 usage; 3 the harness or the machine failed, or nothing ran.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/cli/arguments.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::cli {

struct Command;

/// What the executable is made of. The suite comes from a module, so that starting stays quick.
struct Program {
  std::function<const suite::Suite&()> suite;
  std::function<int(int argc, char** argv)> worker;  // `plumbline worker …`, with argv[0] the program
  std::map<std::string, Command (*)(CLI::App& bench, const Program&)> studies{};  // sub-commands of bench, by name
};

/// What a sub-command does, which its function adds to `app`.
struct Command {
  using Refused = std::function<void(const CommandLine& line, const std::string& why)>;
  Command() = default;
  template <class Run>
    requires std::is_invocable_r_v<int, Run&>
  Command(Run runs, Refused is_refused = {}) : run(std::move(runs)), refused(std::move(is_refused)) {}

  std::function<int()> run;  // once the arguments are parsed
  /// Of commands whose runs leave reports: has those in the run's folder report why it was rejected before it began,
  /// which may be that the arguments cannot be parsed. Of others, nothing.
  Refused refused;
};
Command add_check(CLI::App& app, const Program& program);
Command add_explain(CLI::App& app, const Program& program);
Command add_canary(CLI::App& app, const Program& program);
Command add_merge(CLI::App& app, const Program& program);
Command add_submit(CLI::App& app, const Program& program);
Command add_verify(CLI::App& app, const Program& program);
Command add_expectations(CLI::App& app, const Program& program);
Command add_requirements(CLI::App& app, const Program& program);
Command add_mutants(CLI::App& app, const Program& program);
Command add_build_module(CLI::App& app, const Program& program);
Command add_doctor(CLI::App& app, const Program& program);
Command add_adapter(CLI::App& app, const Program& program);
Command add_train(CLI::App& app, const Program& program);
Command add_bench(CLI::App& app, const Program& program);
Command add_schedule(CLI::App& app, const Program& program);
Command add_topology(CLI::App& app, const Program& program);
Command add_buckets(CLI::App& app, const Program& program);
Command add_gossip(CLI::App& app, const Program& program);
Command add_pass(CLI::App& app, const Program& program);
Command add_scaler(CLI::App& app, const Program& program);

/// What Python begins with where it runs our code: as -m does, but without the current folder, for a record's may have
/// files named like modules. What the user installed for this account or by PYTHONPATH is found.
inline constexpr const char* kPythonStart = "import sys; sys.path[:1] = []; ";
/// The commands that read records (record_tools.cpp), each with what it does.
std::vector<std::pair<const CLI::App*, Command>> add_record_tools(CLI::App& app);

/// Says an error in one line on standard error; returns the exit status that it means.
int report(const std::exception& error);

/// Runs the command line. Errors become one line on standard error and the exit status.
int run(int argc, char** argv, const Program& program);

}  // namespace plumbline::cli
