// `plumbline mutants`: the subjects that are wrong on purpose.
#include "harness/mutants/mutants.hpp"

#include <fmt/format.h>

#include "harness/cli/program.hpp"

namespace plumbline::cli {

Command add_mutants(CLI::App& app, const Program&) {
  CLI::App* command = app.add_subcommand("mutants", "List the subjects that are wrong on purpose");
  command->footer("Example: plumbline check --mutant col.drop_last_element --filter COLL-001");
  return [] {
    for (const mutants::Mutant& mutant : mutants::all_mutants()) {
      fmt::print("{:<28} violates {}: {}\n", mutant.name, mutant.violates, mutant.what);
      fmt::print("{:<28} shows in {}; {}\n", "", mutant.shows,
                 mutant.hides.empty() ? "hides nowhere: " + mutant.why_hides
                                      : "hides in " + mutant.hides + ": " + mutant.why_hides);
    }
    return 0;
  };
}

}  // namespace plumbline::cli
