// harness/cli/help.hpp: how the help of a command is laid out.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace plumbline::cli {

/// Prints an option as `--seed N  random seed (0 to 2^63-1; default 1)`, in lines of at most 100 columns. Options that
/// exclude it are left out: the error names them.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* command, std::string name) const override;
  std::string make_positionals(const CLI::App* command) const override;
  std::string make_group(std::string heading, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_usage(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

/// What stands for the option's value in help and errors, such as "N", "FILE" or "SECONDS".
[[nodiscard]] std::string value_name(const CLI::Option& option);

/// Prints the options with these names below a heading of their own. Throws CLI::OptionNotFound for another name.
void group_options(CLI::App& command, const std::string& heading, std::initializer_list<const char*> names);

}  // namespace plumbline::cli
