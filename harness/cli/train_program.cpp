#include "harness/cli/train_program.hpp"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/cli/option_words.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/schedule_view.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/cli/training_task.hpp"
#include "harness/record/environment.hpp"
#include "harness/run/summary.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/pipeline_run_json.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/training.hpp"

namespace plumbline::cli {

using nlohmann::json;
using record::Result;
using record::Verdict;
namespace fs = std::filesystem;

void ProgramOptions::add_to(CLI::App& app) {
  training::TrainerSettings& settings = run_.settings;
  own(app.add_option("--config", config_, "settings of a pipeline training; options override them")->type_name("FILE"));
  own(app.add_option(
             "--data", data_,
             "digits, text, or the folder of the binary version of CIFAR-10 (default text for gpt, else digits)")
          ->type_name("DIR"));
  own(app.add_option("--most-digits", run_.most_digits, "most digits to train on, and to test on")
          ->check(at_least(1))
          ->capture_default_str());
  own(app.add_option("--text-batches", run_.text_batches, "batches of text per epoch")
          ->check(at_least(1))
          ->capture_default_str());
  own(app.add_option("--checkpoints", checkpoints_, "folder of checkpoints (default none are written)")
          ->type_name("DIR"));
  own(app.add_option("--checkpoint-epochs", run_.checkpoint_epochs, "epochs between two checkpoints")
          ->check(at_least(1))
          ->capture_default_str());
  own(app.add_option("--check-updates", check_updates_, "number of first updates that --check compares (default all)")
          ->check(at_least(1)));
  own(app.add_option("--trace", trace_, "timeline of the last batch, for Perfetto")->type_name("FILE"));
  own(app.add_flag("--resume", run_.resume, "continue from the last complete checkpoint, if one exists"));
  own(app.add_option("--join", run_.gradients.join,
                     fmt::format("use each row once, with uneven last batches; gradients are averaged over ranks {} "
                                 "(default some rows are used twice)",
                                 fmt::join(training::kJoins, ", "))));
  own(app.add_flag("--broadcast-buffers", run_.gradients.broadcast_buffers,
                   "broadcast running statistics from data rank 0 before the last batch of each update"));
  const auto setting = [this](CLI::Option* option, std::function<void(training::PipelineRun&)> take) {
    share(own(option), std::move(take));
  };
  setting(app.add_option("--learning-rate", settings.learning_rate, "learning rate of Adam after the warm-up")
              ->capture_default_str(),
          [&settings](training::PipelineRun& run) { run.settings.learning_rate = settings.learning_rate; });
  setting(app.add_option("--epochs", settings.epochs, "number of epochs")->check(at_least(1))->capture_default_str(),
          [&settings](training::PipelineRun& run) {
            run.settings.epochs = settings.epochs;
            run.settings.warmup_epochs = std::min(run.settings.warmup_epochs, settings.epochs);
          });
  setting(app.add_option("--warmup-epochs", settings.warmup_epochs,
                         "epochs in which the learning rate rises (default 5, or all if fewer)")
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

void ProgramOptions::take_data(training::PipelineRun& run) const {
  run.data = !data_.empty() ? data_ : run.model == "gpt" ? "text" : "digits";
  if (run.data == "digits" || run.data == "text") return;
  std::error_code ignored;
  if (!fs::is_directory(data_, ignored))
    throw InvalidArgument(fmt::format(
        "--data '{}': there is no such folder; it is digits, text, or a folder with data_batch_1.bin and so on",
        data_));
  run.data_folder = fs::absolute(data_);
  run.data = "cifar10";
}

training::PipelineRun ProgramOptions::run() const {
  training::PipelineRun run = run_;
  run.settings = configured() ? training::read_trainer_settings(config_) : training::TrainerSettings();
  for (const Shared& shared : shared_)
    if (shared.option->count() > 0) shared.take(run);
  take_data(run);
  // Workers may stand elsewhere.
  if (!checkpoints_.empty()) run.checkpoints = fs::absolute(checkpoints_);
  run.trace = !trace_.empty();
  if (check_updates_ > 0 && !check_) throw InvalidArgument("--check-updates needs --check");
  if (check_) run.check = check_updates_ > 0 ? check_updates_ : std::numeric_limits<std::int64_t>::max();
  if (run.resume && checkpoints_.empty()) throw InvalidArgument("--resume needs --checkpoints DIR, where they are");
  try {
    training::require_possible(run);
  } catch (const InvalidArgument& error) {
    // With a file, the fields are what it has.
    throw InvalidArgument(configured() ? fmt::format("{}: {}", given(), error.what())
                                       : in_options_of_train(std::string(error.what())));
  }
  return run;
}

namespace {

record::Header header_of_run(const training::PipelineRun& run, record::Header header) {
  header.seed = run.settings.seed;
  header.facts["world"] = std::to_string(run.settings.pipeline * run.settings.data);
  header.facts["device"] = run.device;
  return header;
}

class ProgramRun {
 public:
  ProgramRun(const training::PipelineRun& run, const launch::Options& driver, const ProgramOutputs& outputs)
      : run_(run),
        driver_(driver),
        out_(outputs.out),
        trace_(outputs.trace),
        timeline_file_(timeline_file(outputs.trace)),
        writer_(out_, header_of_run(run, outputs.header)) {}

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
                  .device = run_.device,
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
    } else if (value.contains("compared")) {
      compared_.push_back(value.at("compared").get<training::UpdateComparison>());
    } else if (value.contains("timeline")) {
      timeline_ = value.at("timeline").get<std::vector<training::RankTimeline>>();
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
    tell_memory();
  }

  // Of the last epoch's batches, the most.
  void tell_memory() const {
    const std::map<std::string, double>& values = epochs_.back().values;
    std::string text;
    for (int rank = 0; rank < run_.settings.pipeline * run_.settings.data; ++rank) {
      const auto bytes = values.find(fmt::format("peak_bytes_rank{}", rank));
      const auto activations = values.find(fmt::format("peak_activations_rank{}", rank));
      if (bytes == values.end() || activations == values.end()) return;
      text += fmt::format("{}rank {}: {:.2f} MB, {} kept at once", rank == 0 ? "" : "; ", rank, bytes->second / 1e6,
                          activations->second);
    }
    fmt::print("memory      {}\n", text);
  }

  // A check that has looked at nothing says nothing.
  void tell_no_comparison() {
    const Result result{.check = "train.compare",
                        .case_id = "train.compare",
                        .verdict = Verdict::error,
                        .reason = "no update was compared"};
    std::cerr << fmt::format("plumbline: train: --check: {}\n", result.reason);
    writer_.write(result);
  }

  // What was compared, a result for each requirement.
  void tell_comparison(bool ran_to_its_end) {
    if (compared_.empty()) {
      if (run_.check > 0 && ran_to_its_end) tell_no_comparison();
      return;
    }
    training::Distance gradient, after;
    int gradients = 0, equal = 0;
    std::map<std::string, std::string> findings;  // the first of each kind
    for (const training::UpdateComparison& one : compared_) {
      gradient = worse(gradient, one.gradient);
      after = worse(after, one.after);
      gradients += one.gradients;
      equal += one.equal_in_bits;
      for (const auto& [kind, text] : one.findings)
        findings.try_emplace(kind, fmt::format("epoch {}, batch {}: {}", one.epoch, one.batch, text));
    }
    fmt::print(
        "difference  gradient {:.3g}, bound {:.3g} ('{}'); update {:.3g}, bound 0: the largest in parts of their "
        "bounds; {} of {} gradients bit for bit\n",
        gradient.difference, gradient.bound, gradient.tensor, after.difference, equal, gradients);
    for (const auto& [kind, text] : findings) fmt::print("FAIL  {}: {}\n", kind, text);
    int passed = 0, all = 0;
    for (const auto& [id, kinds] : judged()) {
      Result result{.check = "train.compare",
                    .case_id = fmt::format("train.compare[{}]", id),
                    .requirements = {id},
                    .verdict = Verdict::pass};
      for (const std::string& kind : kinds)
        if (const auto found = findings.find(kind); found != findings.end()) {
          result.verdict = Verdict::fail;
          result.reason = fmt::format("{}: {}", kind, found->second);
        }
      ++all;
      passed += result.verdict == Verdict::pass ? 1 : 0;
      writer_.write(result);
    }
    fmt::print("{}: the single device {} in {} update{} (requirements: {} of {} pass){}\n",
               findings.empty() && ran_to_its_end ? "OK" : "NOT OK",
               findings.empty() ? "computes the same" : "computes otherwise", compared_.size(),
               compared_.size() == 1 ? "" : "s", passed, all,
               ran_to_its_end ? "" : "; the run did not come to its end");
  }
  static training::Distance worse(const training::Distance& a, const training::Distance& b) {
    const auto part = [](const training::Distance& one) {
      return one.difference == 0 ? -1 : one.difference / one.bound;  // without a bound: infinite
    };
    return a.tensor.empty() || part(b) > part(a) ? b : a;
  }
  // The findings that break each requirement.
  [[nodiscard]] std::map<std::string, std::vector<std::string>> judged() const {
    std::map<std::string, std::vector<std::string>> by_id{
        {"PIPE-002", {"gradient"}}, {"PIPE-003", {"given weights", "update"}}, {"PIPE-005", {"loss"}}};
    if (run_.settings.data > 1) by_id["PIPE-004"] = {"replicas"};
    if (run_.model == "gpt" && run_.settings.pipeline > 1) by_id["PIPE-006"] = {"shared"};
    if (run_.model.starts_with("resnet")) by_id["PIPE-016"] = {"statistics"};  // the others keep none
    return by_id;
  }

  // Opened before anything is trained.
  static std::unique_ptr<TextOutput> timeline_file(const std::string& name) {
    return name.empty() ? nullptr : std::make_unique<TextOutput>(fs::path(name));
  }

  void write_timeline() const {
    if (trace_.empty() || timeline_.empty()) return;
    const training::TrainerSettings& settings = run_.settings;
    schedules::Schedule schedule{.stages = settings.pipeline * settings.chunks,
                                 .micro_batches = settings.micro_batches,
                                 .stage_to_rank = run_.ranks_of_stages(),
                                 .ranks = {}};
    std::vector<std::vector<schedules::Period>> periods;
    for (const training::RankTimeline& rank : timeline_) {
      schedule.ranks.push_back(rank.actions);
      periods.push_back(rank.periods);
    }
    write_trace(
        fmt::format("{} by {}, measured", run_.model, run_.schedule.empty() ? "the settings' schedule" : run_.schedule),
        schedule, schedules::timeline_of(schedule, periods), *timeline_file_);
    timeline_file_->finish();
    fmt::print("trace       {} (the last batch; opens in Perfetto)\n", trace_);
  }

  int finish(const TrainingTaskEnd& end, double seconds) {
    const Verdict verdict = end.result.verdict;
    // What was refused before its first epoch leaves the record that was there.
    if (verdict == Verdict::refuse && epochs_.empty()) throw InvalidArgument("train: " + end.result.reason);
    if (verdict != Verdict::pass) std::cerr << fmt::format("plumbline: train: {}\n", end.result.reason);
    writer_.write(end.result);
    tell();
    tell_comparison(end.passed());
    const auto read = close_record(writer_, end.whole, seconds).value();
    write_outputs(out_, read);
    write_timeline();
    tell_record(out_, seconds);
    if (verdict == Verdict::refuse) return 2;
    return run::exit_status(read, !end.whole);
  }

  const training::PipelineRun& run_;
  const launch::Options& driver_;
  const std::string out_, trace_;
  const std::unique_ptr<TextOutput> timeline_file_;
  const bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  record::Writer writer_;
  std::vector<record::Step> epochs_;
  std::vector<training::UpdateComparison> compared_;
  std::vector<training::RankTimeline> timeline_;
};

}  // namespace

int run_program(const training::PipelineRun& run, const launch::Options& driver, const ProgramOutputs& outputs,
                double limit_seconds) {
  if (const std::string why = subject::why_not_here("training", training::kTrainingFactory); !why.empty())
    throw subject::NotAvailable("train needs LibTorch: " + why);
  require_ranks("--pipeline", run.settings.pipeline > (1 << 20) / run.settings.data
                                  ? 1 << 20
                                  : run.settings.pipeline * run.settings.data);
  require_served(run.device, driver.group.subject);
  return ProgramRun(run, driver, outputs).run(limit_seconds);
}

}  // namespace plumbline::cli
