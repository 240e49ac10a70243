#include "harness/metrics/metrics.hpp"

#include <algorithm>

#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "harness/record/summary.hpp"

namespace plumbline::metrics {
namespace {

using Labels = std::map<std::string, std::string>;

class Exposition {
 public:
  void set(const std::string& name, const std::string& help, const Labels& labels, double value) {
    prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels).Set(value);
  }
  [[nodiscard]] std::string text() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

 private:
  prometheus::Registry registry_{prometheus::Registry::InsertBehavior::Merge};
};

double median(std::vector<double> samples) {
  std::ranges::sort(samples);
  const std::size_t half = samples.size() / 2;
  return samples.empty() ? 0 : samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
}

void add_cases(const record::Run& run, const Labels& common, Exposition& exposition) {
  const auto results = record::with_missing(run);
  std::map<std::pair<std::string, std::string>, int> cases;  // component, judgement
  std::map<std::string, double> seconds;
  for (const record::Result& result : results) {
    const std::string component = result.check.substr(0, result.check.find('.'));
    ++cases[{component, std::string(name_of(judge(result)))}];
    seconds[component] += result.seconds;
  }
  for (const auto& [key, count] : cases) {
    Labels labels = common;
    labels["component"] = key.first;
    labels["verdict"] = key.second;
    exposition.set("plumbline_cases", "Cases of the run, by verdict", labels, count);
  }
  for (const auto& [component, sum] : seconds) {
    Labels labels = common;
    labels["component"] = component;
    exposition.set("plumbline_cases_seconds", "Time that the cases of a component took", labels, sum);
  }
  for (const auto& [id, verdict] : record::requirement_judgements(results)) {
    Labels labels = common;
    labels["requirement"] = id;
    labels["verdict"] = name_of(verdict);
    exposition.set("plumbline_requirement", "1 for the verdict that a requirement has", labels, 1);
  }
}

}  // namespace

std::string to_prometheus(const record::Run& run) {
  Exposition exposition;
  Labels common{{"subject", run.header.subject}, {"command", run.header.command}};
  if (!run.header.profile.empty()) common["profile"] = run.header.profile;
  exposition.set("plumbline_run_complete", "1 when the run came to its end", common, run.complete ? 1 : 0);
  exposition.set("plumbline_run_seconds", "Duration of the run", common, run.seconds);
  Labels version = common;
  version["version"] = run.header.suite_version;
  exposition.set("plumbline_suite", "1, with the suite's version", version, 1);
  add_cases(run, common, exposition);
  for (const record::Measurement& measurement : run.measurements) {
    Labels labels = common;
    labels.insert(measurement.labels.begin(), measurement.labels.end());
    labels["benchmark"] = measurement.benchmark;
    exposition.set("plumbline_benchmark_" + measurement.unit, "Median of the repetitions, the slowest rank each",
                   labels, median(measurement.samples));
    for (const auto& [name, value] : measurement.derived)
      exposition.set("plumbline_benchmark_" + name, "Derived from the median", labels, value);
  }
  if (!run.steps.empty()) {
    exposition.set("plumbline_train_steps", "Steps of the training run", common, static_cast<double>(run.steps.size()));
    exposition.set("plumbline_train_loss", "Loss of the last step", common, run.steps.back().loss);
    for (const auto& [name, value] : run.steps.back().values)
      exposition.set("plumbline_train_" + name, "Of the last step", common, value);
  }
  return exposition.text();
}

}  // namespace plumbline::metrics
