// `plumbline submit`: the folder of a conformance statement, of the records of a run for one.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/expectations/expectations.hpp"
#include "harness/run/quoted.hpp"
#include "harness/statement/folder.hpp"
#include "harness/suite/toml_row.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

struct SubmitOptions {
  std::vector<std::string> records;
  std::string subject;
  std::string out;
  std::string key;
  bool print_template = false;
};

// The records by shard.
std::vector<std::pair<fs::path, run::NamedRun>> read_shards(const std::vector<std::string>& given) {
  std::vector<std::pair<fs::path, run::NamedRun>> shards;
  for (const std::string& one : given) {
    const fs::path file = record_file(one);
    shards.push_back({file, {file.string(), read_record(one)}});
  }
  std::ranges::stable_sort(shards, {}, [](const auto& one) {
    const auto& shard = one.second.run.header.shard;
    return shard ? shard->index : 0;
  });
  return shards;
}

int submit(const SubmitOptions& options, const Program& program) {
  if (options.print_template) {
    fmt::print("{}", statement::kSubjectTemplate);
    return 0;
  }
  for (const auto& [what, is_there] : {std::pair{"a record: RUN", !options.records.empty()},
                                       {"--subject FILE (--template prints one)", !options.subject.empty()},
                                       {"--out DIR", !options.out.empty()}})
    if (!is_there) throw InvalidArgument(fmt::format("submit needs {}", what));
  const std::string toml = read_text("--subject", options.subject);
  (void)statement::read_subject(toml, options.subject);
  const suite::Suite& suite = program.suite();
  std::vector<fs::path> files;
  std::vector<run::NamedRun> shards;
  for (auto& [file, shard] : read_shards(options.records)) {
    files.push_back(file);
    shards.push_back(std::move(shard));
  }
  const auto problems = statement::problems_of(suite, PLUMBLINE_VERSION, shards, expectations::today());
  for (const std::string& problem : problems) fmt::print("{}\n", printable(problem));
  if (!problems.empty()) {
    fmt::print("NOT OK: there is nothing to submit: {} problem{}\n", problems.size(), problems.size() == 1 ? "" : "s");
    return 1;
  }
  statement::write_folder(options.out, suite, toml, shards, files, options.key);
  const statement::Statement made =
      statement::make_statement(suite, statement::read_subject(toml, options.subject), shards);
  fmt::print("{}, until {}\nstatement: {}/STATEMENT.md (and .html{}); plumbline verify {} reads it\n", made.claim(),
             suite::text_of(made.valid_until), options.out, options.key.empty() ? "; unsigned" : "; signed",
             run::quoted(options.out));
  return 0;
}

}  // namespace

Command add_submit(CLI::App& app, const Program& program) {
  CLI::App* command =
      app.add_subcommand("submit", "Write a conformance statement from the records of check --statement");
  auto options = std::make_shared<SubmitOptions>();
  command
      ->add_option("records", options->records,
                   "the record (run.jsonl) or its folder; of a sharded run those of all shards")
      ->type_name("RUN");
  command->add_option("--subject", options->subject, "SUBJECT.toml, which describes the subject and its vendor")
      ->type_name("FILE");
  command->add_option("--out", options->out, "folder of the statement; it must not exist yet")->type_name("DIR");
  command->add_option("--key", options->key, "private key that signs the statement, through ssh-keygen")
      ->type_name("FILE");
  command->add_flag("--template", options->print_template, "print a SUBJECT.toml to fill in");
  command->footer(
      "Example: plumbline check --backend plugin:./libacme.so --statement --out run\n"
      "         plumbline submit run --subject SUBJECT.toml --out acme-ccl-2.4.1 --key ~/.ssh/id_ed25519\n"
      "The statement is described in share/doc/plumbline/conformance/STATEMENTS.md of the installation.");
  return [options, &program] { return submit(*options, program); };
}

}  // namespace plumbline::cli
