#include "harness/cli/train_program.hpp"

#include <chrono>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/cli/outputs.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/cli/training_task.hpp"
#include "harness/record/environment.hpp"
#include "harness/record/summary.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/pipeline_run_json.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/training.hpp"

namespace plumbline::cli {

using nlohmann::json;
using record::Verdict;
namespace fs = std::filesystem;

void ProgramOptions::add_to(CLI::App& app) {
  training::TrainerSettings& settings = run_.settings;
  own(app.add_option("--config", config_, "Settings of a pipeline training, which options override")
          ->type_name("FILE"));
  own(app.add_option("--data", run_.data,
                     fmt::format("{} (default: text for the transformer, cifar10 with --data-folder, or digits)",
                                 fmt::join(training::kPipelineData, ", "))));
  own(app.add_option("--data-folder", data_folder_, "Folder of CIFAR-10's files, data_batch_1.bin and so on")
          ->type_name("DIR"));
  own(app.add_option("--most-digits", run_.most_digits, "Digits to train on, and to test on")
          ->check(at_least(1))
          ->capture_default_str());
  own(app.add_option("--text-batches", run_.text_batches, "Batches of text in an epoch")
          ->check(at_least(1))
          ->capture_default_str());
  own(app.add_option("--checkpoints", checkpoints_, "Folder of checkpoints (default: none are written)")
          ->type_name("DIR"));
  own(app.add_option("--checkpoint-epochs", run_.checkpoint_epochs, "Epochs from one checkpoint to the next")
          ->check(at_least(1))
          ->capture_default_str());
  own(app.add_flag("--resume", run_.resume, "Go on from the last complete checkpoint, where there is one"));
  const auto setting = [this](CLI::Option* option, std::function<void(training::PipelineRun&)> take) {
    share(own(option), std::move(take));
  };
  setting(app.add_option("--learning-rate", settings.learning_rate, "Adam's, after the warm-up")->capture_default_str(),
          [&settings](training::PipelineRun& run) { run.settings.learning_rate = settings.learning_rate; });
  setting(
      app.add_option("--epochs", settings.epochs, "Times through the data")->check(at_least(1))->capture_default_str(),
      [&settings](training::PipelineRun& run) {
        run.settings.epochs = settings.epochs;
        run.settings.warmup_epochs = std::min(run.settings.warmup_epochs, settings.epochs);
      });
  setting(app.add_option("--warmup-epochs", settings.warmup_epochs,
                         "Epochs in which the learning rate rises (default: 5, or all where there are fewer)")
              ->check(at_least(0)),
          [&settings](training::PipelineRun& run) { run.settings.warmup_epochs = settings.warmup_epochs; });
}

std::string ProgramOptions::given() const {
  std::vector<std::string> words;
  if (configured()) words.push_back("--config " + config_);
  for (const Shared& shared : shared_)
    if (shared.option->count() > 0)
      words.push_back(fmt::format("{} {}", shared.option->get_name(), shared.option->results().back()));
  return fmt::format("{}", fmt::join(words, " "));
}

training::PipelineRun ProgramOptions::run() const {
  training::PipelineRun run = run_;
  run.settings = configured() ? training::read_trainer_settings(config_) : training::TrainerSettings();
  for (const Shared& shared : shared_)
    if (shared.option->count() > 0) shared.take(run);
  if (run.data.empty()) run.data = run.model == "transformer" ? "text" : data_folder_.empty() ? "digits" : "cifar10";
  // Workers may stand elsewhere.
  if (!data_folder_.empty()) run.data_folder = fs::absolute(data_folder_);
  if (!checkpoints_.empty()) run.checkpoints = fs::absolute(checkpoints_);
  if (!data_folder_.empty() && run.data != "cifar10")
    throw InvalidArgument(fmt::format("--data-folder is of --data cifar10; '{}' is compiled in", run.data));
  if (run.resume && checkpoints_.empty()) throw InvalidArgument("--resume needs --checkpoints DIR, where they are");
  if (run.data == "cifar10" && data_folder_.empty())
    throw InvalidArgument("--data cifar10 needs --data-folder DIR with data_batch_1.bin and so on");
  try {
    training::require_possible(run);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", given(), error.what()));
  }
  return run;
}

namespace {

class ProgramRun {
 public:
  ProgramRun(const training::PipelineRun& run, const launch::Options& driver, const std::string& out)
      : run_(run),
        driver_(driver),
        out_(out),
        writer_(out, {.command = "train",
                      .subject = driver.group.subject.describe(),
                      .suite_version = PLUMBLINE_VERSION,
                      .seed = run.settings.seed,
                      .started = record::utc_now(),
                      .arguments = record::command_line(),
                      .environment = record::capture_environment()}) {}

  int run(double limit_seconds) {
    const training::TrainerSettings& settings = run_.settings;
    const int world = settings.pipeline * settings.data;
    fmt::print("{}: {} on {}, {} epoch{}, {} pipeline{} of {} rank{}, {}\n", driver_.group.subject.describe(),
               run_.model, run_.data, settings.epochs, settings.epochs == 1 ? "" : "s", settings.data,
               settings.data == 1 ? "" : "s", settings.pipeline, settings.pipeline == 1 ? "" : "s", run_.device);
    std::cout.flush();
    const auto begun = std::chrono::steady_clock::now();
    const TrainingTaskEnd end =
        run_task({.name = "program",
                  .world = world,
                  .arguments = run_,
                  .limit_seconds = limit_seconds,
                  .described = [this](const json& description) { writer_.subject(description); },
                  .output = [this](const json& value) { hear(value); }},
                 driver_);
    return finish(end, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }

 private:
  void hear(const json& value) {
    if (value.contains("progress")) {
      if (!terminal_) return;
      fmt::print("{}", value.at("progress").get<std::string>());
    } else if (value.contains("log")) {
      const std::string text = value.at("log");
      fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
    } else {
      epochs_.push_back(value.at("epoch").get<record::Step>());
      writer_.write(epochs_.back());
    }
    std::cout.flush();
  }

  void tell() const {
    if (epochs_.empty()) return;
    std::vector<double> losses, accuracies;
    for (const record::Step& epoch : epochs_) {
      losses.push_back(epoch.loss);
      if (const auto found = epoch.values.find("test_accuracy"); found != epoch.values.end())
        accuracies.push_back(found->second * 100);
    }
    fmt::print("loss        {:.4f} to {:.4f}  {}\n", losses.front(), losses.back(), sparkline(losses, 60));
    if (!accuracies.empty())
      fmt::print("accuracy    {:.2f} % of the test's rows; by epoch {:.2f}\n", accuracies.back(),
                 fmt::join(accuracies, " "));
  }

  int finish(const TrainingTaskEnd& end, double seconds) {
    const Verdict verdict = end.result.verdict;
    if (verdict != Verdict::pass) std::cerr << fmt::format("plumbline: train: {}\n", end.result.reason);
    // What was refused before its first epoch leaves the record that was there.
    if (verdict == Verdict::refuse && epochs_.empty()) return 2;
    writer_.write(end.result);
    tell();
    const auto read = close_record(writer_, end.whole, seconds).value();
    write_outputs(out_, read);
    fmt::print("record: {}/run.jsonl (junit.xml and metrics.prom beside it), {:.1f} s\n", out_, seconds);
    if (verdict == Verdict::refuse) return 2;
    return end.whole ? record::exit_status(read) : 3;
  }

  const training::PipelineRun& run_;
  const launch::Options& driver_;
  const std::string& out_;
  const bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  record::Writer writer_;
  std::vector<record::Step> epochs_;
};

}  // namespace

int run_program(const training::PipelineRun& run, const launch::Options& driver, const std::string& out,
                double limit_seconds) {
  if (const std::string why = subject::why_not_here("training", training::kTrainingFactory); !why.empty())
    throw subject::NotAvailable("train needs LibTorch: " + why);
  require_ranks("--pipeline", run.settings.pipeline > (1 << 20) / run.settings.data
                                  ? 1 << 20
                                  : run.settings.pipeline * run.settings.data);
  return ProgramRun(run, driver, out.empty() ? "results/latest/train" : out).run(limit_seconds);
}

}  // namespace plumbline::cli
