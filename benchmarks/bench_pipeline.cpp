// `plumbline bench pipeline_bubble`: measured bubbles beside simulated ones and closed forms.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/bubble_published.hpp"
#include "benchmarks/bubble_report.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/bench_studies.hpp"
#include "harness/cli/cases.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/measured_run.hpp"
#include "harness/cli/missing_measurement.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/record/environment.hpp"
#include "harness/run/counted.hpp"
#include "harness/run/summary.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/training/training.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using schedules::ScheduleKind;

struct PipelineBenchOptions {
  SubjectOptions subject;
  std::vector<std::string> schedules;  // empty: all that train
  std::vector<int> stages, micro_batches;
  int chunks = 0;  // 0: the schedule's usual number
  std::string durations = "F=0.003,I=0.003,W=0.003";
  std::string message_bytes = "64KiB";
  int repetitions = 7;
  bool full = false, libtorch = false, published = false;
  int width = 512, rows = 64;
  double time_limit = 120;
  std::string device = "cpu";
  OutputFolder out{"pipeline_bubble"};
  ReportOptions reports;
  bool metrics_of_ranks = false;
};

double sum_of(const schedules::StageTimes& times) {
  return times.forward + times.input_gradient + times.weight_gradient;
}

// "F=0.003,I=0.003,W=0.003".
schedules::StageTimes times_of(const std::string& text) {
  schedules::StageTimes times{.forward = 0.003, .input_gradient = 0.003, .weight_gradient = 0.003};
  std::set<std::string> given;
  for (const std::string& part : split(text)) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string action = part.substr(0, equals);
    double* const time = action == "F"   ? &times.forward
                         : action == "I" ? &times.input_gradient
                         : action == "W" ? &times.weight_gradient
                                         : nullptr;
    if (time == nullptr || equals == part.size())
      throw InvalidArgument(fmt::format("--durations: '{}' is not F=SECONDS, I=SECONDS or W=SECONDS", part));
    if (!given.insert(action).second)
      throw InvalidArgument(fmt::format("--durations: {} appears twice in '{}'", action, text));
    *time = number("--durations", part.substr(equals + 1));
    if (*time < 0 || *time > 10)
      throw InvalidArgument(fmt::format("--durations: a duration is from 0 to 10 seconds, got '{}'", part));
  }
  if (sum_of(times) == 0)
    throw InvalidArgument(fmt::format("--durations: a rank computes for more than 0 seconds in all, got '{}'", text));
  return times;
}

// Each once, where it stands first.
template <class T>
std::vector<T> without_repeats(const std::vector<T>& list) {
  std::vector<T> once;
  for (const T& one : list)
    if (std::ranges::find(once, one) == once.end()) once.push_back(one);
  return once;
}

bool are_equal(const schedules::StageTimes& times) {
  return times.forward == times.input_gradient && times.forward == times.weight_gradient;
}

bool is_same_measurement(const BubbleCase& one, const BubbleCase& other) {
  const auto key = [](const BubbleCase& of) {
    return std::tuple(of.libtorch, of.schedule_kind, of.shape.ranks, of.shape.micro_batches, of.shape.stages_per_rank,
                      of.times.forward, of.times.input_gradient, of.times.weight_gradient);
  };
  return key(one) == key(other);
}

// What a case measures, and for whom.
enum class Purpose { grid, executor, published };
struct Job {
  BubbleCase of;
  Purpose purpose = Purpose::grid;
};

// The cases of the options, those with fewest ranks first.
class Grid {
 public:
  explicit Grid(const PipelineBenchOptions& options) : options_(options), times_(times_of(options.durations)) {
    const std::vector<int> quick_stages{2, 4}, all_stages{2, 4, 8};
    const std::vector<int> quick_batches{8, 16}, all_batches{4, 8, 16, 32, 64};
    stages_ = without_repeats(!options.stages.empty() ? options.stages : options.full ? all_stages : quick_stages);
    micro_batches_ = without_repeats(!options.micro_batches.empty() ? options.micro_batches
                                     : options.full                 ? all_batches
                                                                    : quick_batches);
    for (const int stages : stages_) require_ranks("--stages", stages);
    if (options.device == "cpu") {
      add_executor();
      add_cases();
    }
    if (options.libtorch) add_libtorch();
    if (options.published) add_published();
    std::ranges::stable_sort(jobs_, {}, [](const Job& job) { return job.of.shape.ranks; });
  }

  [[nodiscard]] const std::vector<Job>& jobs() const { return jobs_; }
  /// Of them, those that are not there for something else.
  [[nodiscard]] std::size_t pipelines() const {
    return static_cast<std::size_t>(std::ranges::count(jobs_, Purpose::grid, &Job::purpose));
  }
  /// Why cases of the grid are not there, a line each.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  [[nodiscard]] std::vector<ScheduleKind> schedule_kinds() const {
    std::vector<ScheduleKind> list;
    for (const std::string& name : options_.schedules) {
      list.push_back(schedule_kind_named(name, "--schedule"));
      if (list.back() == ScheduleKind::forward_only)
        throw InvalidArgument("--schedule forward-only: it trains nothing; its bubble is that of its forwards alone");
    }
    if (list.empty())
      for (const ScheduleKind schedule_kind : schedules::schedule_kinds())
        if (schedule_kind != ScheduleKind::forward_only) list.push_back(schedule_kind);
    return without_repeats(list);
  }

  // A shape that somebody asked for by name and number must be there; of what is tried by default, what can be.
  void add(BubbleCase of, bool asked_for) {
    try {
      (void)schedules::generate(of.schedule_kind, of.shape);
    } catch (const InvalidArgument& error) {
      if (asked_for) throw;
      left_out_.push_back(error.what());
      return;
    }
    jobs_.push_back({std::move(of)});
  }

  void add_cases() {
    const bool asked_for = !options_.schedules.empty() && (!options_.stages.empty() || !options_.micro_batches.empty());
    for (const ScheduleKind schedule_kind : schedule_kinds())
      for (const int stages : stages_)
        for (const int micro_batches : micro_batches_)
          add({.schedule_kind = schedule_kind,
               .shape = {stages, micro_batches, chunks_of_schedule_kind(schedule_kind)},
               .times = times_},
              asked_for);
    if (jobs_.size() == kExecutorJobs)
      throw InvalidArgument(fmt::format("nothing to measure: {}", left_out_.empty() ? "" : left_out_.front()));
  }
  [[nodiscard]] int chunks_of_schedule_kind(ScheduleKind schedule_kind) const {
    const int usual = schedules::traits_of(schedule_kind).usual_stages_per_rank;
    return options_.chunks > 0 && usual > 1 ? options_.chunks : usual;
  }

  // Computations without length: what is left is the executor.
  void add_executor() {
    for (const int ranks : {1, 2})
      jobs_.push_back({{.schedule_kind = ScheduleKind::one_f_one_b,
                        .shape = {ranks, 64, 1},
                        .times = {.forward = 0, .input_gradient = 0, .weight_gradient = 0}},
                       Purpose::executor});
  }
  static constexpr std::size_t kExecutorJobs = 2;

  // Stages that compute need a core each.
  void add_libtorch() {
    for (const ScheduleKind schedule_kind : schedule_kinds()) {
      if (schedule_kind == ScheduleKind::automatic) {
        left_out_.push_back(fmt::format("{} of LibTorch's stages: it is made for times that are known beforehand",
                                        schedules::name_of(schedule_kind)));
        continue;
      }
      add({.schedule_kind = schedule_kind,
           .shape = {2, 8, schedules::traits_of(schedule_kind).usual_stages_per_rank},
           .times = times_,
           .libtorch = true},
          false);
    }
  }

  // As they are simulated: with equal times. Those that the grid has anyway are taken from there.
  void add_published() {
    const double each = are_equal(times_) ? times_.forward : sum_of(times_) / 3;  // the very same, if it is
    for (const BubbleCase& of : published_cases({each, each, each, {}}))
      if (std::ranges::none_of(jobs_, [&](const Job& job) { return is_same_measurement(job.of, of); }))
        jobs_.push_back({of, Purpose::published});
  }

  const PipelineBenchOptions& options_;
  schedules::StageTimes times_;
  std::vector<int> stages_, micro_batches_;
  std::vector<Job> jobs_;
  std::vector<std::string> left_out_;
};

class PipelineBench {
 public:
  explicit PipelineBench(const PipelineBenchOptions& options)
      : options_(options), grid_(options), driver_(options.subject.driver()) {
    driver_.group.worker_options = device_options(options.device);
    driver_.group.worker_options.emplace_back("--no-flight");  // events would be timed too
  }

  int run() {
    const launch::Subject& subject = driver_.group.subject;
    record::Header header = header_of("bench", subject, options_.device, options_.reports);
    if (options_.metrics_of_ranks) header.facts["metrics_of_ranks"] = "on";
    writer_.emplace(options_.out.path(), header);
    const std::string kind = options_.device == "cpu" ? fmt::format("computations of {} s", options_.durations)
                                                      : fmt::format("LibTorch's on {}", options_.device);
    const auto heading = [&] {
      fmt::print("{}: {}, {} each, {}\n\n{}\n", header.subject, run::counted(grid_.pipelines(), "pipeline"),
                 run::counted(options_.repetitions, "repetition"), kind, bubble_head());
    };
    return run_measurements(assignments(), driver_, observer(), *writer_, options_.out.path(), 0, heading,
                            [&](double seconds) { tell(header.subject, seconds); });
  }

 private:
  [[nodiscard]] json arguments_of(const Job& job) const {
    const BubbleCase& of = job.of;
    json arguments{{"benchmark", of.libtorch ? "pipeline_bubble.libtorch" : "pipeline_bubble.emulated"},
                   {"schedule", schedules::name_of(of.schedule_kind)},
                   {"micro_batches", of.shape.micro_batches},
                   {"chunks", of.shape.stages_per_rank},
                   {"repetitions", options_.repetitions}};
    if (of.libtorch) {
      arguments.update({{"schedule", schedules::name_in_specifications(of.schedule_kind)},
                        {"width", options_.width},
                        {"rows", options_.rows},
                        {"device", options_.device},
                        {"folder", fs::absolute(fs::path(options_.out.path()) / "libtorch").string()}});
    } else {
      const schedules::StageTimes stage = of.request().options.stages.front();
      arguments.update({{"forward", stage.forward},
                        {"input_gradient", stage.input_gradient},
                        {"weight_gradient", stage.weight_gradient},
                        {"message_bytes", static_cast<double>(bytes_in("--message-bytes", options_.message_bytes))}});
    }
    return arguments;
  }

  [[nodiscard]] std::vector<launch::Assignment> assignments() const {
    std::vector<launch::Assignment> list;
    for (const Job& job : grid_.jobs())
      list.push_back({.command = {{"type", "task"},
                                  {"name", "bench"},
                                  {"device", options_.device},
                                  {"arguments", arguments_of(job)}},
                      .world = job.of.shape.ranks,
                      .isolation = "bench",
                      .limit = std::chrono::duration<double>(options_.time_limit)});
    return list;
  }

  launch::Observer observer() {
    launch::Observer observer;
    observer.before = [this](std::size_t, const json& description) -> std::optional<launch::Outcome> {
      require_device(options_.device, driver_.group.subject.backend, description);
      writer_->subject(description);
      return std::nullopt;
    };
    observer.output = [this](std::size_t, int, const json& value) { last_ = value; };
    observer.end = [this](std::size_t index, const launch::Outcome& outcome) {
      take(grid_.jobs()[index], outcome);
      last_ = nullptr;
      return true;
    };
    observer.log = [](const std::string& line) { std::cerr << line << '\n'; };
    return observer;
  }

  void take(const Job& job, const launch::Outcome& outcome) {
    if (outcome.verdict != record::Verdict::pass || !last_.is_object()) return take_failure(job, outcome);
    const BubbleRow row = bubble_row(job.of, last_);
    if (job.purpose == Purpose::executor) return take_executor(row);
    for (record::Measurement measurement : measurements_of(row, driver_.group.subject.backend)) {
      measurement.case_id = case_id_of(row.of);
      if (options_.device != "cpu") {
        measurement.labels["device"] = options_.device;
        measurement.derived["clock_uncertainty_seconds"] =
            last_.at("clock_uncertainty");                                       // of the rank that knows it worst
        measurement.derived["clocks_apart_seconds"] = last_.at("clocks_apart");  // of two
      }
      writer_->write(measurement);
    }
    if (!row.of.libtorch && are_equal(row.of.times)) published_.push_back(row);
    if (job.purpose == Purpose::published) return;
    fmt::print("{}{}\n", bubble_line(row), row.of.libtorch ? "  libtorch" : "");
    std::cout.flush();
    rows_.push_back(row);
  }

  // Whether it was measured or not.
  static std::string case_id_of(const BubbleCase& of) {
    return fmt::format("pipeline_bubble[schedule={},world={},micro_batches={},chunks={},devices={}]",
                       schedules::name_of(of.schedule_kind), of.shape.ranks, of.shape.micro_batches,
                       of.shape.stages_per_rank, of.libtorch ? "libtorch" : "emulated");
  }

  void take_failure(const Job& job, const launch::Outcome& outcome) {
    const record::Result result =
        missing_measurement("pipeline_bubble", case_id_of(job.of), outcome, options_.time_limit);
    writer_->write(result);
    fmt::print("{}: {}: {}\n", job.of.name(), name_of(result.verdict), result.reason);
  }

  // Every action of the busiest rank, messages included.
  void take_executor(const BubbleRow& row) {
    const schedules::Schedule schedule = schedules::lower(schedules::generate(row.of.schedule_kind, row.of.shape));
    std::size_t actions = 0;
    for (const auto& rank : schedule.ranks) actions = std::max(actions, rank.size());
    record::Measurement measurement{
        .benchmark = "pipeline_bubble.executor",
        .case_id = case_id_of(row.of),
        .labels = {{"backend", driver_.group.subject.backend}, {"world", std::to_string(row.of.shape.ranks)}},
        .samples = {},
        .unit = "seconds",
        .derived = {}};
    for (const double seconds : row.makespans) measurement.samples.push_back(seconds / static_cast<double>(actions));
    writer_->write(measurement);
    executor_.emplace_back(row.of.shape.ranks, centre_of(measurement.samples));
  }

  void tell(const std::string& subject, double seconds) const {
    for (const auto& [ranks, centre] : executor_)
      fmt::print(
          "{}executor on {}: {:.2f} us an action beside computations, [{:.2f}, {:.2f}]{}\n", ranks == 1 ? "\n" : "",
          counted(static_cast<std::size_t>(ranks), "rank"), centre.median * 1e6, centre.low * 1e6, centre.high * 1e6,
          ranks == 1 ? ", no messages" : ", with a message for each computation, which the other rank waits for");
    std::vector<BubbleRow> emulated;
    std::ranges::copy_if(rows_, std::back_inserter(emulated), [](const BubbleRow& row) { return !row.of.libtorch; });
    if (!emulated.empty()) tell_ratios(emulated);
    std::set<std::string> reasons;
    for (const BubbleRow& row : rows_)
      if (const std::string why = why_no_closed_form(row.of); !why.empty())
        reasons.insert(fmt::format("no closed form of {}: {}",
                                   row.of.libtorch ? "libtorch" : schedules::name_of(row.of.schedule_kind), why));
    for (const std::string& reason : reasons) fmt::print("{}\n", reason);
    for (const std::string& reason : grid_.left_out()) fmt::print("left out: {}\n", reason);
    if (options_.published) fmt::print("\n{}", published_text(published_));
    if (!emulated.empty())
      record::write_file(fs::path(options_.out.path()) / "bubble.svg",
                         bubble_svg(emulated, fmt::format("Pipeline bubbles, {}, emulated devices", subject)));
    const std::string outputs = names_of_outputs(options_.out.path());
    tell_record(options_.out.path(), seconds, emulated.empty() ? outputs : outputs + " and bubble.svg");
  }

  // The fastest repetition says what is left on a machine that others use, too.
  static void tell_ratios(const std::vector<BubbleRow>& rows) {
    std::vector<double> ratios, fastest;
    for (const BubbleRow& row : rows) {
      ratios.push_back(row.ratio.median);
      fastest.push_back(std::ranges::min(row.ratios));
    }
    constexpr double kAim = 0.03;
    const auto tell = [](const char* what, const std::vector<double>& list) {
      const auto within = std::ranges::count_if(list, [](double ratio) { return std::abs(ratio - 1) <= kAim; });
      fmt::print("{}: median {:.3f}, largest {:.3f}; {} of {} pipelines within {:.0f}%\n", what, centre_of(list).median,
                 std::ranges::max(list), within, list.size(), 100 * kAim);
    };
    tell("measured over simulated makespan", ratios);
    tell("fastest repetition over simulated makespan", fastest);
  }

  const PipelineBenchOptions& options_;
  Grid grid_;
  launch::Options driver_;
  std::optional<record::Writer> writer_;
  json last_;
  std::vector<BubbleRow> rows_, published_;  // published_: where times are equal, for the claims
  std::vector<std::pair<int, Centre>> executor_;
};

// Emulated stages wait, and have no memory.
void require_stages_with_memory(const PipelineBenchOptions& options) {
  if (options.device == "cpu") return;
  const char* const why = "emulated stages only wait, for as long as a device would compute, and have no memory";
  if (!options.libtorch)
    throw InvalidArgument(fmt::format("--device {}: {}; it is for --libtorch", options.device, why));
  if (options.published)
    throw InvalidArgument(
        fmt::format("--published: with --device {} LibTorch's stages alone are measured; {}", options.device, why));
}

int measure_bubbles(const PipelineBenchOptions& options) {
  options.subject.require_no_job("bench pipeline_bubble");
  require_stages_with_memory(options);
  if (options.libtorch)
    if (const std::string why = subject::why_not_here("training", training::kTrainingFactory); !why.empty())
      throw subject::NotAvailable("bench pipeline_bubble --libtorch needs LibTorch: " + why);
  return PipelineBench(options).run();
}

record::Header bubbles_header(const PipelineBenchOptions& options) {
  return header_of("bench", options.subject.as_given(), options.device, options.reports);
}

}  // namespace

Command add_bench_pipeline(CLI::App& bench, const Program& program) {
  CLI::App* command = bench.add_subcommand(
      "pipeline_bubble",
      "Measure how long the ranks of a pipeline are idle, and compare with simulation and closed forms");
  auto options = std::make_shared<PipelineBenchOptions>();
  options->subject.add_to(*command, SubjectOptions::Kind::one_group, program);
  command->add_option("--schedule", options->schedules, "run only these schedules (default all that train)")
      ->delimiter(',');
  command->add_option("--stages", options->stages, "numbers of pipeline ranks (default 2,4)")
      ->delimiter(',')
      ->check(at_least(1));
  command->add_option("--micro-batches", options->micro_batches, "numbers of micro-batches per step (default 8,16)")
      ->delimiter(',')
      ->check(at_least(1, 4096));
  command->add_option("--chunks", options->chunks, "stages per rank of schedules with several (default 2)")
      ->check(at_least(1, 64));
  command
      ->add_option(
          "--durations", options->durations,
          "times of the computations on a micro-batch, in seconds: F forward, I input gradient, W weight gradient")
      ->type_name("ACTION=SECONDS,...")
      ->capture_default_str();
  command->add_option("--message-bytes", options->message_bytes, "size of a stage's output: 65536, 64Ki or 64KiB")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--repetitions", options->repetitions, "measured steps per pipeline, after one warm-up step")
      ->check(at_least(1))
      ->capture_default_str();
  command->add_flag("--full", options->full, "run stages 2,4,8 and micro-batches 4,8,16,32,64; takes minutes");
  CLI::Option* const libtorch =
      command->add_flag("--libtorch", options->libtorch, "also run real stages on 2 ranks: a multi-layer perceptron");
  command->add_option("--width", options->width, "width of the layers of the perceptron")
      ->check(at_least(1, 16384))
      ->needs(libtorch)
      ->capture_default_str();
  command->add_option("--rows", options->rows, "rows of a micro-batch of the perceptron")
      ->check(at_least(1, 65536))
      ->needs(libtorch)
      ->capture_default_str();
  command->add_flag("--published", options->published,
                    "also compare with published bubble ratios, with F, I and W equally long");
  command
      ->add_option("--device", options->device,
                   "device of the LibTorch stages, timed by its own events: cpu, cuda, cuda:N, emulated or emulated:N; "
                   "without N rank R uses device R modulo their number; stages that only wait are then left out")
      ->type_name("DEVICE")
      ->check(device_name(true))
      ->capture_default_str();
  command->add_option("--time-limit", options->time_limit, "time limit of a pipeline")
      ->check(seconds())
      ->capture_default_str();
  command->add_flag("--metrics-of-ranks", options->metrics_of_ranks,
                    "also write the bubble of each rank to metrics.prom: one series per rank and pipeline");
  options->reports.add_to(*command);
  options->out.add_to(*command, "folder of the record and the picture");
  group_options(*command, "Subject",
                {"--backend", "--backend-option", "--launcher", "--control-address", "--mutant", "--device"});
  group_options(*command, "What runs",
                {"--schedule", "--stages", "--micro-batches", "--chunks", "--durations", "--message-bytes",
                 "--repetitions", "--full", "--published", "--time-limit"});
  group_options(*command, "Real stages", {"--libtorch", "--width", "--rows"});
  group_options(*command, "Output", {"--out", "--metrics-of-ranks", "--label", "--subject-name"});
  command->footer("Example: plumbline bench pipeline_bubble --schedule 1f1b,zb-h1 --stages 4 --micro-batches 8,16");
  const auto run = [options] {
    return with_unfinished_reports(options->out, bubbles_header(*options), [&] { return measure_bubbles(*options); });
  };
  return {run, [options](const CommandLine& line, const std::string& why) {
            refuse_in_reports(line, bubbles_header(*options), why);
          }};
}

}  // namespace plumbline::cli
