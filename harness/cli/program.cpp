#include "harness/cli/program.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/place.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {

// What others than we threw (a full disk, no memory) is the machine's fault.
int report(const std::exception& error) {
  const std::string words = printable(error.what());
  const bool of_print = words.starts_with("cannot write to file");  // fmt's, of standard output
  std::cerr << "plumbline: " << (of_print ? "cannot write to standard output" + words.substr(20) : words) << '\n';
  return is_usage_error(error) ? 2 : 3;
}

namespace {

// The command that was given, with those inside it.
std::vector<const CLI::App*> given_commands(const CLI::App& app) {
  std::vector<const CLI::App*> given;
  for (auto inner = app.get_subcommands(); !inner.empty(); inner = given.back()->get_subcommands())
    given.push_back(inner.front());
  return given;
}

// Of an option that there is not: which one may have been meant.
std::string option_meant(const std::vector<const CLI::App*>& commands, const std::string& words) {
  const std::size_t at = words.find("--");
  if (commands.empty() || at == std::string::npos) return {};
  std::vector<std::string> names;
  for (const CLI::Option* option : commands.back()->get_options()) names.push_back(option->get_name());
  return did_you_mean(words.substr(at, words.find_first_of("= ", at) - at), names);
}

// The first word that was not expected: CLI11 has them in an order of its own.
std::string unexpected(const CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> words = app.remaining(true);
  const auto first = std::find_if(argv + 1, argv + argc,
                                  [&](const char* word) { return std::ranges::count(words, std::string(word)) > 0; });
  return fmt::format("unexpected argument {}", first == argv + argc ? words.front() : *first);
}

// CLI11 names the type of the value, such as TEXT: "--out: 1 required TEXT missing".
std::string value_is_missing(const CLI::App& app, const std::string& why) {
  const std::string name = why.substr(0, why.find(':'));
  const auto commands = given_commands(app);
  const CLI::Option* const option = commands.empty() ? nullptr : commands.back()->get_option_no_throw(name);
  return option == nullptr ? why : fmt::format("{0}: the value is missing; give {0} {1}", name, value_name(*option));
}

// What is wrong with the command line.
std::string words_of(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return unexpected(app, argc, argv);
  const std::string why = error.what();
  if (const std::size_t at = why.find(" was given a disallowed flag override"); at != std::string::npos)
    return "--" + why.substr(0, at) + " takes no value; give it alone";
  return why.ends_with(" missing") ? value_is_missing(app, why) : why;
}

int parse_error(const CLI::App& app, const CLI::ParseError& error, const std::string& why) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const auto commands = given_commands(app);
  std::cerr << "plumbline: " << why;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) std::cerr << option_meant(commands, why);
  std::cerr << " (see plumbline";
  for (const CLI::App* command : commands) std::cerr << ' ' << command->get_name();
  std::cerr << " --help)\n";
  return 2;
}

// CLI11 drops the empty parts of a list: "2," would count as "2".
void require_whole_lists(const CLI::App& command, const CommandLine& line) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_delimiter() == '\0') continue;
    for (const std::string& value : line.values(option->get_name()))
      if (value.starts_with(',') || value.ends_with(',') || value.find(",,") != std::string::npos)
        throw InvalidArgument(fmt::format("{} '{}': a part between commas is empty", option->get_name(), value));
  }
}

// CLI11 would only say that there is no command, or that a word was not expected.
void require_command(const CLI::App& app, int argc, char** argv) {
  std::string before;
  const CLI::App* outer = &app;
  for (int at = 1; at <= argc; ++at) {
    const auto inner = outer->get_subcommands([](const CLI::App*) { return true; });
    if (inner.empty()) return;
    if (at < argc && argv[at][0] == '-') return;  // options come first: CLI11 looks at the rest
    std::vector<std::string> names;
    for (const CLI::App* command : inner) names.push_back(command->get_name());
    if (at == argc) {
      if (outer->get_require_subcommand_min() == 0) return;
      throw NotFound(
          fmt::format("no command is given{}; {}", before.empty() ? "" : " after" + before, there_are("", names)));
    }
    const auto named = std::ranges::find(names, std::string(argv[at]));
    if (named == names.end())
      throw NotFound(
          fmt::format("no command '{}'; {}", (before + " " + argv[at]).substr(1), there_are(argv[at], names)));
    outer = inner.at(static_cast<std::size_t>(named - names.begin()));
    before += " " + *named;
  }
}

constexpr const char* kExitStatus =
    "Exit status: 0 success; 1 the subject failed; 2 usage error; 3 the harness or the machine failed,\n"
    "or nothing ran.";

// What all commands have in common: an option that is given has a value, and the help ends with the exit statuses.
void complete_command(CLI::App& command) {
  for (CLI::Option* option : command.get_options())
    if (option->get_items_expected_max() == 0)
      option->disable_flag_override();
    else
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

namespace {

// In a job of several ranks the first one writes reports.
bool writes_reports() {
  try {
    const auto place = subject::place_of_launcher();
    return !place || place->rank == 0;
  } catch (const InvalidArgument&) {
    return true;  // of numbers that make no rank
  }
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
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "print this help");
  app.set_version_flag("--version", "plumbline " PLUMBLINE_VERSION, "print the version");
  app.require_subcommand(1);
  app.footer("Example: plumbline check --backend local\n         plumbline check --help");
  std::map<const CLI::App*, Command> commands;
  for (const auto add :
       {add_check,  add_train, add_bench,  add_requirements, add_explain,      add_expectations, add_mutants,
        add_canary, add_merge, add_submit, add_verify,       add_topology,     add_schedule,     add_buckets,
        add_gossip, add_pass,  add_scaler, add_adapter,      add_build_module, add_doctor}) {
    Command command = add(app, program);
    commands[app.get_subcommands([](const CLI::App*) { return true; }).back()] = std::move(command);
  }
  for (auto& [tool, command] : add_record_tools(app)) commands[tool] = std::move(command);
  complete_command(app);
  // A run that has begun speaks for itself in its reports.
  const auto refused = [&](const std::string& why) {
    if (app.get_subcommands().empty() || UnfinishedReports::were_begun() || !writes_reports()) return;
    const Command& command = commands.at(app.get_subcommands().front());
    if (command.refused) command.refused(CommandLine(argc, argv), why);
  };
  try {
    require_command(app, argc, argv);
    app.parse(argc, argv);
    for (const CLI::App* command : given_commands(app)) require_whole_lists(*command, CommandLine(argc, argv));
    const int status = commands.at(app.get_subcommands().front()).run();
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
    throw RuntimeFailure(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  } catch (const CLI::ParseError& error) {
    const std::string why = words_of(app, error, argc, argv);
    if (error.get_exit_code() != 0) refused(why);
    return parse_error(app, error, why);
  } catch (const std::exception& error) {
    refused(error.what());
    return report(error);
  }
}

}  // namespace plumbline::cli
