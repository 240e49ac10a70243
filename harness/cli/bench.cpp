// `plumbline bench`: how fast a subject is.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/bench/benchmark.hpp"
#include "harness/cli/arguments.hpp"
#include "harness/cli/cases.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/measured_run.hpp"
#include "harness/cli/missing_measurement.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/record/environment.hpp"
#include "harness/record/host_load.hpp"
#include "harness/run/counted.hpp"
#include "harness/run/launches.hpp"
#include "harness/run/summary.hpp"
#include "harness/subject/modules.hpp"
#include "harness/suite/plan.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"
#include "reference/support/quantile.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

struct BenchOptions {
  SubjectOptions subject;
  std::vector<std::string> patterns{"collectives.*"};
  std::vector<std::string> sizes{"4", "1Ki", "4Ki", "64Ki", "1Mi", "16Mi"};
  std::vector<int> worlds{2};
  int repetitions = 0;  // 0: by launches
  int launches = 6;     // the fewest that give a median an interval of 95 %
  double within = 0;    // percent; 0: all launches are made
  double min_seconds = 0.02;
  double time_limit = 120;
  std::string device = "cpu";
  OutputFolder out{"bench"};
  double budget = 0;  // seconds; 0: none
  ReportOptions reports;
  std::string sync = "barrier";
  bool pin = false;
  bool require_quiet = false;
  bool list = false;
  bool chooses = false, sizes_given = false;  // --benchmark, --sizes
};

bool matches_any(const std::vector<std::string>& patterns, const bench::Benchmark& benchmark) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return suite::matches(pattern, benchmark.name); });
}

// Of names without * and ?, which one may have been meant.
std::string benchmark_meant(const std::vector<std::string>& patterns, const bench::Registry& registry) {
  std::vector<std::string> names;
  for (const bench::Benchmark& benchmark : registry) names.push_back(benchmark.name);
  return patterns.size() == 1 ? did_you_mean(patterns.front(), names) : "";
}

// "64Ki" -> 65536. What is measured has elements of four bytes.
std::int64_t parse_size(const std::string& text, bool of_elements) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const std::optional<std::int64_t> bytes = parse_bytes(text);
  if (!bytes || *bytes > most)
    throw InvalidArgument(fmt::format("--sizes '{}' is not a number of bytes such as 4, 64Ki, 64KiB or 16MiB", text));
  if (of_elements && *bytes % 4 != 0)
    throw InvalidArgument(fmt::format("--sizes {}: elements are f32; it must be a multiple of 4 bytes", text));
  return *bytes;
}

std::string size_text(std::int64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}Mi", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}Ki", bytes >> 10);
  return std::to_string(bytes);
}

class BenchRun {
 public:
  BenchRun(const BenchOptions& options, const bench::Registry& registry) : options_(options), registry_(registry) {
    for (const int world : options.worlds) require_ranks("--world-size", world, kMostRanks);
    for (const int world : options.worlds)
      for (const bench::Benchmark& benchmark : registry) {
        if (!is_wanted(benchmark) || benchmark.study || world < benchmark.least_world) continue;
        require_served(benchmark);
        if (benchmark.fits && !benchmark.fits(world)) continue;
        for (const std::string& size : benchmark.has_sizes ? options.sizes : std::vector<std::string>{"0"})
          add_job(benchmark, world, size);
      }
    if (jobs_.empty()) refuse_studies_alone();
    if (jobs_.empty())
      throw NotFound(fmt::format("--benchmark '{}' matches nothing that {} ranks can run; --list prints them{}",
                                 fmt::join(options.patterns, " "), fmt::join(options.worlds, ", "),
                                 benchmark_meant(options.patterns, registry)));
    if (options.sizes_given && std::ranges::none_of(jobs_, [](const Job& job) { return job.benchmark->has_sizes; }))
      throw InvalidArgument(fmt::format("--sizes {}: {} has one size alone", fmt::join(options.sizes, ","),
                                        jobs_.front().benchmark->name));
  }

  int run() {
    launch::Options driver = options_.subject.driver();
    driver.group.worker_options = device_options(options_.device);
    driver.group.worker_options.emplace_back("--no-flight");  // events would be timed too
    driver.start_ahead = false;
    const launch::Subject& subject = driver.group.subject;
    record::Header header = header_of("bench", subject, options_.device, options_.reports);
    if (options_.launches > 1) header.seed = std::random_device()();
    writer_.emplace(options_.out.path(), header);
    subject_ = subject;
    order_ = order_of_launches(header.seed);
    std::vector<launch::Assignment> assignments;
    for (std::size_t at = 0; at < order_.size(); ++at) assignments.push_back(assignment_of(at));
    for (const Job& job : jobs_) name_width_ = std::max(name_width_, job.benchmark->name.size() + 2);
    const int status = run_measurements(
        assignments, driver, observer(), *writer_, options_.out.path(), options_.budget,
        [&] { print_heading(header.subject); }, [&](double seconds) { tell_record(options_.out.path(), seconds); },
        [this] {
          erase_progress();
          finish_launched(jobs_.size());
        });
    tell_wide();
    tell_host();
    look_again();
    return status == 0 ? status_of_noise() : status;
  }

 private:
  struct Job {
    const bench::Benchmark* benchmark;
    int world;
    std::int64_t bytes;
    std::vector<record::Launch> launches{};
    nlohmann::json last{};   // what the last of them said
    bool is_over = false;    // its line is in the record
    bool is_narrow = false;  // --within: no further launch has it
  };

  // Which job is measured when: each launch has all of them, in an order of its own, those of a world together in one
  // fresh group. In the last launch they end, so that one is in the order of the table, baselines first.
  [[nodiscard]] std::vector<std::size_t> order_of_launches(std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<std::size_t> order;
    for (int launch = 1; launch <= options_.launches; ++launch) {
      std::vector<std::size_t> jobs(jobs_.size());
      std::iota(jobs.begin(), jobs.end(), 0);
      if (launch < options_.launches) {
        std::ranges::shuffle(jobs, random);
        std::vector<int> worlds = options_.worlds;
        std::ranges::shuffle(worlds, random);
        std::ranges::stable_sort(jobs, {},
                                 [&](std::size_t job) { return std::ranges::find(worlds, jobs_[job].world); });
      }
      order.insert(order.end(), jobs.begin(), jobs.end());
    }
    return order;
  }

  [[nodiscard]] launch::Assignment assignment_of(std::size_t at) const {
    const Job& job = jobs_[order_[at]];
    return {.command = {{"type", "task"},
                        {"name", "bench"},
                        {"device", options_.device},
                        {"arguments",
                         {{"benchmark", job.benchmark->name},
                          {"bytes", job.bytes},
                          {"repetitions", options_.repetitions},
                          {"min_seconds", options_.min_seconds},
                          {"sync", options_.sync},
                          {"pin", options_.pin}}}},
            .world = job.world,
            .isolation = fmt::format("launch {}", at / jobs_.size() + 1),
            .limit = std::chrono::duration<double>(options_.time_limit)};
  }

  void print_heading(const std::string& subject) const {
    fmt::print("{} on {}: {}, ", subject, options_.device, run::counted(jobs_.size(), "measurement"));
    const std::string repetitions = run::counted(options_.repetitions, "repetition");
    if (options_.launches > 1)
      fmt::print(
          "{}{} launches of {} each; median of the launches' medians, its 95 % interval\n"
          "{:<{}} {:>5} {:>7} {:>16} {:>26} {:>16} {:>9} {:>11}\n",
          options_.within > 0 ? "at most " : "", options_.launches, repetitions, "benchmark", name_width_, "ranks",
          "bytes", "median", "interval", "minimum", "launches", "busbw GB/s");
    else
      fmt::print(
          "{} each; spread: interquartile range over median\n"
          "{:<{}} {:>5} {:>7} {:>16} {:>16} {:>8} {:>11}\n",
          repetitions, "benchmark", name_width_, "ranks", "bytes", "median", "minimum", "spread", "busbw GB/s");
  }

  [[nodiscard]] bool is_wanted(const bench::Benchmark& benchmark) const {
    return matches_any(options_.patterns, benchmark);
  }
  void require_served(const bench::Benchmark& benchmark) const {
    if (options_.device == "cpu" || benchmark.only_on_host.empty()) return;
    std::vector<std::string> names;
    for (const bench::Benchmark& one : registry_)
      if (!one.study && !one.only_on_host.empty()) names.push_back(one.name);
    throw InvalidArgument(
        fmt::format("--device {}: {} has its data in the host's memory, for {}; all have them in a device's but {}",
                    options_.device, benchmark.name, benchmark.only_on_host, fmt::join(names, ", ")));
  }
  // They have a command of their own, which says what to do with their answers.
  void refuse_studies_alone() const {
    const bench::Benchmark* study = nullptr;
    for (const bench::Benchmark& benchmark : registry_) {
      if (!is_wanted(benchmark)) continue;
      if (!benchmark.study) return;
      if (study == nullptr) study = &benchmark;
    }
    if (study != nullptr)
      throw InvalidArgument(fmt::format("--benchmark '{}': `plumbline {}` measures {}",
                                        fmt::join(options_.patterns, " "),
                                        study->title.substr(study->title.rfind(": ") + 2), study->name));
  }
  void add_job(const bench::Benchmark& benchmark, int world, const std::string& size) {
    const std::int64_t bytes = parse_size(size, benchmark.has_sizes && benchmark.size_label.empty());
    const auto memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
    // Two buffers a rank, and room for what a backend puts between them.
    if (!options_.device.starts_with("cuda") && 3.0 * static_cast<double>(bytes) * world > memory)
      throw InvalidArgument(fmt::format("--sizes {}: {} ranks need more than the {:.1f} GiB that this machine has",
                                        size, world, memory / (1 << 30)));
    const bool is_there = std::ranges::any_of(
        jobs_, [&](const Job& job) { return job.benchmark == &benchmark && job.world == world && job.bytes == bytes; });
    if (!is_there) jobs_.push_back({&benchmark, world, bytes});
  }

  launch::Observer observer() {
    launch::Observer observer;
    observer.wanted = [this](std::size_t at) { return !jobs_[order_[at]].is_narrow && !jobs_[order_[at]].is_over; };
    observer.before = [this](std::size_t, const nlohmann::json& description) -> std::optional<launch::Outcome> {
      require_device(options_.device, subject_.backend, description);
      writer_->subject(description);
      host_ = record::HostLoad();
      return std::nullopt;
    };
    observer.output = [this](std::size_t, int, const nlohmann::json& value) { last_ = value; };
    observer.end = [this](std::size_t at, const launch::Outcome& outcome) {
      erase_progress();
      take(jobs_[order_[at]], outcome);
      draw_progress(at);
      return true;
    };
    observer.log = [](const std::string& line) { std::cerr << line << '\n'; };
    return observer;
  }

  // A table's first line comes in the last launch: until then a terminal shows how far the run is.
  void draw_progress(std::size_t at) const {
    if (!terminal_ || options_.launches == 1) return;
    fmt::print("\r\033[K[{}/{}] launch {} of {}", at + 1, order_.size(), at / jobs_.size() + 1, options_.launches);
    std::cout.flush();
  }
  void erase_progress() const {
    if (terminal_ && options_.launches > 1) fmt::print("\r\033[K");
  }

  // Whether it was measured or not.
  static std::string case_id_of(const Job& job) {
    return fmt::format("{}[bytes={},world={}]", job.benchmark->name, job.bytes, job.world);
  }

  [[nodiscard]] std::string row_name(const Job& job, std::int64_t bytes) const {
    return fmt::format("{:<{}} {:>5} {:>7}", job.benchmark->name, name_width_, job.world,
                       !job.benchmark->has_sizes           ? ""
                       : job.benchmark->size_label.empty() ? size_text(bytes)
                                                           : size_text(job.bytes));
  }

  void take(Job& job, const launch::Outcome& outcome) {
    if (job.is_over) return;
    const nlohmann::json last = std::exchange(last_, nullptr);
    if (outcome.verdict != record::Verdict::pass || !last.is_object()) {
      const record::Result result =
          missing_measurement(job.benchmark->name, case_id_of(job), outcome, options_.time_limit);
      writer_->write(result);
      fmt::print("{}  {}: {}\n", row_name(job, job.bytes), name_of(result.verdict), result.reason);
      job.is_over = true;
      return;
    }
    record::Launch launch{.samples = last.at("samples"), .host = host_.until_now()};
    const nlohmann::json host = last.value("host", nlohmann::json::object());
    for (const auto& [name, value] : host.items()) {
      // Ranks that outnumber the cores wait for each other.
      if (name == "waited" && job.world > usable_cores_) continue;
      launch.host[name] = value;
      if (name == "calibration_seconds") note_calibration(job.world, value.get<double>());
    }
    job.launches.push_back(std::move(launch));
    job.last = last;
    job.is_narrow = options_.within > 0 && width_of(job) <= options_.within / 100;
    if (static_cast<int>(job.launches.size()) < options_.launches) return;
    finish_launched(static_cast<std::size_t>(&job - jobs_.data() + 1));
  }

  // The interval of its median over the median; infinite for too few launches.
  [[nodiscard]] static double width_of(const Job& job) {
    const std::vector<double> medians = run::medians_of(job.launches);
    const auto interval = run::interval_of_median(medians);
    if (!interval) return std::numeric_limits<double>::infinity();
    return (interval->second - interval->first) / quantile(medians, 0.5);
  }

  // With the launches that there are: of the first `end` all that are to be made, or of a run that was stopped those
  // that were. Lines are in the order of the table, where baselines come first.
  void finish_launched(std::size_t end) {
    for (Job& job : std::span(jobs_).first(end))
      if (!job.is_over && !job.launches.empty()) finish(job);
  }

  // Where all launches were made.
  void tell_wide() const {
    const auto wide = std::ranges::count_if(jobs_, [this](const Job& job) {
      return !job.is_narrow && static_cast<int>(job.launches.size()) == options_.launches;
    });
    if (options_.within > 0 && wide > 0)
      fmt::print("{} of {} measurements are not within {} %: more --launches, or a quieter host\n", wide, jobs_.size(),
                 options_.within);
  }

  // How the host was during the run, from the worst of each measurement.
  void tell_host() const {
    std::vector<record::Launch> all;
    for (const Job& job : jobs_) all.insert(all.end(), job.launches.begin(), job.launches.end());
    const std::map<std::string, double> worst = run::worst_of_host(all);
    std::vector<std::string> words;
    const auto say = [&](const char* name, const auto& text) {
      if (const auto found = worst.find(name); found != worst.end()) words.push_back(text(found->second));
    };
    say("load", [](double load) { return fmt::format("load up to {:.1f}", load); });
    say("steal_ratio", [](double share) { return fmt::format("up to {:.1f} % of the time stolen", share * 100); });
    say("clock_hertz", [](double hertz) { return fmt::format("clock from {:.2f} GHz", hertz / 1e9); });
    say("pinned", [](double pinned) { return std::string(pinned == 1 ? "ranks pinned" : "ranks not pinned"); });
    if (!words.empty()) fmt::print("host: {}\n", fmt::join(words, ", "));
  }

  void finish(Job& job) {
    job.is_over = true;
    // What was moved: a rank's share is a whole number of elements.
    const std::int64_t bytes = job.last.at("bytes").get<std::int64_t>();
    record::Measurement measurement{
        .benchmark = job.benchmark->name,
        .case_id = case_id_of(job),
        .labels = {{"backend", subject_.backend}, {"world", std::to_string(job.world)}, {"dtype", "f32"}},
        .unit = "seconds",
        .answer_checked = job.last.value("checked", false),
        .launches = job.launches,
        .noisy = why_noisy(job)};
    for (const record::Launch& launch : job.launches)
      measurement.samples.insert(measurement.samples.end(), launch.samples.begin(), launch.samples.end());
    if (options_.device != "cpu") measurement.labels["device"] = options_.device;
    if (options_.sync != "barrier") measurement.labels["sync"] = options_.sync;
    measurement.derived = job.last.value("derived", std::map<std::string, double>());
    measurement.derived.merge(run::worst_of_windows(job.launches));
    const std::string& label = job.benchmark->size_label;
    if (job.benchmark->has_sizes || !label.empty()) measurement.labels["bytes"] = std::to_string(bytes);
    if (job.benchmark->has_sizes && !label.empty()) measurement.labels[label] = std::to_string(job.bytes);
    const double median = run::center_of(measurement);
    std::string bandwidth;
    if (job.benchmark->busbw_factor && median > 0) {
      const double algbw = static_cast<double>(bytes) / median;
      measurement.derived["algbw_bytes_per_second"] = algbw;
      measurement.derived["busbw_bytes_per_second"] = algbw * job.benchmark->busbw_factor(job.world);
      bandwidth = fmt::format("{:.3f}", measurement.derived["busbw_bytes_per_second"] / 1e9);
    }
    const std::string ratio = ratio_to_baseline(job, median, measurement);
    writer_->write(measurement);
    if (measurement.noisy.empty()) quiet_.push_back(&job);
    noisy_ += measurement.noisy.empty() ? 0 : 1;
    fmt::print("{} {:>13.3f} us{}{:>12}{}{}\n", row_name(job, bytes), median * 1e6, figures(measurement, median),
               bandwidth, ratio, measurement.noisy.empty() ? "" : "  noisy: " + measurement.noisy);
    std::cout.flush();
  }

  // Between the median and the bandwidth.
  [[nodiscard]] std::string figures(const record::Measurement& measurement, double median) const {
    const double minimum = quantile(measurement.samples, 0) * 1e6;
    if (options_.launches == 1) {
      const double range = quantile(measurement.samples, 0.75) - quantile(measurement.samples, 0.25);
      return fmt::format(" {:>13.3f} us {:>7.1f}%", minimum, median > 0 ? range / median * 100 : 0);
    }
    const auto interval = run::interval_of_median(run::medians_of(measurement.launches));
    return fmt::format("{:>27} {:>13.3f} us{:>10}",
                       interval ? fmt::format("[{:.3f}, {:.3f}]", interval->first * 1e6, interval->second * 1e6) : "",
                       minimum, measurement.launches.size());
  }

  // Ranks that share a core are slower than those that do not: the best is that of groups of the same size.
  void note_calibration(int world, double seconds) {
    double& best = best_calibrations_.try_emplace(world, seconds).first->second;
    best = std::min(best, seconds);
  }
  [[nodiscard]] std::string why_noisy(const Job& job) const {
    const auto best = best_calibrations_.find(job.world);
    return run::why_noisy(job.launches, best == best_calibrations_.end() ? 0 : best->second);
  }

  // Measurements that were made while the machine was slow, which those after them have shown.
  void look_again() {
    for (const Job* job : quiet_)
      if (const std::string noisy = why_noisy(*job); !noisy.empty()) {
        ++noisy_;
        fmt::print("{}  noisy, as later ones show: {}\n", case_id_of(*job), noisy);
      }
  }

  // Of a run that is well otherwise.
  [[nodiscard]] int status_of_noise() const {
    if (noisy_ == 0) return 0;
    std::cerr << fmt::format("plumbline: {} of {} measurements are noisy: the host was too busy{}\n", noisy_,
                             jobs_.size(), options_.require_quiet ? "; repeat them on a quiet one" : "");
    return options_.require_quiet ? 3 : 0;
  }

  // As text, and in what is derived; nothing where the baseline was not measured.
  std::string ratio_to_baseline(const Job& job, double median, record::Measurement& measurement) {
    const auto key = [&](const std::string& name) { return std::tuple(name, job.world, job.bytes); };
    medians_[key(job.benchmark->name)] = median;
    const auto baseline = medians_.find(key(job.benchmark->baseline));
    if (baseline == medians_.end() || baseline->second <= 0) return {};
    const double ratio = measurement.derived["ratio_to_baseline"] = median / baseline->second;
    return fmt::format("  {:.2f} x {}", ratio, job.benchmark->baseline);
  }

  const BenchOptions& options_;
  const bench::Registry& registry_;
  std::map<std::tuple<std::string, int, std::int64_t>, double> medians_;
  std::vector<Job> jobs_;
  std::vector<std::size_t> order_;  // indices of jobs_, in which they are measured
  const bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::size_t name_width_ = 34;
  int usable_cores_ = record::capture_environment().at("usable_cores").get<int>();
  record::HostLoad host_;                    // since the measurement began
  std::map<int, double> best_calibrations_;  // by ranks
  std::vector<const Job*> quiet_;            // of jobs_, as far as was known when each was finished
  int noisy_ = 0;
  launch::Subject subject_;
  std::optional<record::Writer> writer_;
  nlohmann::json last_;
};

// All, or those that --benchmark names.
int list_benchmarks(const BenchOptions& options, const bench::Registry& registry) {
  std::vector<const bench::Benchmark*> listed;
  for (const bench::Benchmark& benchmark : registry)
    if (!options.chooses || matches_any(options.patterns, benchmark)) listed.push_back(&benchmark);
  if (listed.empty())
    throw NotFound(fmt::format("--benchmark '{}' matches nothing; --list alone prints them{}",
                               fmt::join(options.patterns, " "), benchmark_meant(options.patterns, registry)));
  std::size_t width = 0;
  for (const bench::Benchmark* benchmark : listed) width = std::max(width, benchmark->name.size());
  for (const bench::Benchmark* benchmark : listed) fmt::print("{:<{}}  {}\n", benchmark->name, width, benchmark->title);
  return 0;
}

// Repetitions of one group share its luck: more launches say more than more of them.
void settle_repetitions(BenchOptions& options) {
  if (options.repetitions == 0) options.repetitions = options.launches > 1 ? 3 : 7;
}

// --within is given.
void settle_launches(BenchOptions& options, bool are_given) {
  constexpr int kUsual = 30, kLeast = 6;
  if (!are_given) options.launches = kUsual;
  if (options.launches < kLeast)
    throw InvalidArgument(fmt::format("--launches {}: with --within it is {} or more, which an interval takes",
                                      options.launches, kLeast));
}

// Of a run that has not begun.
record::Header begun_header(const BenchOptions& options) {
  return header_of("bench", options.subject.as_given(), options.device, options.reports);
}

int run_bench(BenchOptions& options) {
  if (options.sync == "window" && options.device != "cpu")
    throw InvalidArgument(
        fmt::format("--sync window: only with --device cpu; {} times its streams by its own events", options.device));
  const auto benchmarks = reinterpret_cast<bench::BenchmarksFunction*>(
      subject::open_module("benchmarks", bench::kBenchmarksSymbol, "the benchmarks"));
  const bench::Registry& registry = benchmarks()->registry;
  if (options.list) return list_benchmarks(options, registry);
  return with_unfinished_reports(options.out, begun_header(options), [&] {
    options.subject.require_no_job("bench");
    return BenchRun(options, registry).run();
  });
}

// They would be of no effect.
void refuse_options_before(const CLI::App& command) {
  const std::string name = command.get_subcommands().front()->get_name();
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0)
      throw InvalidArgument(fmt::format("{}: give options of {} after its name", option->get_name(), name));
}

}  // namespace

Command add_bench(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand("bench", "Measure latency and bandwidth of a backend");
  auto options = std::make_shared<BenchOptions>();
  options->subject.add_to(*command, SubjectOptions::Kind::one_group_anywhere, program);
  command->add_option("--benchmark", options->patterns, "run only these benchmarks, by name with * and ?")
      ->type_name("PATTERN")
      ->capture_default_str();
  command->add_option("--sizes", options->sizes, "message sizes in bytes: 4,64Ki,16MiB")
      ->type_name("SIZE")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--world-size", options->worlds, "numbers of ranks, each at most 256: 2,4")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str();
  command
      ->add_option("--repetitions", options->repetitions,
                   "samples per benchmark, size and launch (default 3, and 7 with --launches 1)")
      ->check(at_least(1));
  command
      ->add_option("--launches", options->launches,
                   "fresh groups of processes in which each benchmark is measured, in random order; the median has an "
                   "interval from 6 on")
      ->check(at_least(1))
      ->capture_default_str();
  command->add_option("--min-time", options->min_seconds, "least duration of a sample")
      ->check(seconds())
      ->capture_default_str();
  command->add_option("--time-limit", options->time_limit, "time limit of a benchmark")
      ->check(seconds())
      ->capture_default_str();
  CLI::Option* const device =
      command
          ->add_option("--device", options->device,
                       "device whose memory is transferred, timed by its own events: cpu, cuda, cuda:N, emulated or "
                       "emulated:N; without N rank R uses device R modulo their number")
          ->type_name("DEVICE")
          ->check(device_name(true))
          ->capture_default_str();
  command
      ->add_option("--within", options->within,
                   "make no further launch of a benchmark once the interval of its median is at most this part of the "
                   "median; --launches is the most then, and 30 by default. That some are wider is no failure")
      ->type_name("PERCENT")
      ->transform(percent());
  command
      ->add_option("--budget", options->budget, "end the run after this time with what was measured, and exit status 3")
      ->check(seconds());
  options->reports.add_to(*command);
  options->out.add_to(*command, "folder of the record");
  command
      ->add_option("--sync", options->sync,
                   "how ranks begin: barrier, a repetition after one and its iterations one after another; or window, "
                   "each iteration at a time that all agreed on, for small messages on one machine with a core a rank")
      ->type_name("KIND")
      ->check(CLI::IsMember({"barrier", "window"}))
      ->capture_default_str();
  command->add_flag("--pin", options->pin, "bind each rank to a core");
  command->add_flag("--require-quiet", options->require_quiet,
                    "exit status 3 where the host was too busy for a measurement to be trusted (noisy)");
  command->add_flag("--list", options->list,
                    "print the benchmarks that --benchmark names, or all, without running them");
  group_options(*command, "Subject",
                {"--backend", "--backend-option", "--launcher", "--control-address", "--mutant", "--device"});
  group_options(*command, "What runs", {"--benchmark", "--sizes", "--world-size", "--list"});
  group_options(*command, "How it runs",
                {"--launches", "--within", "--repetitions", "--min-time", "--time-limit", "--budget", "--sync", "--pin",
                 "--require-quiet"});
  group_options(*command, "Output", {"--out", "--label", "--subject-name"});
  command->footer(
      "Example: plumbline bench --backend local --benchmark 'collectives.all_reduce*' --sizes 4,1Mi\n"
      "         plumbline bench pipeline_bubble --schedule 1f1b --stages 4");
  std::map<std::string, Command> studies;
  for (const auto& [name, add] : program.studies) studies.emplace(name, add(*command, program));
  const auto study = [command, studies]() -> const Command* {
    const auto chosen = command->get_subcommands();
    return chosen.empty() ? nullptr : &studies.at(chosen.front()->get_name());
  };
  const auto run = [options, command, device, study] {
    options->device = options->subject.device_of_run(options->device, device->count() > 0);
    options->chooses = command->count("--benchmark") > 0;
    options->sizes_given = command->count("--sizes") > 0;
    if (command->count("--within") > 0) settle_launches(*options, command->count("--launches") > 0);
    settle_repetitions(*options);
    if (study() == nullptr) return run_bench(*options);
    refuse_options_before(*command);
    return study()->run();
  };
  return {run, [options, study](const CommandLine& line, const std::string& why) {
            if (study() != nullptr) return study()->refused(line, why);
            refuse_in_reports(line, begun_header(*options), why);
          }};
}

}  // namespace plumbline::cli
