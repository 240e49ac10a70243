#include "harness/metrics/metrics.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <regex>

#include <fmt/format.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <toml++/toml.h>

#include "harness/run/launches.hpp"
#include "harness/run/summary.hpp"

extern const std::string_view plumbline_metrics_text;  // metrics.toml

namespace plumbline::metrics {
namespace {

using Labels = std::map<std::string, std::string>;

// HELP of each metric, by name.
const std::map<std::string, std::string>& helps() {
  static const auto all = [] {
    std::map<std::string, std::string> found;
    const toml::table file = toml::parse(plumbline_metrics_text);
    for (const toml::node& group : *file["group"].as_array())
      for (const toml::node& metric : *group.as_table()->get_as<toml::array>("metric")) {
        const toml::table& row = *metric.as_table();
        found.emplace(row["name"].value_or(""), row["help"].value_or(""));
      }
    return found;
  }();
  return all;
}

class Exposition {
 public:
  // A value that the table does not describe is in the record alone.
  void set(const std::string& name, const Labels& labels, double value) {
    if (const auto help = helps().find(name); help != helps().end())
      prometheus::BuildGauge().Name(name).Help(help->second).Register(registry_).Add(labels).Set(value);
  }
  [[nodiscard]] std::string text() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

 private:
  prometheus::Registry registry_{prometheus::Registry::InsertBehavior::Merge};
};

// What a sample is counted under, beside what it is of.
Labels labels_of_case(const record::Result& result) {
  Labels labels{{"component", result.check.substr(0, result.check.find('.'))},
                {"arm", result.mode.substr(0, result.mode.find(':'))}};  // without its seed
  for (const auto& [name, value] : result.parameters)
    if (name == "world") labels["world"] = value;
  return labels;
}

Labels joined(Labels labels, const Labels& others) {
  labels.insert(others.begin(), others.end());
  return labels;
}

void add_cases(const std::vector<record::Result>& results, const Labels& common, Exposition& exposition) {
  std::map<std::pair<Labels, std::string>, int> cases;  // by labels and judgement
  std::map<Labels, double> seconds;
  for (const record::Result& result : results) {
    ++cases[{labels_of_case(result), std::string(name_of(run::judge(result)))}];
    seconds[labels_of_case(result)] += result.seconds;
  }
  for (const auto& [key, count] : cases)
    exposition.set("plumbline_cases", joined(joined(key.first, {{"verdict", key.second}}), common), count);
  for (const auto& [labels, sum] : seconds)
    exposition.set("plumbline_cases_duration_seconds", joined(labels, common), sum);
  for (const auto& [id, verdict] : run::requirement_verdicts(results))
    exposition.set("plumbline_requirement",
                   joined({{"requirement", id}, {"verdict", std::string(name_of(verdict.judgement))}}, common), 1);
}

// "2026-11-21T10:02:33Z" in seconds since 1970.
double seconds_of(const std::string& utc) {
  std::tm time{};
  return ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time) == nullptr ? 0 : static_cast<double>(::timegm(&time));
}

// What keeps this run's series apart from those of others. The seed is none of it: it is another one each night.
Labels common_labels(const record::Run& run) {
  const record::Header& header = run.header;
  Labels labels{{"subject", run::name_of_subject(run)}, {"command", header.command}};
  if (!header.profile.empty()) labels["profile"] = header.profile;
  for (const char* const fact : {"backend", "device", "mutant", "filter", "world"})
    if (const auto found = header.facts.find(fact); found != header.facts.end()) labels[fact] = found->second;
  if (header.shard) labels["shard"] = std::to_string(header.shard->index) + "/" + std::to_string(header.shard->count);
  labels.insert(header.labels.begin(), header.labels.end());
  return labels;
}

void add_run(const record::Run& run, const Labels& common, Exposition& exposition) {
  Labels versions{{"version", run.header.suite_version}};
  if (!run.header.profile_version.empty()) versions["profile_version"] = run.header.profile_version;
  exposition.set("plumbline_build_info", joined(versions, common), 1);
  exposition.set("plumbline_run_complete", common, run.complete ? 1 : 0);
  exposition.set("plumbline_run_start_time_seconds", common, seconds_of(run.header.started));
  exposition.set("plumbline_run_duration_seconds", common, run.seconds);
  exposition.set("plumbline_run_seed", common, static_cast<double>(run.header.seed));
}

// As NCCL Inspector writes them.
std::string message_size(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KB", "MB", "GB", "TB"};
  if (bytes < 1024) return fmt::format("{:.0f}B", bytes);
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.2f}{}", bytes, kUnits[unit]);
}

// The labels that NCCL Inspector gives the same measure, so that a dashboard has both in one query. It counts a
// rank's own block of a gathering or scattering. Source: ext-profiler/inspector of NCCL 2.29, inspector_prom.cc.
Labels inspector_labels(const record::Measurement& measurement) {
  struct Collective {
    const char* name;
    bool of_a_block = false;
  };
  static const std::map<std::string, Collective> kNames{{"collectives.all_reduce", {"AllReduce"}},
                                                        {"collectives.all_reduce_in_place", {"AllReduce"}},
                                                        {"collectives.reduce", {"Reduce"}},
                                                        {"collectives.broadcast", {"Broadcast"}},
                                                        {"collectives.reduce_scatter", {"ReduceScatter", true}},
                                                        {"collectives.all_gather", {"AllGather", true}}};
  const auto found = kNames.find(measurement.benchmark);
  const auto bytes = measurement.labels.find("bytes"), world = measurement.labels.find("world");
  if (found == kNames.end() || bytes == measurement.labels.end() || world == measurement.labels.end()) return {};
  const double ranks = std::max(std::strtod(world->second.c_str(), nullptr), 1.0);
  const double all = std::strtod(bytes->second.c_str(), nullptr);
  return {{"collective", found->second.name},
          {"message_size", message_size(found->second.of_a_block ? all / ranks : all)},
          {"nranks", world->second}};
}

// What says how far the median can be believed.
void add_launches(const record::Measurement& measurement, const Labels& labels, Exposition& exposition) {
  exposition.set("plumbline_benchmark_launches", labels, static_cast<double>(measurement.launches.size()));
  exposition.set("plumbline_benchmark_noisy", labels, measurement.noisy.empty() ? 0 : 1);
  if (const auto interval = run::interval_of_median(run::medians_of(measurement.launches))) {
    exposition.set("plumbline_benchmark_interval_low_" + measurement.unit, labels, interval->first);
    exposition.set("plumbline_benchmark_interval_high_" + measurement.unit, labels, interval->second);
  }
  for (const auto& [fact, worst] : run::worst_of_host(measurement.launches))
    exposition.set("plumbline_benchmark_host_" + fact, labels, worst);
}

void add_measurements(const record::Run& run, const Labels& common, Exposition& exposition) {
  const bool every_rank = run.header.facts.contains("metrics_of_ranks");
  for (const record::Measurement& measurement : run.measurements) {
    if (measurement.labels.contains("rank") && !every_rank) continue;  // as many series as ranks
    const Labels labels = joined(
        joined(joined({{"benchmark", measurement.benchmark}}, measurement.labels), inspector_labels(measurement)),
        common);
    exposition.set("plumbline_benchmark_" + measurement.unit, labels,
                   measurement.samples.empty() ? 0 : run::center_of(measurement));
    if (!measurement.launches.empty() && !measurement.samples.empty()) {
      exposition.set("plumbline_benchmark_minimum_" + measurement.unit, labels, std::ranges::min(measurement.samples));
      add_launches(measurement, labels, exposition);
    }
    for (const auto& [name, value] : measurement.derived)  // "launches" are those of processes, above
      exposition.set("plumbline_benchmark_" + (name == "launches" ? "reductions" : name), labels, value);
  }
}

// Ranks and phases, which a record has in the names of values, are labels.
void add_step(const record::Step& step, const Labels& common, Exposition& exposition) {
  static const std::regex of_rank("(.+)_rank([0-9]+)"), of_phase("seconds_(.+)");
  exposition.set("plumbline_train_loss", common, step.loss);
  for (const auto& [name, value] : step.values)
    if (std::smatch found; std::regex_match(name, found, of_rank))
      exposition.set("plumbline_train_" + found.str(1), joined({{"rank", found.str(2)}}, common), value);
    else if (std::regex_match(name, found, of_phase))
      exposition.set("plumbline_train_phase_seconds", joined({{"phase", found.str(1)}}, common), value);
    else
      exposition.set("plumbline_train_" + name, common, value);
}

}  // namespace

std::string to_prometheus(const record::Run& run) {
  Exposition exposition;
  const Labels common = common_labels(run);
  add_run(run, common, exposition);
  std::vector<record::Result> cases = run::with_missing(run);
  // Of a run that has not ended nothing is missing yet.
  if (!run.complete && run.stopped.empty())
    for (record::Result& one : cases)
      if (one.verdict == record::Verdict::missing) one.verdict = record::Verdict::not_run;
  add_cases(cases, common, exposition);
  add_measurements(run, common, exposition);
  if (!run.steps.empty()) {
    exposition.set("plumbline_train_steps", common, static_cast<double>(run.steps.size()));
    add_step(run.steps.back(), common, exposition);
  }
  return exposition.text();
}

}  // namespace plumbline::metrics
