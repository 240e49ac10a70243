// `plumbline merge`: the records of all shards of a run become the record of the whole.
#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/cli/console.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/record/environment.hpp"
#include "harness/run/shards.hpp"
#include "harness/run/summary.hpp"

namespace plumbline::cli {
namespace {

struct MergeOptions {
  std::vector<std::string> shards;
  std::string out;
};

int merge_shards(const MergeOptions& options, const Program& program) {
  std::vector<run::NamedRun> shards;
  for (const std::filesystem::path given : options.shards) {
    record::Run run = read_record(given);
    shards.push_back({record_file(given).string(), std::move(run)});
  }
  const record::Run whole = run::merge(shards);
  record::Writer writer(options.out, whole.header);
  writer.subject(whole.subject);
  for (const auto* results : {&whole.results, &whole.controls})
    for (const record::Result& result : *results) writer.write(result);
  const auto run = close_record(writer, true, whole.seconds);
  Console(program.suite(), whole.results.size(), ::isatty(STDOUT_FILENO) == 1).summary(*run, options.out);
  write_outputs(options.out, *run);
  return run::exit_status(*run);
}

record::Header unmerged_header() {
  return {
      .command = "check", .subject = "merged shards", .suite_version = PLUMBLINE_VERSION, .started = record::utc_now()};
}

// The shard's record that the whole one would replace; empty for none.
std::string replaced_record(const std::vector<std::string>& shards, const std::string& out) {
  std::error_code error;
  for (const std::string& shard : shards)
    if (std::filesystem::equivalent(record_file(shard), std::filesystem::path(out) / "run.jsonl", error))
      return record_file(shard).string();
  return {};
}

int run_merge(const MergeOptions& options, const Program& program) {
  if (const std::string record = replaced_record(options.shards, options.out); !record.empty())
    throw InvalidArgument(
        fmt::format("--out '{}': it would replace '{}', which merge reads; give another folder", options.out, record));
  OutputFolder out = OutputFolder::at(options.out);
  return with_unfinished_reports(out, unmerged_header(), [&] { return merge_shards(options, program); });
}

}  // namespace

Command add_merge(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("merge", "Merge the records of all shards of a check");
  auto options = std::make_shared<MergeOptions>();
  CLI::Option* const shards =
      command->add_option("shards", options->shards, "records (run.jsonl), or the folders that hold them");
  shards->required()->type_name("RUN");
  CLI::Option* const out = command->add_option("--out", options->out, "folder of the merged record");
  out->required()->type_name("DIR");
  command->footer(
      "Example: plumbline check --backend local --shard 1/2 --out shard1\n"
      "         plumbline check --backend local --shard 2/2 --out shard2\n"
      "         plumbline merge shard1 shard2 --out whole\n"
      "Exit status: that of a check that ran all cases itself.");
  return {[options, &program] { return run_merge(*options, program); },
          [shards, out](const CommandLine& line, const std::string& why) {
            // As they were given: where the line is refused, the options need not have them.
            const bool is_apart = std::ranges::all_of(out->results(), [&](const std::string& one) {
              return replaced_record(shards->results(), one).empty();
            });
            if (is_apart) refuse_in_reports(line, unmerged_header(), why);
          }};
}

}  // namespace plumbline::cli
