// `plumbline adapter`: the reference answers questions on standard input, by the adapter protocol; or says what they
// are.
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "harness/cli/program.hpp"
#include "reference/adapter/describe.hpp"
#include "reference/adapter/reference_service.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

struct AdapterCommand {
  std::optional<std::string> described;  // an operation; empty: all
  std::string example, format;
};

adapter::Format format_of(const std::string& name) {
  if (name.empty() || name == "text") return adapter::Format::text;
  if (name == "md") return adapter::Format::md;
  if (name == "json") return adapter::Format::json;
  throw InvalidArgument(fmt::format("--format {}: must be text, md or json", name));
}

int run(const AdapterCommand& command) {
  if (!command.described && !command.format.empty()) throw InvalidArgument("--format: only for --describe");
  if (command.described && !command.example.empty())
    throw InvalidArgument("--example: --describe OP prints the example, too");
  if (command.described) {
    const adapter::Format format = format_of(command.format);
    const adapter::AdapterService service = adapter::reference_service();
    fmt::print("{}", on_behalf_of("--describe", [&] {
                 const std::string& operation = *command.described;
                 return operation.empty() ? describe(service, format) : describe(service, operation, format);
               }));
    return 0;
  }
  if (command.example.empty()) return adapter::serve_adapter();
  const adapter::Example example =
      on_behalf_of("--example", [&] { return example_of(adapter::reference_service(), command.example); });
  fmt::print("{}\n{}\n", example.request, example.reply);
  return 0;
}

}  // namespace

Command add_adapter(CLI::App& app, const Program&) {
  CLI::App* command = app.add_subcommand(
      "adapter", "Serve the reference through the adapter protocol: JSON lines on standard input and output");
  auto options = std::make_shared<AdapterCommand>();
  command
      ->add_option("--describe", options->described,
                   "print what operation OP takes, returns and rejects; without OP a table of all operations")
      ->type_name("[OP]")
      ->expected(0, 1)
      ->default_str("");
  command->add_option("--example", options->example, "print a request to operation OP and the reply, one line each")
      ->type_name("OP");
  command->add_option("--format", options->format, "format of --describe: text, md or json (default text)")
      ->type_name("FORMAT");
  command->footer(
      "Example: plumbline adapter --example topology.prime_factors | head -1 | plumbline adapter\n"
      "         plumbline check --adapter reference --profile topology\n"
      "         plumbline explain topology.prime_factors   the checks that ask an operation\n"
      "Protocol: share/doc/plumbline/harness/subject/adapter/README.md of the installation.\n"
      "Exit status: 0 success; 2 usage error; 3 standard input or output failed.");
  return [options] { return run(*options); };
}

}  // namespace plumbline::cli
