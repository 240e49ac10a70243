// `plumbline bench allreduce_fusion`: does it pay to reduce gradients together, in buckets of which size, and from
// which size on.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "benchmarks/fusion_report.hpp"
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
#include "reference/bucketing/plan.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using bucketing::BucketTime;
using nlohmann::json;

struct FusionBenchOptions {
  SubjectOptions subject;
  std::vector<std::string> models{"resnet50", "gpt2"};
  std::vector<std::string> limits{"1MiB", "4MiB", "10MiB", "25MiB", "100MiB", "flat"};
  int ranks = 2;
  int rounds = 15;
  double seconds = 60;
  std::string device = "cpu";
  OutputFolder out{"allreduce_fusion"};
  ReportOptions reports;
};

std::string limit_text(std::int64_t bytes) {
  if (bytes == 0) return "one each";
  if (bytes == bucketing::kNoLimit) return "flat";
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} bytes", bytes);
}

std::int64_t limit_of(const std::string& text) {
  if (text == "flat") return bucketing::kNoLimit;
  const std::int64_t bytes = bytes_in("--buckets", text);
  if (bytes < 1) throw InvalidArgument(fmt::format("--buckets '{}': 1 byte or more, or flat for one bucket", text));
  return bytes;
}

std::string interval_text(const std::string& low, const std::string& high) {
  return low == high ? fmt::format("95 % interval {} alone", low) : fmt::format("95 % interval {} to {}", low, high);
}

BucketTime time_of_json(const json& value) {
  BucketTime time = bucketing::time_of(value.at("bucket_bytes"), value.at("samples"));
  time.launches = value.at("launches");
  return time;
}

// What was measured of a model's steps.
struct Steps {
  std::string model;
  std::size_t gradients = 0;
  std::int64_t bytes = 0, chosen = 0;
  std::vector<BucketTime> times;
  BucketTime per_tensor;
};
Steps steps_of_json(const std::string& model, const json& value) {
  Steps steps{.model = model,
              .gradients = value.at("gradients"),
              .bytes = value.at("bytes"),
              .chosen = value.at("chosen"),
              .times = {},
              .per_tensor = time_of_json(value.at("per_tensor"))};
  for (const json& time : value.at("times")) steps.times.push_back(time_of_json(time));
  return steps;
}

class FusionBench {
 public:
  explicit FusionBench(const FusionBenchOptions& options) : options_(options), driver_(options.subject.driver()) {
    require_ranks("--world-size", options.ranks);
    for (const std::string& text : options.limits) limits_.push_back(limit_of(text));
    std::ranges::sort(limits_);
    limits_.erase(std::ranges::unique(limits_).begin(), limits_.end());
    driver_.group.worker_options = device_options(options.device);
    driver_.group.worker_options.emplace_back("--no-flight");  // events would be timed too
  }

  int run() {
    const launch::Subject& subject = driver_.group.subject;
    const record::Header header = header_of("bench", subject, options_.device, options_.reports, options_.ranks);
    writer_.emplace(options_.out.path(), header);
    const auto heading = [&] {
      fmt::print("{} on {}, {}: up to {}, {} s each\n", header.subject, options_.device,
                 run::counted(options_.ranks, "rank"), run::counted(options_.rounds, "round"), options_.seconds);
    };
    return run_measurements(assignments(), driver_, observer(), *writer_, options_.out.path(), 0, heading,
                            [&](double seconds) { tell_record(options_.out.path(), seconds); });
  }

 private:
  [[nodiscard]] std::vector<launch::Assignment> assignments() const {
    std::vector<launch::Assignment> list;
    const auto add = [&](json arguments) {
      arguments.update({{"rounds", options_.rounds}, {"seconds", options_.seconds}});
      list.push_back({.command = {{"type", "task"},
                                  {"name", "bench"},
                                  {"device", options_.device},
                                  {"arguments", std::move(arguments)}},
                      .world = options_.ranks,
                      .isolation = "bench",
                      .limit = std::chrono::duration<double>(limit_seconds())});
    };
    for (const std::string& model : options_.models)
      add({{"benchmark", "allreduce_fusion.choice"}, {"model", model}, {"limits", limits_}});
    for (const std::string& model : options_.models)
      add({{"benchmark", "allreduce_fusion.beside"}, {"model", model}, {"limit", kOverlapLimit}});
    add({{"benchmark", "allreduce_fusion.crossover"}, {"together", kTogether}});
    return list;
  }
  // The rounds that are made whatever they take need some more.
  [[nodiscard]] double limit_seconds() const { return 300 + 2 * options_.seconds; }

  launch::Observer observer() {
    launch::Observer observer;
    observer.before = [this](std::size_t, const json& description) -> std::optional<launch::Outcome> {
      require_device(options_.device, driver_.group.subject.backend, description);
      writer_->subject(description);
      return std::nullopt;
    };
    observer.output = [this](std::size_t, int, const json& value) { last_ = value; };
    observer.end = [this](std::size_t index, const launch::Outcome& outcome) {
      const std::size_t models = options_.models.size();
      const bool is_crossover = index == 2 * models;
      const std::string name = is_crossover ? "crossover" : options_.models[index % models];
      if (outcome.verdict != record::Verdict::pass || !last_.is_object())
        take_failure(index >= models && !is_crossover ? name + ", overlap" : name, outcome);
      else if (is_crossover)
        take_crossover();
      else if (index < models)
        take_steps(steps_of_json(name, last_));
      else
        take_overlap(name);
      std::cout.flush();
      last_ = nullptr;
      return true;
    };
    observer.log = [](const std::string& line) { std::cerr << line << '\n'; };
    return observer;
  }

  // Whether it was measured or not.
  [[nodiscard]] std::string case_id_of(const std::string& what) const {
    return fmt::format("allreduce_fusion[{},world={}]", what, options_.ranks);
  }

  void take_failure(const std::string& what, const launch::Outcome& outcome) {
    const record::Result result = missing_measurement("allreduce_fusion", case_id_of(what), outcome, limit_seconds());
    writer_->write(result);
    fmt::print("{}: {}: {}\n", what, name_of(result.verdict), result.reason);
  }

  void write(const std::string& what, const std::string& benchmark, const std::string& size, std::int64_t bytes,
             std::vector<double> samples, std::map<std::string, double> derived) {
    record::Measurement measurement{
        .benchmark = benchmark,
        .case_id = case_id_of(what),
        .labels = {{"backend", driver_.group.subject.backend}, {"world", std::to_string(options_.ranks)}},
        .samples = std::move(samples),
        .unit = "seconds",
        .derived = std::move(derived)};
    measurement.labels[size] = std::to_string(bytes);
    if (options_.device != "cpu") measurement.labels["device"] = options_.device;
    writer_->write(measurement);
  }

  void take_steps(const Steps& steps) {
    fmt::print("\n{}: {} gradients, {:.1f} MiB, {} rounds\n{:>12} {:>9} {:>11} {:>23} {:>11} {:>11} {:>15}\n",
               steps.model, steps.gradients, static_cast<double>(steps.bytes) / (1 << 20),
               steps.per_tensor.samples.size(), "buckets", "launches", "ms a step", "quartiles", "algbw GB/s",
               "busbw GB/s", "of per tensor");
    take_row(steps, steps.per_tensor, "per tensor");
    for (const BucketTime& time : steps.times) take_row(steps, time, limit_text(time.limit_bytes));
    const BestLimit best = best_limit(steps.times);
    const std::optional<std::int64_t> from = pays_from(steps.times);
    fmt::print("best buckets: {}, {}; {}\n--bucket-size auto: {}\n", limit_text(best.limit_bytes),
               interval_text(limit_text(best.low), limit_text(best.high)),
               from ? fmt::format("they pay from {} on", limit_text(*from)) : "a bucket a gradient is as fast",
               limit_text(steps.chosen));
  }

  void take_row(const Steps& steps, const BucketTime& time, const std::string& name) {
    const double algbw = static_cast<double>(steps.bytes) / time.seconds;
    const double busbw = algbw * 2 * (options_.ranks - 1) / options_.ranks;
    fmt::print("{:>12} {:>9} {:>11.3f} {:>23} {:>11.2f} {:>11.2f} {:>15.2f}\n", name, time.launches, time.seconds * 1e3,
               fmt::format("[{:.3f}, {:.3f}]", time.low * 1e3, time.high * 1e3), algbw / 1e9, busbw / 1e9,
               time.seconds / steps.per_tensor.seconds);
    const bool fused = name != "per tensor";
    write(steps.model, fmt::format("allreduce_fusion.{}.{}", steps.model, fused ? "rounds" : "rounds_per_tensor"),
          "bucket_bytes", time.limit_bytes, time.samples,
          {{"launches", static_cast<double>(time.launches)},
           {"algbw_bytes_per_second", algbw},
           {"busbw_bytes_per_second", busbw},
           {"speed_up", steps.per_tensor.seconds / time.seconds},
           {"chosen", fused && time.limit_bytes == steps.chosen ? 1.0 : 0.0}});
  }

  void take_overlap(const std::string& model) {
    const OverlapTimes times{.backward = last_.at("backward"),
                             .reductions = last_.at("reductions"),
                             .serial = last_.at("serial"),
                             .overlapped = last_.at("overlapped")};
    const Overlap found = overlap_of(times);
    const auto milliseconds = [](const std::vector<double>& samples) {
      return bucketing::time_of(0, samples).seconds * 1e3;
    };
    fmt::print(
        "\n{}: a backward of {:.2f} ms and reductions of {:.2f} ms in buckets of {}, {} rounds: one after the "
        "other {:.2f} ms, beside each other {:.2f} ms, {} of the shorter hidden\n",
        model, milliseconds(times.backward), milliseconds(times.reductions), limit_text(kOverlapLimit), found.rounds,
        milliseconds(times.serial), milliseconds(times.overlapped),
        found.hidden > 0 ? fmt::format("{:.0f} %", 100 * found.hidden) : "nothing");
    const std::string guideline = "guideline, reductions beside a backward are not a tenth slower than after it";
    fmt::print("{}: {}, slower in {} of {} rounds (one-sided U test: chance {:.2g})\n", guideline,
               found.keeps_guideline() ? "kept" : "broken", found.slower, found.rounds, found.chance);
    for (const auto& [kind, samples] : {std::pair("backward", &times.backward),
                                        {"reductions", &times.reductions},
                                        {"serial", &times.serial},
                                        {"overlapped", &times.overlapped}})
      write(model + ", overlap", fmt::format("allreduce_fusion.{}.beside_{}", model, kind), "bucket_bytes",
            kOverlapLimit, *samples, {{"hidden_share", found.hidden}});
    writer_->write(record::Result{
        .check = "allreduce_fusion",
        .case_id = fmt::format("allreduce_fusion[{},guideline=overlap,world={}]", model, options_.ranks),
        .verdict = found.keeps_guideline() ? record::Verdict::pass : record::Verdict::fail,
        .reason = found.keeps_guideline()
                      ? std::string()
                      : fmt::format("{}: in {} of {} rounds they were", guideline, found.slower, found.rounds)});
  }

  void take_crossover() {
    std::vector<FusionTime> times;
    for (const json& time : last_.at("times"))
      times.push_back({time.at("bytes"), time.at("separate"), time.at("fused")});
    fmt::print(
        "\n{} gradients of a size, copied to one buffer and back: us a gradient, {} rounds\n{:>12} {:>11} {:>11}\n",
        kTogether, times.front().fused.size(), "each", "separate", "fused");
    for (const FusionTime& time : times) {
      const double separate = bucketing::time_of(0, time.separate).seconds;
      const double fused = bucketing::time_of(0, time.fused).seconds;
      fmt::print("{:>12} {:>11.2f} {:>11.2f}\n", limit_text(time.bytes), separate * 1e6, fused * 1e6);
      write("crossover", "allreduce_fusion.crossover.separate", "bytes", time.bytes, time.separate, {});
      write("crossover", "allreduce_fusion.crossover.fused", "bytes", time.bytes, time.fused,
            {{"speed_up", separate / fused}});
    }
    const Crossover found = pays_up_to(times);
    const auto text = [](const std::optional<std::int64_t>& bytes) { return bytes ? limit_text(*bytes) : "no size"; };
    fmt::print("crossover: copying gradients together pays up to {} each, {}\n", text(found.bytes),
               interval_text(text(found.low), text(found.high)));
  }

  static constexpr int kTogether = 8;
  static constexpr std::int64_t kOverlapLimit = 25 << 20;  // DistributedDataParallel's
  const FusionBenchOptions& options_;
  launch::Options driver_;
  std::vector<std::int64_t> limits_;
  std::optional<record::Writer> writer_;
  json last_;
};

}  // namespace

Command add_bench_fusion(CLI::App& bench, const Program& program) {
  CLI::App* command = bench.add_subcommand(
      "allreduce_fusion", "Measure which bucket size reduces gradients fastest, and from which size fusing pays");
  auto options = std::make_shared<FusionBenchOptions>();
  options->subject.add_to(*command, SubjectOptions::Kind::one_group, program);
  command->add_option("--model", options->models, "models whose gradients are reduced: resnet50, gpt2")
      ->type_name("MODEL")
      ->delimiter(',')
      ->check(CLI::IsMember({"resnet50", "gpt2"}))
      ->capture_default_str();
  command->add_option("--buckets", options->limits, "bucket sizes in bytes: 64KiB,25MiB; flat is one bucket")
      ->type_name("SIZE")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--world-size", options->ranks, "number of ranks, at most 64")
      ->check(at_least(1))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "number of times that each bucket size is measured")
      ->check(at_least(1, 10000))
      ->capture_default_str();
  command
      ->add_option("--seconds", options->seconds,
                   "time after which no further round of a model begins; three always run")
      ->check(seconds())
      ->capture_default_str();
  command
      ->add_option("--device", options->device,
                   "device of the gradients, timed by its own events: cpu, cuda, cuda:N, emulated or emulated:N; "
                   "without N rank R uses device R modulo their number")
      ->type_name("DEVICE")
      ->check(device_name(true))
      ->capture_default_str();
  options->reports.add_to(*command);
  options->out.add_to(*command, "folder of the record");
  group_options(*command, "Subject",
                {"--backend", "--backend-option", "--launcher", "--control-address", "--mutant", "--device"});
  group_options(*command, "What runs", {"--model", "--buckets", "--world-size", "--rounds", "--seconds"});
  group_options(*command, "Output", {"--out", "--label", "--subject-name"});
  command->footer("Example: plumbline bench allreduce_fusion --backend mpi --model resnet50");
  const auto header = [options] {
    return header_of("bench", options->subject.as_given(), options->device, options->reports, options->ranks);
  };
  const auto run = [options, header] {
    return with_unfinished_reports(options->out, header(), [&] {
      options->subject.require_no_job("bench allreduce_fusion");
      return FusionBench(*options).run();
    });
  };
  return {run, [options, header](const CommandLine& line, const std::string& why) {
            refuse_in_reports(line, header(), why);
          }};
}

}  // namespace plumbline::cli
