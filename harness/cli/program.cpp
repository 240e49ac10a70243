#include "harness/cli/program.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {

// What others than we threw (a full disk, no memory) is the machine's fault.
int report(const std::exception& error) {
  const std::string words = error.what();
  const bool of_print = words.starts_with("cannot write to file");  // fmt's, of standard output
  std::cerr << "plumbline: " << (of_print ? "cannot write to standard output" + words.substr(20) : words) << '\n';
  const bool usage =
      dynamic_cast<const InvalidArgument*>(&error) != nullptr || dynamic_cast<const NotFound*>(&error) != nullptr ||
      dynamic_cast<const OutOfRange*>(&error) != nullptr || dynamic_cast<const Unsupported*>(&error) != nullptr;
  return usage ? 2 : 3;
}

namespace {

int parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  std::cerr << "plumbline: " << error.what() << " (see plumbline";
  for (const CLI::App* command : app.get_subcommands()) std::cerr << ' ' << command->get_name();
  std::cerr << " --help)\n";
  return 2;
}

// CLI11 would only say that there is no command.
void require_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (std::ranges::count(names, argv[1]) == 0)
    throw NotFound(fmt::format("no command '{}'; there are {}", argv[1], fmt::join(names, ", ")));
}

constexpr const char* kExitStatus =
    "Exit status: 0 all as it should be, 1 the subject failed, 2 usage, 3 the harness or the machine failed, or "
    "nothing "
    "ran.";

// What all commands have in common: an option that is given has a value, and the help ends with the exit statuses.
void complete_command(CLI::App& command) {
  for (CLI::Option* option : command.get_options())
    if (option->get_items_expected_max() > 0)
      option->check(CLI::Validator(
          [](const std::string& value) -> std::string {
            return value.empty() ? "the value is empty; give one, or leave the option out" : "";
          },
          ""));
  if (const std::string footer = command.get_footer(); footer.find("Exit status:") == std::string::npos)
    command.footer(footer + "\n" + kExitStatus);
  for (CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; })) complete_command(*part);
}

}  // namespace

int run(int argc, char** argv, const Program& program) {
  try {
    // A worker's options are its own.
    if (argc > 1 && std::strcmp(argv[1], "worker") == 0) return program.worker(argc - 1, argv + 1);
  } catch (const std::exception& error) {
    return report(error);
  }
  CLI::App app("Checks and measures the building blocks of distributed training.", "plumbline");
  app.set_version_flag("--version", "plumbline " PLUMBLINE_VERSION);
  app.require_subcommand(1);
  app.footer("Example: plumbline check --backend local");
  std::map<const CLI::App*, Command> commands;
  for (const auto add :
       {add_check, add_train, add_bench, add_requirements, add_explain, add_expectations, add_mutants, add_merge,
        add_topology, add_schedule, add_buckets, add_gossip, add_pass, add_scaler, add_adapter, add_doctor}) {
    Command command = add(app, program);
    commands[app.get_subcommands([](const CLI::App*) { return true; }).back()] = std::move(command);
  }
  complete_command(app);
  try {
    require_command(app, argc, argv);
    app.parse(argc, argv);
    const int status = commands.at(app.get_subcommands().front())();
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
    throw RuntimeFailure(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  } catch (const CLI::ParseError& error) {
    return parse_error(app, error);
  } catch (const std::exception& error) {
    return report(error);
  }
}

}  // namespace plumbline::cli
