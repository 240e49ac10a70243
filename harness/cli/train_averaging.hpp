// harness/cli/train_averaging.hpp: `plumbline train --averaging`: ranks that agree on parameters now and then, in place
// of gradients in every step, beside one device that sees the same batches.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/launch/driver.hpp"
#include "reference/training/averaging.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::cli {

class AveragingOptions {
 public:
  /// Adds --averaging, --localsgd-frequency and so on.
  void add_to(CLI::App& app, CLI::Option* spec);
  [[nodiscard]] const std::vector<CLI::Option*>& own() const { return own_; }
  [[nodiscard]] bool given() const { return own_.front()->count() > 0; }
  /// One for each algorithm that was named, with or without checkpoints. Throws InvalidArgument with the option: names
  /// that do not exist, options of algorithms that were not named, settings that make no run of that many ranks; and
  /// for options without --averaging.
  [[nodiscard]] std::vector<training::AveragingSettings> settings(int world, bool saves) const;
  /// Throws InvalidArgument where any is given without --averaging.
  void require_none() const;
  [[nodiscard]] int seeds() const { return seeds_; }
  [[nodiscard]] double margin() const { return margin_; }
  [[nodiscard]] const std::string& picture() const { return picture_; }
  [[nodiscard]] int checkpoint_steps() const { return checkpoint_steps_; }
  [[nodiscard]] bool checkpoint_steps_given() const;

 private:
  struct Option {
    CLI::Option* option;
    std::vector<std::string> of;  // algorithms, or "slowmo over <base>"; empty: of all
  };
  CLI::Option* own(CLI::Option* option, std::vector<std::string> of = {});
  [[nodiscard]] std::vector<std::string> algorithms() const;
  void require_used(const std::vector<std::string>& algorithms) const;

  std::string names_, memory_ = "efficient", picture_;
  training::AveragingSettings settings_;
  std::optional<double> momentum_, learning_rate_;
  bool push_pull_ = false;
  int seeds_ = 1, checkpoint_steps_ = 10;
  double margin_ = 2;  // percent
  std::vector<CLI::Option*> own_;
  std::vector<Option> options_;
};

/// What one algorithm did with one seed, or one device.
struct AveragingCurve {
  std::vector<double> losses;         // of each step
  std::vector<double> largest, mean;  // distances of the ranks to their mean
  double accuracy = 0;                // of the mean of the ranks' parameters
  std::vector<double> accuracies;     // of each rank's
  std::int64_t slow_bytes = 0;        // slow buffers of rank 0
};
struct AveragingSeries {
  std::string name;
  std::vector<AveragingCurve> seeds;
};

/// Loss and largest distance by step, mean over the seeds.
[[nodiscard]] std::string averaging_svg(const std::vector<AveragingSeries>& series, const std::string& title);

/// Where and how often runs are saved.
struct AveragingCheckpoints {
  std::string folder;  // empty: nowhere
  int steps = 10;      // from one to the next; the last step is saved as well, where no gossip lags
  bool resume = false;
};

struct AveragingRun {
  training::DigitsRun digits;
  std::vector<training::AveragingSettings> settings;
  int seeds = 1;
  double margin = 2;  // percent of the held-out digits
  bool judge = true;
  AveragingCheckpoints checkpoints;
  std::string picture;  // a file; empty: averaging.svg in `out`
  std::string out;
  record::Header header;  // without seed and world
};
/// Trains, tells how it goes, and leaves a record. Returns the exit status.
int run_averaging(const AveragingRun& run, const launch::Options& driver, double limit_seconds);

}  // namespace plumbline::cli
