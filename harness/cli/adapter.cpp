// `plumbline adapter`: the reference answers questions on standard input, by the adapter protocol.
#include "harness/cli/program.hpp"
#include "harness/subject/adapter/service.hpp"

namespace plumbline::cli {

Command add_adapter(CLI::App& app, const Program&) {
  CLI::App* command = app.add_subcommand(
      "adapter", "Answer the adapter protocol with the reference: JSON lines on standard input and output");
  command->footer(R"(Example: echo '{"id":1,"op":"hello","args":{"protocol":1}}' | plumbline adapter)");
  return [] { return subject::serve_adapter(); };
}

}  // namespace plumbline::cli
