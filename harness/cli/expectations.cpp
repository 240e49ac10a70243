// `plumbline expectations`: looks after the file in which the owner of a subject says what it does wrong.
#include "harness/expectations/expectations.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/expectations/edit.hpp"
#include "harness/record/file.hpp"
#include "harness/run/counted.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using expectations::Edit;
using expectations::Expectations;

struct CheckFile {
  std::string file;
  std::vector<std::string> records;
};

struct EditFile {
  std::string record;
  std::string file;
  std::string out;
  bool dry_run = false;
};

// The records under a folder: those of a nightly run stand side by side.
std::vector<record::Run> records_in(const std::vector<std::string>& folders) {
  std::vector<record::Run> runs;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(folder)) throw NotFound(fmt::format("--records '{}': there is no such folder", folder));
    const std::size_t before = runs.size();
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().filename() == "run.jsonl") runs.push_back(record::read(entry.path()));
    if (runs.size() == before) throw NotFound(fmt::format("--records '{}': there is no run.jsonl in it", folder));
  }
  return runs;
}

void print_flakes(const Expectations& book, std::vector<record::Run> runs) {
  for (const expectations::FlakeRate& rate : expectations::flake_rates(book, std::move(runs))) {
    const std::string place = fmt::format("{}: '{}'", rate.entry->expectation.origin, rate.entry->id);
    if (rate.failures == 0 && rate.records >= expectations::kFlakeRecords)
      fmt::print("no flake: {} never failed in the last {} records: take it out\n", place, rate.records);
    else
      fmt::print("flake: {} failed in {} of {}, in {}\n", place, rate.failures,
                 rate.tries == 1 ? "1 try" : fmt::format("{} tries", rate.tries), run::counted(rate.records, "record"));
  }
}

int check(const CheckFile& options, const Program& program) {
  const Expectations book = Expectations::read(options.file, program.suite(), expectations::today());
  const std::vector<std::string> expired = book.expired();
  for (const std::string& line : expired) fmt::print("expired: {}\n", line);
  for (const std::string& line : book.soon_expired()) fmt::print("soon: {}\n", line);
  if (!options.records.empty()) print_flakes(book, records_in(options.records));
  const std::size_t entries = book.entries().size();
  fmt::print("{}: {} {} in {}, {} expired\n", options.file, entries, entries == 1 ? "entry" : "entries",
             run::counted(book.files().size(), "file"), expired.size());
  return expired.empty() ? 0 : 2;
}

// Throws NotFound where it cannot be read to its end: what is taken for empty is written over.
std::string text_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream.is_open() && stream.peek() != std::ifstream::traits_type::eof()) text << stream.rdbuf();
  if (!stream.is_open() || stream.bad() || !text)
    throw NotFound(fmt::format("--file '{}': cannot read it; nothing was written", file));
  return text.str();
}

// What a link points to is replaced and not the link, and the file keeps its permissions.
void replace_file(const std::string& file, const std::string& text) {
  const bool there = fs::exists(file);
  const fs::path target = there ? fs::canonical(file) : fs::path(file);
  const fs::perms permissions = there ? fs::status(target).permissions() : fs::perms::none;
  record::write_file(target, text);
  if (there) fs::permissions(target, permissions);
}

int edit(const EditFile& options, const Program& program, decltype(expectations::update)& editor) {
  if (!options.out.empty())
    require_apart(options.out, options.out, {{"RECORD", record_file(options.record)}, {"--file", options.file}});
  const bool begins = &editor == &expectations::update && !fs::exists(options.file);
  if (!begins && !fs::is_regular_file(options.file))
    throw NotFound(fmt::format("--file '{}': there is no such file", options.file));
  const record::Run run = read_record(options.record);
  if (run.header.command != "check")
    throw InvalidArgument(fmt::format("'{}' is the record of plumbline {}; expectations are of check", options.record,
                                      run.header.command));
  const std::string text = begins ? "" : text_of(options.file);
  const Edit edit = editor(text, options.file, run, program.suite(), expectations::today());
  for (const std::string& line : edit.changes) fmt::print("{}\n", line);
  for (const std::string& line : edit.left) fmt::print("left: {}\n", line);
  const std::string& out = options.out.empty() ? options.file : options.out;
  const bool writes = !options.dry_run && (!edit.changes.empty() || !options.out.empty());
  if (writes) replace_file(out, edit.text);
  fmt::print("{}: {} changed, {} left to you{}\n", out, edit.changes.size(), edit.left.size(),
             writes ? "" : ", nothing written");
  return edit.left.empty() ? 0 : 1;
}

Command add_check_file(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand(
      "check", "Validate a file of expectations, and list the entries that expired, or will within 14 days");
  auto options = std::make_shared<CheckFile>();
  command->add_option("FILE", options->file, "file of expectations; the README below describes its format")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--records", options->records,
                   "folders of records, from which the failure rate of each flaky case is computed")
      ->type_name("DIR");
  command->footer(
      "Example: plumbline expectations check acme.toml --records nightly\nFormat of FILE: "
      "share/doc/plumbline/harness/expectations/README.md of the installation.\nExit status: 0 valid; 2 usage error, "
      "not valid, or entries that expired.");
  return [options, &program] { return check(*options, program); };
}

Command add_editor(CLI::App& app, const Program& program, const std::string& name, const std::string& what,
                   decltype(expectations::update)& editor) {
  CLI::App* command = app.add_subcommand(name, what);
  auto options = std::make_shared<EditFile>();
  command->add_option("RECORD", options->record, "run.jsonl of a run of plumbline check")
      ->type_name("RECORD")
      ->required();
  command->add_option("--file", options->file, "file of expectations")->type_name("FILE")->required();
  CLI::Option* const out =
      command->add_option("--out", options->out, "write to FILE, and leave --file unchanged")->type_name("FILE");
  command->add_flag("--dry-run", options->dry_run, "print the changes without writing them")->excludes(out);
  command->footer(
      fmt::format("Example: plumbline expectations {} results/latest/check-mpi/run.jsonl --file acme.toml\nExit "
                  "status: 0 success; 1 entries need a decision; 2 usage error, or a file that is not valid.",
                  name));
  return [options, &program, &editor] { return edit(*options, program, editor); };
}

}  // namespace

Command add_expectations(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("expectations", "Maintain the file of the known failures of a subject");
  command->require_subcommand(1);
  command->footer(
      "Example: plumbline expectations check acme.toml\n"
      "         plumbline expectations update results/latest/check-mpi --file acme.toml\n"
      "Exit status: 0 success; 1 entries need a decision; 2 usage error, or a file that is not valid.");
  std::map<std::string, Command> commands;
  commands["check"] = add_check_file(*command, program);
  commands["update"] =
      add_editor(*command, program, "update",
                 "Add new failures, and update entries whose failure changed; keep comments", expectations::update);
  commands["prune"] =
      add_editor(*command, program, "prune", "Remove entries whose cases pass; keep comments", expectations::prune);
  return [command, commands] { return commands.at(command->get_subcommands().front()->get_name()).run(); };
}

}  // namespace plumbline::cli
