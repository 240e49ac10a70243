// harness/cli/train_program.hpp: `plumbline train` for a model that is trained by names, epoch by epoch, with a test.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/launch/driver.hpp"
#include "reference/training/trainer/pipeline_run.hpp"

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
  /// Whether --config is given.
  [[nodiscard]] bool configured() const { return !config_.empty(); }
  /// The file, then the options over it. Throws what reading the file throws, and InvalidArgument, with the options that were
  /// given, for what makes no run.
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

  training::PipelineRun run_{.data = ""};
  std::string config_, data_folder_, checkpoints_;
  std::vector<CLI::Option*> own_;
  std::vector<Shared> shared_;
};

/// Trains, tells how it goes, and leaves a record in `out`. Returns the exit status.
int run_program(const training::PipelineRun& run, const launch::Options& driver, const std::string& out,
                double limit_seconds);

}  // namespace plumbline::cli
