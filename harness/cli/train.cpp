// `plumbline train`: trains on the digits, or what a run specification says, and holds the run to a single device; or
// trains a model by names (train_program.hpp).
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/option_words.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/cli/train_averaging.hpp"
#include "harness/cli/train_program.hpp"
#include "harness/cli/train_size.hpp"
#include "harness/cli/training_task.hpp"
#include "harness/record/environment.hpp"
#include "harness/run/counted.hpp"
#include "harness/run/findings.hpp"
#include "harness/run/summary.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/pipeline_run_json.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/run_files.hpp"
#include "reference/record/spec_fields.hpp"
#include "reference/schedules/names.hpp"
#include "reference/support/nearest_name.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::cli {
namespace {

using nlohmann::json;
using record::Result;
using record::Verdict;
namespace fs = std::filesystem;

struct TrainOptions {
  SubjectOptions subject;
  training::DigitsRun digits{.steps = 150, .micro_batches = 1};
  std::string spec;
  bool describe = false;
  std::string record;
  OutputFolder out{"train"};
  bool check = false;
  std::string bucket_size = "25MiB";
  training::GradientSettings gradients;
  std::string precision = "fp32";
  double loss_scale = 65536;
  int growth_interval = 2000;
  std::vector<std::string> overflows{};
  double clip_norm = 0;
  bool no_judge = false;
  ProgramOptions program;  // of training by names
  AveragingOptions averaging;
  std::vector<CLI::Option*> of_steps{};  // what that does not have
  const CLI::App* command = nullptr;
  std::vector<CLI::Option*> of_gradients{};  // what only runs have whose ranks average gradients
  double time_limit = 120;
  ReportOptions reports;
};

// By --precision: run.dtype, and whether LibTorch chooses where to use it.
struct Precision {
  std::string_view name, dtype;
  bool autocast = false;
};
constexpr std::array<Precision, 5> kPrecisions{{{"fp32", "float32"},
                                                {"fp16", "float16"},
                                                {"bf16", "bfloat16"},
                                                {"amp", "float16", true},
                                                {"amp-bf16", "bfloat16", true}}};

// Also by the names of dtypes, ours and PyTorch's.
const Precision& precision_named(const std::string& name) {
  const auto found = std::ranges::find_if(kPrecisions, [&](const Precision& one) {
    return one.name == name || (!one.autocast && (one.dtype == name || (name == "f32" && one.name == "fp32") ||
                                                  (name == "f16" && one.name == "fp16")));
  });
  if (found != kPrecisions.end()) return *found;
  throw InvalidArgument(fmt::format("--precision '{}'; it must be fp32, fp16, bf16, amp or amp-bf16", name));
}

// "3:1:inf": step, rank, what is written into its first gradient.
job::Injection injection_of(const std::string& text) {
  static const std::map<std::string, double> kinds{{"inf", std::numeric_limits<double>::infinity()},
                                                   {"nan", std::numeric_limits<double>::quiet_NaN()},
                                                   {"large", 1e30}};
  static const std::regex form("([0-9]{1,9}):([0-9]{1,9}):([a-z]+)");
  std::smatch parts;
  if (!std::regex_match(text, parts, form) || !kinds.contains(parts[3]))
    throw InvalidArgument(fmt::format(
        "--overflow-at '{}' is not STEP:RANK:KIND with KIND inf, nan or large (beyond float16), such as 3:1:inf",
        text));
  return {.step = std::stoi(parts[1]), .rank = std::stoi(parts[2]), .value = kinds.at(parts[3])};
}

launch::Options driver_of(const TrainOptions& options) {
  launch::Options driver = options.subject.driver();
  driver.group.worker_options = {"--no-flight"};
  return driver;
}

// Mean losses as the ranks report their parts.
class LossTable {
 public:
  LossTable(int world, int steps) : world_(world), sums_(static_cast<std::size_t>(steps)), counts_(sums_.size()) {}

  // Returns the mean once every rank that has the last stage has reported the step.
  std::optional<double> add(int step, double loss) {
    const auto at = static_cast<std::size_t>(step);
    if (at >= sums_.size()) throw RuntimeFailure(fmt::format("a rank reported step {} of {}", step, sums_.size()));
    sums_[at] += loss;
    if (++counts_[at] < world_) return std::nullopt;
    means_.push_back(sums_[at] / world_);
    return means_.back();
  }
  [[nodiscard]] const std::vector<double>& means() const { return means_; }

 private:
  int world_;
  std::vector<double> sums_;
  std::vector<int> counts_;
  std::vector<double> means_;
};

// How many ranks the digits are trained on, and the option that says so.
struct DigitsRanks {
  std::string option;
  int count;
};
DigitsRanks ranks_of(const training::DigitsRun& digits) {
  constexpr int most = 1 << 20;
  const auto product = [](int a, int b) { return a > most / b ? most : a * b; };
  const int ranks = product(product(digits.pipeline, digits.data), digits.tensor);
  return {digits.tensor > 1 ? "--tensor" : digits.pipeline > 1 ? "--pipeline" : "--data-parallel", ranks};
}

// Makes of the options a run's settings. float16 needs a scale, bfloat16 has float32's range.
void set_precision(TrainOptions& options) {
  training::DigitsRun& digits = options.digits;
  digits.dtype = precision_named(options.precision).dtype;
  if (digits.dtype == "float16")
    digits.scaler = job::Scaler{.init_scale = options.loss_scale, .growth_interval = options.growth_interval};
  for (const char* const name : {"--loss-scale", "--growth-interval"})
    if (!digits.scaler && options.command->count(name) > 0)
      throw InvalidArgument(
          fmt::format("{} with --precision {}; only fp16 and amp have a loss scale", name, options.precision));
  if (!options.overflows.empty() && !digits.scaler)
    throw InvalidArgument(fmt::format(
        "--overflow-at with --precision {}; only fp16 and amp have a loss scale that survives it", options.precision));
  if (const auto narrow = static_cast<float>(options.loss_scale); !(narrow > 0) || std::isinf(narrow))
    throw InvalidArgument(fmt::format("--loss-scale {}; it must be finite and above 0 in float32", options.loss_scale));
  if (!(options.clip_norm >= 0) || std::isinf(options.clip_norm))
    throw InvalidArgument(fmt::format("--clip-norm {}; it must be a finite number, at least 0", options.clip_norm));
  for (const std::string& one : options.overflows) {
    const job::Injection injection = injection_of(one);
    if (precision_named(options.precision).autocast && std::isfinite(injection.value))
      throw InvalidArgument(
          fmt::format("--overflow-at '{}' with --precision {}; gradients are float32 there and hold it: inf or nan",
                      one, options.precision));
    if (injection.step >= digits.steps)
      throw InvalidArgument(fmt::format("--overflow-at '{}': there is no step {}; the run has 0 to {}", one,
                                        injection.step, digits.steps - 1));
    if (injection.rank >= ranks_of(digits).count)
      throw InvalidArgument(fmt::format("--overflow-at '{}': there is no rank {}; the run has 0 to {}", one,
                                        injection.rank, ranks_of(digits).count - 1));
    digits.injections.push_back(injection);
  }
}

constexpr std::int64_t kDigitPixels = 64;

// Where it does not, the training record is all that is wanted.
bool leaves_verdict(const TrainOptions& options) {
  return options.out.is_given() || options.spec.empty() || options.record.empty();
}

class TrainRun {
 public:
  TrainRun(const TrainOptions& options, record::Header header)
      : options_(options), header_(std::move(header)), driver_(driver_of(options)) {
    if (const std::string why = subject::why_not_here("training", training::kTrainingFactory); !why.empty())
      throw subject::NotAvailable("train needs LibTorch: " + why);
    if (leaves_verdict(options)) out_ = options.out.path();
    record_ = fs::absolute(options.record.empty() ? fs::path(out_) / "record" : fs::path(options.record));
  }

  int run() {
    prepare();
    const auto begun = std::chrono::steady_clock::now();
    const bool trained = train() && (options_.no_judge || judge());
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return finish(trained);
  }

 private:
  void prepare() {
    const bool digits = options_.spec.empty();
    if (!digits) spec_ = job::read_run_spec(options_.spec);
    if (spec_.first_step() > 0 && !options_.no_judge)
      throw InvalidArgument(
          fmt::format("--spec {}: checkpoint.begin = {}; a run that continues another is judged "
                      "together with that one, by check: --no-judge is needed",
                      options_.spec, spec_.first_step()));
    const DigitsRanks ranks = ranks_of(options_.digits);
    require_ranks(digits ? ranks.option : options_.spec, digits ? ranks.count : spec_.parallel.world());
    header_.seed = digits ? options_.digits.seed : spec_.seed;
    header_.facts["world"] = std::to_string(digits ? ranks.count : spec_.parallel.world());
    header_.facts["device"] = digits ? options_.digits.device : spec_.run.device;
    // First of all that is written: it keeps other runs out of the folder.
    if (!out_.empty()) writer_.emplace(out_, header_);
    const fs::path folder = fs::path(out_) / "run";
    spec_file_ = fs::absolute(digits ? folder / "spec.toml" : fs::path(options_.spec));
    std::string room;
    const bool on_one_host = !driver_.group.may_span_hosts();
    as_given([&] {
      if (digits) {
        // Of one step first: the batches of all may be more than there is room for.
        training::DigitsRun one_step = options_.digits;
        one_step.steps = 1;
        one_step.injections.clear();
        spec_ = training::write_digits_run(one_step, training::digits(), folder);
        spec_.run.steps = options_.digits.steps;
        room = require_room(spec_, {.folder = record_, .values_of_a_row = kDigitPixels, .on_one_host = on_one_host});
        spec_ = training::write_digits_run(options_.digits, training::digits(), folder);
      }
      // What makes the run impossible is said before ranks are started.
      if (const std::string why = device_name(true)(spec_.run.device); !why.empty())
        throw InvalidArgument(fmt::format("run.device: {}", why));
      require_served(spec_.run.device, driver_.group.subject);
      refuse_impossible();
    });
    (void)job::RunFiles(spec_);
    const RunPlace place{
        .folder = record_, .on_one_host = on_one_host, .steps = fmt::format("--spec {}: run.steps = ", options_.spec)};
    if (!digits) room = require_room(spec_, place);
    clear_record();
    const std::string what =
        digits ? fmt::format("{} with {} on the digits", options_.digits.model, options_.digits.optimizer)
               : options_.spec;
    fmt::print("{}: {}, {} of {} on {}, {}\n", header_.subject, what, run::counted(spec_.run.steps, "step"),
               run::counted(spec_.run.global_batch * spec_.run.accumulation, "row"),
               run::counted(spec_.parallel.world(), "rank"), spec_.run.device);
    fmt::print("{}", room);
    std::cout.flush();
  }

  void refuse_impossible() const {
    const training::PrecisionSettings precision = training::with_clip_of(
        spec_, {.autocast = precision_named(options_.precision).autocast, .clip_norm = options_.clip_norm});
    training::refuse_impossible(spec_);
    training::require_possible(spec_, precision);
    training::require_possible(spec_, options_.gradients, precision);
  }

  // What a specification's fields are refused for names them with the file; on the digits they were set by options.
  template <class Body>
  void as_given(const Body& body) const {
    options_.spec.empty() ? in_options_of_train(body) : on_behalf_of("--spec " + options_.spec, body);
  }

  // What no specification says.
  [[nodiscard]] json precision() const {
    return {{"autocast", precision_named(options_.precision).autocast}, {"clip_norm", options_.clip_norm}};
  }

  // Files of an earlier run with more ranks would be taken for this one's.
  void clear_record() const {
    std::error_code error;
    fs::create_directories(record_, error);
    static const std::regex file_of_a_rank("rank[0-9]+[.]safetensors.*");
    if (!error)
      for (const fs::directory_entry& entry : fs::directory_iterator(record_, error))
        if (std::regex_match(entry.path().filename().string(), file_of_a_rank)) fs::remove(entry.path(), error);
    if (error)
      throw RuntimeFailure(fmt::format("cannot write into folder '{}': {}", record_.string(), error.message()));
  }

  // Runs one task and keeps its result; true when it passed.
  bool run_task(const std::string& name, int world, json arguments, const launch::Options& driver,
                std::function<void(const json&)> output, const std::string& device = "cpu") {
    const TrainingTaskEnd end = cli::run_task({.name = name,
                                               .world = world,
                                               .device = device,
                                               .arguments = std::move(arguments),
                                               .limit_seconds = options_.time_limit,
                                               .described =
                                                   [this](const json& description) {
                                                     if (writer_) writer_->subject(description);
                                                   },
                                               .output = std::move(output)},
                                              driver);
    interrupted_ = interrupted_ || !end.whole;
    keep(end.result);
    refused_ = refused_ || end.result.verdict == Verdict::refuse;
    say_how_it_ended(name, end);
    return end.passed();
  }

  bool train() {
    LossTable losses(spec_.parallel.data * spec_.parallel.tensor, spec_.run.steps);
    const bool passed = run_task(
        "train", spec_.parallel.world(),
        {{"spec", spec_file_.string()},
         {"record", record_.string()},
         {"gradients", options_.gradients},
         {"precision", precision()}},
        driver_, [&](const json& value) { hear_rank(losses, value); }, spec_.run.device);
    clear_line();
    if (!losses.means().empty())
      fmt::print("loss        {:.4f} to {:.4f}  {}\n", losses.means().front(), losses.means().back(),
                 sparkline(losses.means(), 60));
    return passed;
  }

  void hear_rank(LossTable& losses, const json& value) {
    if (value.contains("accumulator")) {
      reduction_ = value;
      return;
    }
    const int step = value.at("step");
    const auto loss = losses.add(step, record::number_from(value.at("loss")));
    if (!loss) return;
    if (value.contains("scale")) hear_scale(step, value.at("scale"), value.at("skipped"));
    progress(step + 1, spec_.run.steps, fmt::format("step {} of {}, loss {:.4f}", step + 1, spec_.run.steps, *loss));
  }

  // The lines of a step that was skipped, or begins with another scale than the one before it; steps as --overflow-at
  // has them.
  void hear_scale(int step, float scale, bool skipped) {
    const float before = std::exchange(scale_, scale);
    if (!skipped && (step == 0 || before == scale)) return;
    clear_line();
    if (step > 0 && before != scale) fmt::print("loss scale  {} to {}, from step {} on\n", before, scale, step);
    if (skipped) fmt::print("skipped     step {}: an overflow\n", step);
  }

  // On a terminal in place of the line before, else a line for each tenth of all parts.
  void progress(int done, int parts, const std::string& text) const {
    if (terminal_)
      fmt::print("\r\033[K{}", text);
    else if (std::int64_t{done} * 10 / parts > std::int64_t{done - 1} * 10 / parts)
      fmt::print("{}\n", text);
    std::cout.flush();
  }
  void clear_line() const {
    if (terminal_) fmt::print("\r\033[K");
  }

  // In a process of its own, on the local backend: a record may be anything.
  bool judge() {
    launch::Options driver = driver_;
    driver.group.subject = {.backend = "local"};
    driver.group.launcher = launch::Launcher::fork;
    json arguments = reduction_;
    arguments.update({{"spec", spec_file_.string()},
                      {"record", record_.string()},
                      {"device", spec_.run.device},
                      {"gradients", options_.gradients},
                      {"precision", precision()},
                      {"digits", options_.spec.empty()}});
    json judgement{{"steps", json::array()}, {"findings", json::array()}};
    const bool done = run_task("judge", 1, arguments, driver, [&](const json& value) {
      if (value.contains("parts"))
        progress(value.at("done"), value.at("parts"),
                 fmt::format("judged {} %", 100 * value.at("done").get<int>() / value.at("parts").get<int>()));
      else if (value.contains("step"))
        judgement["steps"].push_back(value.at("step"));
      else if (value.contains("finding"))
        judgement["findings"].push_back(value.at("finding"));
      else
        judgement.update(value);
    });
    clear_line();
    if (done) report(judgement);
    return done;
  }

  // The step of the largest difference in parts of its bound: what has no bound, or is no number, is beyond all bounds.
  struct Largest {
    int step = 0;
    double difference = 0, bound = 0, part = -1;
    void see(int at, double new_difference, double new_bound) {
      double new_part = new_difference == 0 ? 0 : new_difference / new_bound;
      if (std::isnan(new_part)) new_part = std::numeric_limits<double>::infinity();
      if (new_part > part) *this = {at, new_difference, new_bound, new_part};
    }
  };

  void report(const json& judgement) {
    Largest gradient, update;
    const json& steps = judgement.at("steps");
    for (const json& one : steps) {
      record::Step step{.step = one.at("step"), .loss = record::number_from(one.at("loss"))};
      for (const char* key : {"difference", "bound", "update_difference", "update_bound"})
        step.values[key] = record::number_from(one.at(key));
      gradient.see(step.step, step.values["difference"], step.values["bound"]);
      update.see(step.step, step.values["update_difference"], step.values["update_bound"]);
      if (&one == &steps.back() && judgement.contains("accuracy")) step.values["accuracy"] = judgement.at("accuracy");
      if (writer_) writer_->write(step);
    }
    if (judgement.contains("accuracy"))
      fmt::print("accuracy    {:.2f} % of the held-out {}\n", judgement.at("accuracy").get<double>() * 100,
                 std::holds_alternative<job::Embedding>(spec_.layers.front()) ? "tokens" : "digits");
    print_scales(steps);
    if (!steps.empty())  // of a run with [averaging] none is told of
      fmt::print(
          "difference  gradient {:.3g}, bound {:.3g} (step {}); update {:.3g}, bound {:.3g} (step {}): the largest in "
          "parts of their bounds\n",
          gradient.difference, gradient.bound, gradient.step, update.difference, update.bound, update.step);
    verdicts(judgement);
  }

  // Of a run with a loss scale.
  static void print_scales(const json& steps) {
    if (steps.empty() || !steps.front().contains("scale")) return;
    std::vector<int> skipped;
    for (const json& one : steps)
      if (one.at("skipped").get<bool>()) skipped.push_back(one.at("step"));
    fmt::print("loss scale  {} to {}; {} of {} skipped{}{}\n",
               static_cast<float>(record::number_from(steps.front().at("scale"))),
               static_cast<float>(record::number_from(steps.back().at("scale"))), skipped.size(),
               run::counted(steps.size(), "step"), skipped.empty() ? "" : ": ", fmt::join(skipped, ", "));
  }

  // A result for each requirement that the record was judged by.
  void verdicts(const json& judgement) {
    const std::vector<Result> results =
        run::results_of_judging("train.judge", judgement.at("judged"), judgement.at("findings"));
    std::size_t passed = 0;
    for (const Result& result : results) {
      if (result.verdict == Verdict::fail) fmt::print("FAIL  {}\n", result.reason);
      passed += result.verdict == Verdict::pass;
      keep(result);
    }
    failed_ = passed < results.size();
    fmt::print("{}: the single device {} (requirements: {} of {} pass)\n", failed_ ? "NOT OK" : "OK",
               failed_ ? "computes otherwise" : "computes the same", passed, results.size());
  }

  void keep(const Result& result) {
    if (writer_) writer_->write(result);
    if (record::is_failure(result.verdict)) failed_ = true;
  }

  int finish(bool done) {
    if (writer_) {
      const auto run = close_record(*writer_, !interrupted_, seconds_).value();  // a task always leaves a result
      write_outputs(out_, run);
      tell_record(out_, seconds_);
      if (refused_) return 2;  // the specification asks for what the executor or this machine does not have
      return run::exit_status(run, interrupted_);
    }
    if (refused_) return 2;
    return done && !failed_ ? 0 : failed_ ? 1 : 3;
  }

  const TrainOptions& options_;
  record::Header header_;
  launch::Options driver_;
  const bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::string out_;  // empty: the training record is all that is wanted
  fs::path record_;
  fs::path spec_file_;
  job::RunSpec spec_;
  std::optional<record::Writer> writer_;
  json reduction_ = json::object();
  float scale_ = 0;  // of the last step that was told
  double seconds_ = 0;
  bool interrupted_ = false;
  bool failed_ = false;
  bool refused_ = false;
};

// "25MiB", "4096", "flat" for all in one bucket, "none" for one a gradient, "auto" for what is fastest here.
std::int64_t bucket_bytes_of(const std::string& text) {
  if (text == "flat") return std::numeric_limits<std::int64_t>::max();
  if (text == "none") return 1;
  if (text == "auto") return 0;
  const std::int64_t bytes = parse_bytes(text).value_or(0);
  if (bytes < 1)
    throw InvalidArgument(fmt::format(
        "--bucket-size '{}' is not a number of bytes from 1 on such as 4096 or 25MiB, nor auto, flat or none", text));
  return bytes;
}

// Those of runs on the digits. Most say something to a training by names, too.
void add_digits_options(CLI::App& command, TrainOptions& options, CLI::Option* spec) {
  training::DigitsRun& digits = options.digits;
  using training::PipelineRun;
  const auto share = [&](CLI::Option* option, std::function<void(PipelineRun&)> take) {
    option->capture_default_str()->excludes(spec);
    options.program.share(option, std::move(take));
  };
  const auto own = [&](CLI::Option* option) {
    options.of_steps.push_back(option->capture_default_str()->excludes(spec));
  };
  share(command.add_option(
            "--model", digits.model,
            fmt::format("model: {}; run by epochs: {} (default mlp)", fmt::join(training::kDigitsModels, ", "),
                        fmt::join(training::kPipelineModels, ", "))),
        [&digits](PipelineRun& run) { run.model = digits.model; });
  own(command.add_option("--optimizer", digits.optimizer,
                         fmt::format("optimizer: {}", fmt::join(training::kDigitsOptimizers, ", "))));
  share(command.add_option("--data-parallel", digits.data, "data-parallel size: ranks, or pipelines side by side")
            ->check(at_least(1)),
        [&digits](PipelineRun& run) { run.settings.data = digits.data; });
  share(command.add_option("--pipeline", digits.pipeline, "pipeline-parallel size: ranks of a pipeline")
            ->check(at_least(1)),
        [&digits](PipelineRun& run) { run.settings.pipeline = digits.pipeline; });
  share(command.add_option("--chunks", digits.chunks, "model stages per pipeline rank")->check(at_least(1)),
        [&digits](PipelineRun& run) { run.settings.chunks = digits.chunks; });
  share(command.add_option("--schedule", digits.schedule,
                           fmt::format("pipeline schedule: {}", fmt::join(schedules::names_in_specifications(), ", "))),
        [&digits](PipelineRun& run) { run.schedule = digits.schedule; });
  own(command.add_option("--steps", digits.steps, "number of optimizer steps")->check(at_least(1)));
  share(command
            .add_option("--batch", digits.global_batch,
                        "global batch size in rows; of a run by epochs the rows per pipeline")
            ->check(at_least(1)),
        [&digits](PipelineRun& run) { run.settings.batch_size = digits.global_batch; });
  share(command.add_option("--micro-batches", digits.micro_batches, "micro-batches per batch of a rank")
            ->check(at_least(1)),
        [&digits](PipelineRun& run) { run.settings.micro_batches = digits.micro_batches; });
  share(command.add_option("--accumulation", digits.accumulation, "batches per optimizer step")->check(at_least(1)),
        [&digits](PipelineRun& run) { run.settings.accumulation = digits.accumulation; });
  share(command
            .add_option("--bucket-size", options.bucket_size,
                        "size limit of a gradient bucket, such as 64KiB or 25MiB; flat is one bucket, none one bucket "
                        "per gradient, auto the fastest size here")
            ->type_name("SIZE"),
        [&options](PipelineRun& run) { run.gradients.bucket_bytes = bucket_bytes_of(options.bucket_size); });
  options.of_gradients.push_back(command.get_option("--bucket-size"));
  share(command.add_option("--seed", digits.seed, "random seed of the weights and of the order of rows")
            ->check(seed_number()),
        [&digits](PipelineRun& run) { run.settings.seed = digits.seed; });
  share(command
            .add_option("--device", digits.device,
                        "device on which each rank computes: cpu, cuda, cuda:N, emulated or emulated:N")
            ->type_name("DEVICE")
            ->check(device_name(true)),
        [&digits](PipelineRun& run) { run.device = digits.device; });
}

// In what numbers, and over how many tensor ranks.
void add_precision_options(CLI::App& command, TrainOptions& options, CLI::Option* spec) {
  const auto own = [&](CLI::Option* option) {
    options.of_gradients.push_back(option);
    options.of_steps.push_back(option->capture_default_str()->excludes(spec));
  };
  own(command
          .add_option("--tensor", options.digits.tensor,
                      "tensor-parallel size: ranks over which linear layers are split")
          ->check(at_least(1)));
  options.of_steps.push_back(command
                                 .add_option("--precision", options.precision,
                                             "fp32; fp16 or bf16 (parameters rounded from fp32 master weights); amp or "
                                             "amp-bf16 (autocast of LibTorch)")
                                 ->capture_default_str()
                                 ->excludes(spec));
  own(command.add_option("--loss-scale", options.loss_scale, "initial loss scale of fp16 and amp")->type_name("SCALE"));
  own(command.add_option("--growth-interval", options.growth_interval, "finite steps before the loss scale doubles")
          ->check(at_least(1)));
  own(command
          .add_option("--overflow-at", options.overflows,
                      "write a non-finite or large value into a gradient of one rank before any reduction; KIND is "
                      "inf, nan or large")
          ->type_name("STEP:RANK:KIND"));
  options.of_steps.push_back(
      command.add_option("--clip-norm", options.clip_norm, "clip gradients to this norm (default no clipping)")
          ->type_name("NORM"));
  options.of_gradients.push_back(command.get_option("--clip-norm"));
}

// How data ranks reduce their gradients, which no specification says.
void add_gradient_options(CLI::App& command, TrainOptions& options) {
  training::GradientSettings& settings = options.gradients;
  using training::PipelineRun;
  options.program.share(command.add_option("--compression", settings.compression,
                                           fmt::format("compress gradients for their reduction: {} (default none)",
                                                       fmt::join(training::kCompressions, ", "))),
                        [&settings](PipelineRun& run) { run.gradients.compression = settings.compression; });
  options.program.share(
      command.add_flag("--static-graph", settings.static_graph,
                       "assume that every step uses the gradients of the first: buckets are rebuilt in the order in "
                       "which gradients became ready; in a run by epochs they are reduced during the backward pass"),
      [&settings](PipelineRun& run) { run.gradients.static_graph = settings.static_graph; });
}

template <class Names>
bool is_one_of(const std::string& name, const Names& names) {
  return std::ranges::find(names, name) != names.end();
}

std::string model_meant(const std::string& name) {
  std::vector<std::string> names(training::kDigitsModels.begin(), training::kDigitsModels.end());
  names.insert(names.end(), training::kPipelineModels.begin(), training::kPipelineModels.end());
  return did_you_mean(name, names);
}

// What training by names has where runs by steps have an option.
std::string_view by_names_has(const std::string& option) {
  if (option == "--tensor") return "--data-parallel and --pipeline";
  constexpr std::array<std::string_view, 5> narrow{"--precision", "--loss-scale", "--growth-interval", "--overflow-at",
                                                   "--clip-norm"};
  return std::ranges::find(narrow, option) != narrow.end() ? "float32 and unscaled losses" : "--epochs";
}

// Throws InvalidArgument for options that the kind of run does not have.
bool is_by_names(const TrainOptions& options) {
  const std::string& model = options.digits.model;
  const bool by_names = options.program.configured() || is_one_of(model, training::kPipelineModels);
  if (!by_names && !is_one_of(model, training::kDigitsModels))
    throw InvalidArgument(fmt::format("--model '{}'; it must be {}, or by names {}{}", model,
                                      fmt::join(training::kDigitsModels, ", "),
                                      fmt::join(training::kPipelineModels, ", "), model_meant(model)));
  // Averaged runs by steps have checkpoints as well.
  const auto is_averagings = [&](const CLI::Option* option) {
    return options.averaging.given() && (option->get_name() == "--checkpoints" || option->get_name() == "--resume");
  };
  for (const CLI::Option* option : by_names ? options.of_steps : options.program.own())
    if (option->count() > 0 && (by_names || !is_averagings(option)))
      throw InvalidArgument(by_names ? fmt::format("{} is of runs by steps; training by names has {}",
                                                   option->get_name(), by_names_has(option->get_name()))
                                     : fmt::format("{} is of training by names: with --config, or --model {}",
                                                   option->get_name(), fmt::join(training::kPipelineModels, ", ")));
  return by_names;
}

// Halves have masters there; LibTorch's choice of where to round has none.
std::string averaged_dtype(const std::string& name) {
  const Precision& precision = precision_named(name);
  if (precision.autocast)
    throw InvalidArgument(fmt::format("--precision {} with --averaging; it must be fp32, fp16 or bf16", name));
  return std::string(precision.dtype);
}

// Of runs whose ranks average parameters. Throws InvalidArgument for what is of gradients that ranks average.
AveragingRun averaging_run(const TrainOptions& options, const record::Header& header) {
  for (const CLI::Option* option : options.of_gradients)
    if (option->count() > 0)
      throw InvalidArgument(
          fmt::format("{} with --averaging; parameters are averaged only of whole models, and gradients are not",
                      option->get_name()));
  const training::GradientSettings usual;
  if (options.gradients.compression != usual.compression || options.gradients.static_graph)
    throw InvalidArgument(fmt::format("--{} with --averaging; no gradients are averaged there",
                                      options.gradients.static_graph ? "static-graph" : "compression"));
  if (!options.record.empty()) throw InvalidArgument("--record with --averaging; its records are in --out");
  if (options.digits.pipeline > 1)
    throw InvalidArgument(fmt::format("--pipeline {} with --averaging; parameters are averaged only without a pipeline",
                                      options.digits.pipeline));
  if (options.program.resume() && options.program.checkpoints().empty())
    throw InvalidArgument("--resume needs --checkpoints DIR, where they are");
  if (options.averaging.checkpoint_steps_given() && options.program.checkpoints().empty())
    throw InvalidArgument("--checkpoint-steps needs --checkpoints DIR, where they go");
  training::DigitsRun digits = options.digits;
  digits.dtype = averaged_dtype(options.precision);
  return {.digits = digits,
          .settings = options.averaging.settings(options.digits.data, !options.program.checkpoints().empty()),
          .seeds = options.averaging.seeds(),
          .margin = options.averaging.margin(),
          .judge = !options.no_judge,
          .checkpoints = {.folder = options.program.checkpoints(),
                          .steps = options.averaging.checkpoint_steps(),
                          .resume = options.program.resume()},
          .picture = options.averaging.picture(),
          .out = options.out.path(),
          .header = header};
}

int run_train(TrainOptions& options, const record::Header& header) {
  options.subject.require_no_job("train");
  if (options.check) options.program.check();
  options.digits.bucket_bytes = bucket_bytes_of(options.bucket_size);
  if (is_by_names(options))
    return run_program(options.program.run(), driver_of(options), {options.out.path(), options.program.trace(), header},
                       options.time_limit);
  if (options.averaging.given())
    return run_averaging(averaging_run(options, header), driver_of(options), options.time_limit);
  options.averaging.require_none();
  try {
    require_possible(options.gradients);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("--{}", error.what()));
  }
  set_precision(options);
  return TrainRun(options, header).run();
}

}  // namespace

Command add_train(CLI::App& app, const Program& program) {
  CLI::App* command =
      app.add_subcommand("train", "Train on several ranks, and compare each update with a single device");
  auto options = std::make_shared<TrainOptions>();
  options->command = command;
  options->subject.add_to(*command, SubjectOptions::Kind::one_group, program);
  CLI::Option* spec =
      command->add_option("--spec", options->spec, "run this specification instead of a model of these options")
          ->type_name("FILE");
  command->add_flag("--describe", options->describe, "print the fields of a specification as a Markdown table");
  add_digits_options(*command, *options, spec);
  add_precision_options(*command, *options, spec);
  add_gradient_options(*command, *options);
  options->averaging.add_to(*command, spec);
  for (CLI::Option* option : options->averaging.own()) options->of_steps.push_back(option);
  options->program.add_to(*command);
  for (CLI::Option* option : options->program.own()) option->excludes(spec);
  options->of_steps.push_back(
      command->add_option("--record", options->record, "folder of the training record (default record/ in --out)")
          ->type_name("DIR"));
  options->out.add_to(*command, "folder of the record of the verdict", "none with --spec and --record");
  CLI::Option* check = command->add_flag("--check", options->check,
                                         "compare each update with a single device (default for runs by steps)");
  options->of_steps.push_back(
      command->add_flag("--no-judge", options->no_judge, "do not compare with a single device")->excludes(check));
  command->add_option("--time-limit", options->time_limit, "time without a step after which the run counts as hung")
      ->check(seconds())
      ->capture_default_str();
  options->reports.add_to(*command);
  group_options(*command, "Subject", {"--backend", "--backend-option", "--launcher", "--control-address", "--mutant"});
  group_options(*command, "Training",
                {"--spec", "--model", "--optimizer", "--steps", "--batch", "--micro-batches", "--accumulation",
                 "--seed", "--device"});
  group_options(*command, "Parallelism", {"--data-parallel", "--pipeline", "--chunks", "--schedule", "--tensor"});
  group_options(*command, "Precision",
                {"--precision", "--loss-scale", "--growth-interval", "--overflow-at", "--clip-norm"});
  group_options(*command, "Gradient reduction",
                {"--bucket-size", "--compression", "--static-graph", "--join", "--broadcast-buffers"});
  group_options(*command, "Parameter averaging", {"--averaging",      "--averaging-base",   "--localsgd-frequency",
                                                  "--localsgd-begin", "--slowmo-frequency", "--slowmo-momentum",
                                                  "--slowmo-lr",      "--slowmo-memory",    "--slowmo-shards",
                                                  "--gossip-graph",   "--gossip-peers",     "--push-pull",
                                                  "--overlap",        "--overlap-lag",      "--average-at-slow-steps",
                                                  "--ranks-per-node", "--lr-decay",         "--seeds",
                                                  "--margin",         "--checkpoint-steps", "--picture"});
  group_options(*command, "Training by epochs",
                {"--config", "--data", "--most-digits", "--text-batches", "--learning-rate", "--epochs",
                 "--warmup-epochs", "--checkpoints", "--checkpoint-epochs", "--resume", "--check-updates", "--trace"});
  group_options(*command, "Verdict", {"--check", "--no-judge", "--time-limit"});
  group_options(*command, "Output", {"--out", "--record", "--label", "--subject-name", "--describe"});
  command->footer(
      "Example: plumbline train --model conv --data-parallel 3 --backend mpi --steps 100\n"
      "         plumbline train --pipeline 2 --data-parallel 2 --micro-batches 4 --schedule zb-h1\n"
      "         plumbline train --averaging slowmo,sgp --data-parallel 4 --slowmo-frequency 12\n"
      "         plumbline train --model pairs --tensor 2 --pipeline 2 --precision fp16 \\\n"
      "             --overflow-at 3:1:inf --steps 20\n"
      "By epochs, with checkpoints:\n"
      "         plumbline train --model resnet50 --data DIR --pipeline 2 --checkpoints DIR --config FILE\n"
      "         plumbline train --model gpt --pipeline 2 --chunks 2 --schedule zbv --epochs 2 --check\n"
      "As a training job:\n"
      "         plumbline train --spec \"$PLUMBLINE_SPEC\" --record \"$PLUMBLINE_RECORD\" --no-judge\n"
      "Settings of --config: share/doc/plumbline/harness/trainer/README.md of the installation.\n"
      "Specifications: share/doc/plumbline/harness/subject/job/README.md of the installation.");
  const auto unfinished_header = [options] {
    return header_of("train", options->subject.as_given(), options->digits.device, options->reports);
  };
  const auto run = [options, unfinished_header, &program] {
    if (options->describe) {
      fmt::print("{}", job::spec_fields_as_markdown());
      return 0;
    }
    record::Header header = unfinished_header();
    if (!leaves_verdict(*options)) return run_train(*options, header);
    for (const auto& [id, row] : program.suite().requirements.rows())
      if (id.starts_with("TRAIN-") || id.starts_with("SCALER-"))  // what a run is judged by
        header.requirements[id] = {std::string(suite::name_of(row.level)), row.text, row.sources};
    return with_unfinished_reports(options->out, header, [&] { return run_train(*options, header); });
  };
  return {run, [unfinished_header](const CommandLine& line, const std::string& why) {
            refuse_in_reports(line, unfinished_header(), why);
          }};
}

}  // namespace plumbline::cli
