// harness/cli/train_program.hpp: `plumbline train` for a model that is trained by names, epoch by epoch, with a test.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/launch/driver.hpp"
#include "harness/trainer/pipeline_run.hpp"

namespace plumbline::cli {

/// Its options, beside those that it shares with runs on the digits.
class ProgramOptions {
 public:
  /// Adds --config, --data, --epochs, --checkpoints and so on.
  void add_to(CLI::App& app);
  /// An option of another kind of run that says something here, too.
  void share(CLI::Option* option, std::function<void(training::PipelineRun&)> take) {
    shared_.push_back({option, std::move(take)});
  }
  [[nodiscard]] const std::vector<CLI::Option*>& own() const { return own_; }
  /// That the run is compared with a single device.
  void check() { check_ = true; }
  /// Where the timeline goes; empty: nowhere.
  [[nodiscard]] const std::string& trace() const { return trace_; }
  /// --checkpoints and --resume, which other runs by steps may have, too.
  [[nodiscard]] const std::string& checkpoints() const { return checkpoints_; }
  [[nodiscard]] bool resume() const { return run_.resume; }
  /// Whether --config is given.
  [[nodiscard]] bool configured() const { return !config_.empty(); }
  /// The file, then the options over it. Throws what reading the file throws, and InvalidArgument, with the options
  /// that were given, for what makes no run.
  [[nodiscard]] training::PipelineRun run() const;

 private:
  struct Shared {
    CLI::Option* option;
    std::function<void(training::PipelineRun&)> take;
  };
  CLI::Option* own(CLI::Option* option) {
    own_.push_back(option);
    return option;
  }
  [[nodiscard]] std::string given() const;
  void take_data(training::PipelineRun& run) const;

  training::PipelineRun run_{.data = ""};
  std::string config_, data_, checkpoints_, trace_;
  bool check_ = false;
  std::int64_t check_updates_ = 0;
  std::vector<CLI::Option*> own_;
  std::vector<Shared> shared_;
};

struct ProgramOutputs {
  std::string out;        // the record's folder
  std::string trace;      // the timeline's file; empty: none
  record::Header header;  // without seed and world
};
/// Trains, tells how it goes, and leaves a record. Returns the exit status.
int run_program(const training::PipelineRun& run, const launch::Options& driver, const ProgramOutputs& outputs,
                double limit_seconds);

}  // namespace plumbline::cli
