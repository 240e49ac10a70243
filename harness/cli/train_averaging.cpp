#include "harness/cli/train_averaging.hpp"

#include <algorithm>
#include <iostream>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/option_words.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/cli/training_task.hpp"
#include "harness/record/environment.hpp"
#include "harness/record/file.hpp"
#include "harness/run/counted.hpp"
#include "harness/run/findings.hpp"
#include "harness/run/summary.hpp"
#include "harness/subject/averaging_json.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/checkpoint.hpp"
#include "reference/training/training.hpp"

namespace plumbline::cli {

using nlohmann::json;
using training::AveragingSettings;

CLI::Option* AveragingOptions::own(CLI::Option* option, std::vector<std::string> of) {
  own_.push_back(option);
  options_.push_back({option, std::move(of)});
  return option;
}

void AveragingOptions::add_to(CLI::App& app, CLI::Option* spec) {
  own(app.add_option(
             "--averaging", names_,
             fmt::format("average parameters in place of gradients: {}, several with commas between them, or all",
                         fmt::join(training::kAveragings, ", ")))
          ->type_name("NAMES")
          ->excludes(spec));
  own(app.add_option(
             "--averaging-base", settings_.base,
             fmt::format("algorithm between the slow steps of slowmo: {}", fmt::join(training::kAveragingBases, ", ")))
          ->capture_default_str(),
      {"slowmo"});
  own(app.add_option("--localsgd-frequency", settings_.local_sgd_frequency, "steps between two averages")
          ->check(at_least(1))
          ->capture_default_str(),
      {"localsgd", "post-localsgd", "slowmo over localsgd"});
  own(app.add_option("--localsgd-begin", settings_.local_sgd_begin,
                     "post-localsgd: number of first steps that average every time")
          ->check(at_least(1))
          ->capture_default_str(),
      {"post-localsgd"});
  own(app.add_option("--slowmo-frequency", settings_.slow_frequency, "steps between two slow steps")
          ->check(at_least(1))
          ->capture_default_str(),
      {"slowmo", "diloco"});
  own(app.add_option("--slowmo-momentum", momentum_, "slow momentum (default 0.5 for slowmo, 0.9 for diloco)"),
      {"slowmo", "diloco"});
  own(app.add_option("--slowmo-lr", learning_rate_, "slow learning rate (default 1 for slowmo, 0.7 for diloco)"),
      {"slowmo", "diloco"});
  own(app.add_option("--slowmo-memory", memory_,
                     "keep slow momentum buffers in shards or on every rank: efficient, whole")
          ->capture_default_str(),
      {"slowmo", "diloco"});
  own(app.add_option("--slowmo-shards", settings_.shards, "most ranks that hold a shard")
          ->check(at_least(1))
          ->capture_default_str(),
      {"slowmo", "diloco"});
  own(app.add_option("--gossip-graph", settings_.graph, "gossip graph; plumbline gossip --list prints all")
          ->capture_default_str(),
      {"sgp", "slowmo over sgp"});
  own(app.add_option("--gossip-peers", settings_.peers, "peers per round; 0 is the graph's own number")
          ->check(at_least(0))
          ->capture_default_str(),
      {"sgp", "slowmo over sgp"});
  own(app.add_flag("--push-pull", push_pull_,
                   "let the two sides of a bipartite graph send alternately; values and weights stay the same"),
      {"sgp", "slowmo over sgp"});
  own(app.add_flag("--overlap", settings_.overlap,
                   "gossip on a thread during forward and backward; gradients are then computed without the peers' "
                   "latest messages, and convergence of slow momentum is not proven"),
      {"sgp", "slowmo over sgp"});
  own(app.add_option("--overlap-lag", settings_.overlap_lag,
                     "steps that an overlapped exchange may take; with 0 it is added right after the backward pass. A "
                     "checkpoint waits for the exchange, so its position is part of the result")
          ->check(at_least(0))
          ->capture_default_str(),
      {"sgp", "slowmo over sgp"});
  own(app.add_flag("--average-at-slow-steps", settings_.average_at_slow_steps,
                   "average all ranks at slow steps over sgp, even with whole slow momentum buffers"),
      {"slowmo over sgp"});
  own(app.add_option("--ranks-per-node", settings_.ranks_per_node, "ranks that act as one node")
          ->check(at_least(1))
          ->capture_default_str());
  own(app.add_option("--lr-decay", settings_.rate_decay, "factor of the learning rate from one step to the next")
          ->capture_default_str());
  own(app.add_option("--seeds", seeds_, "runs of each algorithm, from --seed on")
          ->check(at_least(1, 1000))
          ->capture_default_str());
  own(app.add_option("--margin", margin_,
                     "accuracy on held-out digits that an algorithm may lose against one device, in percentage points")
          ->capture_default_str());
  own(app.add_option("--checkpoint-steps", checkpoint_steps_,
                     "steps between two checkpoints; without --overlap-lag the last step has one, too")
          ->check(at_least(1))
          ->capture_default_str());
  own(app.add_option("--picture", picture_, "picture of loss and distance by step (default averaging.svg in --out)")
          ->type_name("FILE"));
}

bool AveragingOptions::checkpoint_steps_given() const {
  return std::ranges::any_of(own_, [](const CLI::Option* option) {
    return option->get_name() == "--checkpoint-steps" && option->count() > 0;
  });
}

void AveragingOptions::require_none() const {
  for (const CLI::Option* option : own_)
    if (option->count() > 0) throw InvalidArgument(fmt::format("{} needs --averaging", option->get_name()));
}

std::vector<std::string> AveragingOptions::algorithms() const {
  if (names_ == "all") return {training::kAveragings.begin(), training::kAveragings.end()};
  std::vector<std::string> names = split(names_);
  for (const std::string& name : names) {
    if (std::ranges::find(training::kAveragings, name) == training::kAveragings.end())
      throw InvalidArgument(
          fmt::format("--averaging '{}'; it must be {}, or all", name, fmt::join(training::kAveragings, ", ")));
    if (std::ranges::count(names, name) > 1)
      throw InvalidArgument(fmt::format("--averaging names '{}' more than once", name));
  }
  return names;
}

void AveragingOptions::require_used(const std::vector<std::string>& algorithms) const {
  std::vector<std::string> named = algorithms;
  if (std::ranges::find(algorithms, "slowmo") != algorithms.end())
    named.push_back(fmt::format("slowmo over {}", settings_.base));
  for (const Option& one : options_) {
    const bool is_used = one.of.empty() || std::ranges::any_of(named, [&](const std::string& algorithm) {
                           return std::ranges::find(one.of, algorithm) != one.of.end();
                         });
    if (one.option->count() == 0 || is_used) continue;
    throw InvalidArgument(fmt::format(
        "{} has no effect on --averaging {}{}; it is for {}", one.option->get_name(), names_,
        named.size() > algorithms.size() ? fmt::format(" ({})", named.back()) : "", fmt::join(one.of, ", ")));
  }
  const auto given = [&](const char* name) {
    return std::ranges::any_of(own_,
                               [&](const CLI::Option* one) { return one->get_name() == name && one->count() > 0; });
  };
  if (given("--slowmo-shards") && memory_ == "whole")
    throw InvalidArgument("--slowmo-shards has no effect on --slowmo-memory whole, which has no shards");
}

std::vector<AveragingSettings> AveragingOptions::settings(int world, bool saves) const {
  const std::vector<std::string> names = algorithms();
  if (std::ranges::find(training::kAveragingBases, settings_.base) == training::kAveragingBases.end())
    throw InvalidArgument(fmt::format("--averaging-base '{}'; it must be {}", settings_.base,
                                      fmt::join(training::kAveragingBases, ", ")));
  require_used(names);
  if (memory_ != "efficient" && memory_ != "whole")
    throw InvalidArgument(fmt::format("--slowmo-memory '{}'; it must be efficient or whole", memory_));
  if (!(margin_ >= 0 && margin_ <= 100))
    throw InvalidArgument(fmt::format("--margin {}; it must be 0 to 100 percent", margin_));
  std::vector<AveragingSettings> list;
  for (const std::string& name : names) {
    AveragingSettings settings = settings_;
    settings.algorithm = name;
    settings.memory_efficient = memory_ == "efficient";
    settings.push_sum = !push_pull_;
    (name == "diloco" ? settings.outer_momentum : settings.slow_momentum) =
        momentum_.value_or(name == "diloco" ? settings.outer_momentum : settings.slow_momentum);
    (name == "diloco" ? settings.outer_learning_rate : settings.slow_learning_rate) =
        learning_rate_.value_or(name == "diloco" ? settings.outer_learning_rate : settings.slow_learning_rate);
    try {
      training::require_possible(settings, world);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("--{}", error.what()));
    }
    if (saves && training::lags(settings)) settings.checkpoint_steps = checkpoint_steps_;
    list.push_back(settings);
  }
  return list;
}

namespace {

double mean_of_numbers(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::vector<double> accuracies_of(const AveragingSeries& series) {
  std::vector<double> all;
  for (const AveragingCurve& curve : series.seeds) all.push_back(curve.accuracy);
  return all;
}

class AveragingCommand {
 public:
  AveragingCommand(const AveragingRun& run, const launch::Options& driver) : run_(run), driver_(driver), out_(run.out) {
    if (const std::string why = subject::why_not_here("training", training::kTrainingFactory); !why.empty())
      throw subject::NotAvailable("train needs LibTorch: " + why);
    require_ranks("--data-parallel", run.digits.data);
    require_served(run.digits.device, driver.group.subject);
  }

  int run(double limit_seconds) {
    limit_seconds_ = limit_seconds;
    record::Header header = run_.header;
    header.facts["world"] = std::to_string(run_.digits.data);
    header.seed = run_.digits.seed;
    writer_.emplace(out_, header);
    prepare();
    fmt::print("{}: {} with {} on the digits, {} of {} on {} on {}, {}{}\n", header.subject, run_.digits.model,
               run_.digits.optimizer, run::counted(run_.digits.steps, "step"),
               run::counted(run_.digits.global_batch, "row"), run::counted(run_.digits.data, "rank"),
               run_.digits.device, run::counted(run_.seeds, "seed"),
               run_.digits.dtype == "float32" ? "" : fmt::format(", {} with fp32 master weights", run_.digits.dtype));
    for (const std::string& warning : warnings_) std::cerr << "plumbline: train: warning: " << warning << '\n';
    std::cout.flush();
    const auto begun = std::chrono::steady_clock::now();
    const bool done = train_alone() && train_averaging() && (!run_.judge || judge());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return finish(done, seconds);
  }

 private:
  // A specification for each seed, a folder for each run.
  void prepare() {
    alone_.name = "one device";
    for (const AveragingSettings& settings : run_.settings) {
      AveragingSeries& one = series_.emplace_back();
      one.name = settings.algorithm == "slowmo" && settings.base != "localsgd"
                     ? fmt::format("slowmo over {}", settings.base)
                     : settings.algorithm;
      for (const slowmo::Warning& warning :
           slowmo::settle(training::options_of(settings, run_.digits.data), 0, run_.digits.data).warnings)
        // That nothing is between its outer steps is what DiLoCo is.
        if (settings.algorithm != "diloco" || warning.what != slowmo::Warning::What::no_base)
          warnings_.push_back(fmt::format("{}: {}", one.name, warning.message));
    }
    for (int seed = 0; seed < run_.seeds; ++seed) {
      training::DigitsRun digits = run_.digits;
      digits.seed += static_cast<std::uint64_t>(seed);
      const std::filesystem::path folder =
          std::filesystem::absolute(std::filesystem::path(out_) / "run" / fmt::format("seed{}", digits.seed));
      const job::RunSpec spec =
          in_options_of_train([&] { return training::write_digits_run(digits, training::digits(), folder); });
      training::require_averageable(spec);
      for (const AveragingSettings& settings : run_.settings) {
        require_together(spec, settings);
        require_checkpoints(spec, settings);
        if (!run_.checkpoints.folder.empty())
          require_writable(checkpoints_of(spec.seed, settings).at("folder").get<std::string>());
      }
      alone_.seeds.emplace_back();
      alone_runs_.push_back(
          {{"spec", (folder / "spec.toml").string()}, {"rate_decay", run_.settings.front().rate_decay}});
      for (std::size_t i = 0; i < run_.settings.size(); ++i) {
        series_[i].seeds.emplace_back();
        runs_.push_back({{"spec", (folder / "spec.toml").string()},
                         {"settings", run_.settings[i]},
                         {"world", digits.data},
                         {"checkpoints", checkpoints_of(digits.seed, run_.settings[i])},
                         {"record", run_.judge ? (folder / fmt::format("record{}", i)).string() : ""}});
      }
    }
  }
  // The ranks would say so when they have trained.
  static void require_writable(const std::filesystem::path& folder) {
    if (const std::error_code why = training::why_no_files(folder))
      throw RuntimeFailure(fmt::format("nothing can be written into '{}': {}", folder.string(), why.message()));
  }
  static void require_together(const job::RunSpec& spec, const AveragingSettings& settings) {
    try {
      training::require_together(spec, settings);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("--{}", error.what()));
    }
  }
  // The ranks would say the same, as a failure of theirs.
  void require_checkpoints(const job::RunSpec& spec, const AveragingSettings& settings) const {
    if (run_.checkpoints.folder.empty()) return;
    const std::string folder = checkpoints_of(spec.seed, settings).at("folder");
    const std::vector<std::int64_t> begun = training::checkpoint_steps(folder, 1);  // by however many ranks
    if (begun.empty()) return;
    if (!run_.checkpoints.resume)
      throw InvalidArgument(
          fmt::format("--checkpoints: '{}' has some of a run; --resume it, or give another folder", folder));
    (void)training::read_checkpoint(training::checkpoint_file(folder, begun.back(), 0),
                                    training::configuration_of(spec, settings), 0, run_.digits.data);
    const std::vector<std::int64_t> steps = training::checkpoint_steps(folder, run_.digits.data);
    if (!steps.empty() && steps.back() > spec.run.steps)
      throw InvalidArgument(
          fmt::format("--steps {}; '{}' has a checkpoint after step {}", spec.run.steps, folder, steps.back()));
  }
  // Workers may stand elsewhere.
  [[nodiscard]] json checkpoints_of(std::uint64_t seed, const AveragingSettings& settings) const {
    const AveragingCheckpoints& all = run_.checkpoints;
    if (all.folder.empty()) return json::object({{"folder", std::string()}});
    const auto folder = std::filesystem::absolute(all.folder) / fmt::format("seed{}", seed) / settings.algorithm;
    return {{"folder", folder.string()}, {"steps", all.steps}, {"resume", all.resume}};
  }
  // Of the runs, one seed's after the other.
  AveragingCurve& curve_of(std::size_t run) { return series_[run % series_.size()].seeds[run / series_.size()]; }

  bool run_task(const char* name, int world, json arguments, const launch::Options& driver,
                std::function<void(const json&)> output) {
    const TrainingTaskEnd end = cli::run_task({.name = name,
                                               .world = world,
                                               .device = run_.digits.device,
                                               .arguments = std::move(arguments),
                                               .limit_seconds = limit_seconds_,
                                               .described = [this](const json& said) { writer_->subject(said); },
                                               .output = std::move(output)},
                                              driver);
    interrupted_ = interrupted_ || !end.whole;
    writer_->write(end.result);
    say_how_it_ended(name, end);
    refused_ = refused_ || end.result.verdict == record::Verdict::refuse;
    return end.passed();
  }

  [[nodiscard]] launch::Options local_driver() const {
    launch::Options driver = driver_;
    driver.group.subject = {.backend = "local"};
    driver.group.launcher = launch::Launcher::fork;
    return driver;
  }

  bool train_alone() {
    return run_task("alone", 1, {{"runs", alone_runs_}}, local_driver(), [this](const json& value) {
      AveragingCurve& curve = alone_.seeds.at(value.at("run"));
      if (value.contains("accuracy"))
        curve.accuracy = value.at("accuracy");
      else
        curve.losses.push_back(record::number_from(value.at("loss")));
    });
  }

  // On a terminal alone: a line that the next one replaces.
  void progress(const char* what, std::size_t run, int step) const {
    if (!terminal_) return;
    fmt::print("\r\033[K{} {}, seed {}: step {} of {}", what, series_[run % series_.size()].name,
               run_.digits.seed + run / series_.size(), step + 1, run_.digits.steps);
    std::cout.flush();
  }
  void end_progress() const {
    if (terminal_) fmt::print("\r\033[K");
  }

  bool train_averaging() {
    const bool passed = run_task("average", run_.digits.data, {{"runs", runs_}}, driver_, [this](const json& value) {
      const std::size_t run = value.at("run");
      AveragingCurve& curve = curve_of(run);
      if (value.contains("resumed")) {
        end_progress();
        fmt::print("{}, seed {}: continues from step {}\n", series_[run % series_.size()].name,
                   run_.digits.seed + run / series_.size(), value.at("resumed").get<int>());
        return;
      }
      if (value.contains("accuracy")) {
        curve.accuracy = value.at("accuracy");
        curve.accuracies = value.at("accuracies").get<std::vector<double>>();
        curve.slow_bytes = value.at("slow_bytes");
        return;
      }
      curve.losses.push_back(record::number_from(value.at("loss")));
      curve.largest.push_back(record::number_from(value.at("largest")));
      curve.mean.push_back(record::number_from(value.at("mean")));
      write_step(curve);
      progress("training", run, value.at("step"));
    });
    end_progress();
    if (passed) tell();
    return passed;
  }
  // A record has one series of steps.
  void write_step(const AveragingCurve& curve) {
    if (runs_.size() > 1) return;
    writer_->write(record::Step{
        .step = static_cast<int>(curve.losses.size()) - 1,
        .loss = curve.losses.back(),
        .values = {{"consensus_distance", curve.largest.back()}, {"consensus_distance_mean", curve.mean.back()}}});
  }

  void tell() {
    fmt::print("{:<17} {:>22} {:>11} {:>11} {:>25} {:>13}\n", "", "accuracy, % (range)", "worst rank", "last loss",
               "distance: most, mean, last", "slow bytes");
    tell(alone_);
    for (const AveragingSeries& one : series_) tell(one);
  }
  static void tell(const AveragingSeries& series) {
    const std::vector<double> accuracies = accuracies_of(series);
    double worst = 1, largest = 0;
    std::vector<double> losses, means, last;
    for (const AveragingCurve& curve : series.seeds) {
      losses.push_back(curve.losses.back());
      if (curve.largest.empty()) continue;
      worst = std::min(worst, std::ranges::min(curve.accuracies));
      largest = std::max(largest, std::ranges::max(curve.largest));
      means.push_back(mean_of_numbers(curve.mean));
      last.push_back(curve.largest.back());
    }
    fmt::print("{:<17} {:>22} {:>11} {:>11.4f}", series.name,
               fmt::format("{:.2f} ({:.2f}-{:.2f})", 100 * mean_of_numbers(accuracies),
                           100 * std::ranges::min(accuracies), 100 * std::ranges::max(accuracies)),
               last.empty() ? "" : fmt::format("{:.2f}", 100 * worst), mean_of_numbers(losses));
    if (last.empty())
      fmt::print("\n");
    else
      fmt::print("{:>26} {:>13}\n",
                 fmt::format("{:.3g}, {:.3g}, {:.3g}", largest, mean_of_numbers(means), mean_of_numbers(last)),
                 series.seeds.front().slow_bytes);
  }

  bool judge() {
    std::vector<record::Failure> findings;
    std::set<std::string> judged;
    const bool rank_order = driver_.group.subject.backend == "local";
    const bool done = run_task(
        "judge_averaging", 1, {{"runs", runs_}, {"rank_order", rank_order}}, local_driver(), [&](const json& value) {
          if (value.contains("judged")) return judged.merge(value.at("judged").get<std::set<std::string>>());
          const std::size_t run = value.at("run");
          if (value.contains("step")) return progress("judging", run, value.at("step"));
          auto& finding = findings.emplace_back(value.at("finding").get<record::Failure>());
          finding.message = fmt::format("{}, seed {}: {}", series_[run % series_.size()].name,
                                        run_.digits.seed + run / series_.size(), finding.message);
        });
    end_progress();
    const auto results = run::results_of_judging("train.averaging", judged, findings);
    std::size_t passed = 0;
    for (const record::Result& result : results) {
      if (result.verdict == record::Verdict::fail) fmt::print("FAIL  {}\n", result.reason);
      passed += result.verdict == record::Verdict::pass ? 1 : 0;
      writer_->write(result);
    }
    if (done)
      fmt::print("{}: {} what the papers say (requirements: {} of {} pass)\n",
                 passed == results.size() ? "OK" : "NOT OK",
                 passed == results.size() ? "every step is" : "not every step is", passed, results.size());
    return done;
  }

  // Whether each algorithm is within the margin of one device.
  void judge_accuracy() {
    const double alone = mean_of_numbers(accuracies_of(alone_));
    for (const AveragingSeries& one : series_) {
      const double lost = 100 * (alone - mean_of_numbers(accuracies_of(one)));
      record::Result result{.check = "train.accuracy",
                            .case_id = fmt::format("train.accuracy[{}]", one.name),
                            .verdict = lost <= run_.margin ? record::Verdict::pass : record::Verdict::fail};
      if (lost > run_.margin) {
        result.reason =
            fmt::format("{}: accuracy {:.2f} points below one device; the margin is {:g}", one.name, lost, run_.margin);
        fmt::print("FAIL  {}\n", result.reason);
      }
      writer_->write(result);
    }
  }

  void write_curves() const {
    const std::string title = fmt::format("{} on the digits, {} on {}, mean of {}", run_.digits.model,
                                          run::counted(run_.digits.steps, "step"),
                                          run::counted(run_.digits.data, "rank"), run::counted(run_.seeds, "seed"));
    std::vector<AveragingSeries> all{alone_};
    all.insert(all.end(), series_.begin(), series_.end());
    const auto picture = run_.picture.empty() ? std::filesystem::path(out_) / "averaging.svg"
                                              : output_file(run_.picture, "averaging.svg", {});
    record::write_file(picture, averaging_svg(all, title));
    json list = json::array();
    for (const AveragingSeries& one : all)
      for (std::size_t seed = 0; seed < one.seeds.size(); ++seed) {
        const AveragingCurve& curve = one.seeds[seed];
        list.push_back({{"algorithm", one.name},
                        {"seed", run_.digits.seed + seed},
                        {"accuracy", curve.accuracy},
                        {"rank_accuracies", curve.accuracies},
                        {"loss", curve.losses},
                        {"distance_largest", curve.largest},
                        {"distance_mean", curve.mean},
                        {"slow_bytes_rank0", curve.slow_bytes}});
      }
    record::write_file(std::filesystem::path(out_) / "averaging.json", list.dump() + '\n');
    fmt::print("curves: {}, {}/averaging.json\n", picture.string(), out_);
  }

  int finish(bool done, double seconds) {
    if (done) {
      judge_accuracy();
      write_curves();
    }
    const auto read = close_record(*writer_, !interrupted_, seconds).value();
    write_outputs(out_, read);
    tell_record(out_, seconds);
    if (refused_) return 2;
    return run::exit_status(read, interrupted_);
  }

  const AveragingRun& run_;
  const launch::Options& driver_;
  const std::string out_;
  const bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::optional<record::Writer> writer_;
  AveragingSeries alone_;
  std::vector<AveragingSeries> series_;
  std::vector<std::string> warnings_;
  json alone_runs_ = json::array(), runs_ = json::array();
  double limit_seconds_ = 0;
  bool interrupted_ = false, refused_ = false;
};

}  // namespace

int run_averaging(const AveragingRun& run, const launch::Options& driver, double limit_seconds) {
  return AveragingCommand(run, driver).run(limit_seconds);
}

}  // namespace plumbline::cli
