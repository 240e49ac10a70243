// `plumbline expectations`: looks after the file in which the owner of a subject says what it does wrong.
#include "harness/expectations/expectations.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/expectations/edit.hpp"
#include "harness/record/file.hpp"
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
      fmt::print("flake: {} failed in {} of {} tries, in {} records\n", place, rate.failures, rate.tries, rate.records);
  }
}

int check(const CheckFile& options, const Program& program) {
  const Expectations book = Expectations::read(options.file, program.suite(), expectations::today());
  const std::vector<std::string> expired = book.expired();
  for (const std::string& line : expired) fmt::print("expired: {}\n", line);
  for (const std::string& line : book.soon_expired()) fmt::print("soon: {}\n", line);
  if (!options.records.empty()) print_flakes(book, records_in(options.records));
  fmt::print("{}: {} entries in {} file{}, {} expired\n", options.file, book.entries().size(), book.files().size(),
             book.files().size() == 1 ? "" : "s", expired.size());
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
  CLI::App* command = app.add_subcommand("check", "Say whether a file is valid, and what is expired or soon will be");
  auto options = std::make_shared<CheckFile>();
  command->add_option("FILE", options->file, "Expectations, as harness/expectations/README.md describes them")
      ->required();
  command->add_option("--records", options->records, "Folders of records: how often did the flakes fail in them?")
      ->type_name("DIR");
  command->footer(
      "Example: plumbline expectations check acme.toml --records nightly\n"
      "Exit status: 0 valid, 2 not valid, or with entries that are expired.");
  return [options, &program] { return check(*options, program); };
}

Command add_editor(CLI::App& app, const Program& program, const std::string& name, const std::string& what,
                   decltype(expectations::update)& editor) {
  CLI::App* command = app.add_subcommand(name, what);
  auto options = std::make_shared<EditFile>();
  command->add_option("RECORD", options->record, "The run.jsonl of a run of plumbline check")->required();
  command->add_option("--file", options->file, "The expectations")->required();
  CLI::Option* const out =
      command->add_option("--out", options->out, "Write there, and leave --file as it is")->type_name("FILE");
  command->add_flag("--dry-run", options->dry_run, "Only say what would change")->excludes(out);
  command->footer(
      fmt::format("Example: plumbline expectations {} results/latest/check-mpi/run.jsonl --file acme.toml\n"
                  "Exit status: 0 done, 1 with something left that a person must decide, 2 usage.",
                  name));
  return [options, &program, &editor] { return edit(*options, program, editor); };
}

}  // namespace

Command add_expectations(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("expectations", "Look after the file of what a subject is known to do wrong");
  command->require_subcommand(1);
  command->footer("Example: plumbline expectations check acme.toml");
  std::map<std::string, Command> commands;
  commands["check"] = add_check_file(*command, program);
  commands["update"] =
      add_editor(*command, program, "update",
                 "Add what fails, and change what fails otherwise than expected; comments stay", expectations::update);
  commands["prune"] =
      add_editor(*command, program, "prune", "Take out what passes; comments stay", expectations::prune);
  return [command, commands] { return commands.at(command->get_subcommands().front()->get_name()).run(); };
}

}  // namespace plumbline::cli
