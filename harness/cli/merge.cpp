// `plumbline merge`: the records of all shards of a run become the record of the whole.
#include "harness/record/merge.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/cli/console.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/record/environment.hpp"
#include "harness/record/summary.hpp"

namespace plumbline::cli {
namespace {

struct MergeOptions {
  std::vector<std::string> shards;
  std::string out;
};

std::filesystem::path file_of(const std::filesystem::path& given) {
  return std::filesystem::is_directory(given) ? given / "run.jsonl" : given;
}

int merge_shards(const MergeOptions& options, const Program& program) {
  std::vector<record::NamedRun> shards;
  for (const std::string& given : options.shards)
    shards.push_back({file_of(given).string(), record::read(file_of(given))});
  const record::Run whole = record::merge(shards);
  record::Writer writer(options.out, whole.header);
  writer.subject(whole.subject);
  for (const auto* results : {&whole.results, &whole.controls})
    for (const record::Result& result : *results) writer.write(result);
  const auto run = close_record(writer, true, whole.seconds);
  Console(program.suite(), whole.results.size(), ::isatty(STDOUT_FILENO) == 1).summary(*run, options.out);
  write_outputs(options.out, *run);
  return record::exit_status(*run);
}

int run_merge(const MergeOptions& options, const Program& program) {
  const record::Header header{
      .command = "check", .subject = "merged shards", .suite_version = PLUMBLINE_VERSION, .started = record::utc_now()};
  return with_unfinished_reports(options.out, header, [&] { return merge_shards(options, program); });
}

}  // namespace

Command add_merge(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("merge", "Put the records of all shards of a check together");
  auto options = std::make_shared<MergeOptions>();
  command->add_option("shards", options->shards, "Records, or folders that hold one")->required()->type_name("RUN");
  command->add_option("--out", options->out, "Folder of the whole record")->required()->type_name("DIR");
  command->footer("Example: plumbline merge shard1 shard2 shard3 --out whole");
  return [options, &program] { return run_merge(*options, program); };
}

}  // namespace plumbline::cli
