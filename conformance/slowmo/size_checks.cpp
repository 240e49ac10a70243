// SlowMo and LocalSGD of 2 to 64 ranks, over up to 2,000 steps, by the recurrence of their papers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "conformance/slowmo/rounding.hpp"
#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/sizes.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;

namespace {

struct LongRun {
  int ranks = 2, steps = 1;
  double slow_momentum = 0;
};

constexpr int kSlowEvery = 4, kElements = 5;
constexpr double kLearningRate = 0.125;

// Small numbers that are none of their ranks' mean.
double gradient_at(int step, int rank, int element) { return ((step * 5 + rank * 3 + element * 7) % 16 - 8) / 8.0; }
double first_value(int element) { return element * 0.5 - 1; }

json question_of_run(const LongRun& run, const std::string& convention) {
  json args{{"convention", convention},
            {"world_size", run.ranks},
            {"nprocs_per_node", 1},
            {"base", "localsgd"},
            {"slowmo_lr", 1},
            {"slowmo_momentum", run.slow_momentum},
            {"memory_efficient", false},
            {"slowmo_frequency", kSlowEvery},
            {"num_shards", 1},
            {"localsgd_frequency", kSlowEvery},
            {"optimizer", {{"lr", kLearningRate}, {"momentum", 0}}}};
  json start = json::array();
  for (int element = 0; element < kElements; ++element) start.push_back(first_value(element));
  for (int rank = 0; rank < run.ranks; ++rank) args["ranks"].push_back({{"init_params", start}});
  for (int step = 0; step < run.steps; ++step) {
    json& of_step = args["steps"].emplace_back(json::array());
    for (int rank = 0; rank < run.ranks; ++rank) {
      json& gradients = of_step.emplace_back(json::object())["grads"];
      for (int element = 0; element < kElements; ++element) gradients.push_back(gradient_at(step, rank, element));
    }
  }
  return args;
}

// What a run is, in exact numbers: each rank by itself; in every fourth step the mean, and with slow momentum what
// the momentum makes of it.
class ExactRun {
 public:
  explicit ExactRun(const LongRun& run) : run_(run) {
    for (int element = 0; element < kElements; ++element) {
      slow_.push_back(first_value(element));
      values_.emplace_back(static_cast<std::size_t>(run.ranks), first_value(element));
    }
  }
  void step(int step) {
    for (int element = 0; element < kElements; ++element) {
      auto& column = values_[static_cast<std::size_t>(element)];
      for (int rank = 0; rank < run_.ranks; ++rank)
        column[static_cast<std::size_t>(rank)] -= kLearningRate * gradient_at(step, rank, element);
      if ((step + 1) % kSlowEvery == 0) meet(static_cast<std::size_t>(element));
    }
  }
  [[nodiscard]] double value(int rank, int element) const {
    return values_[static_cast<std::size_t>(element)][static_cast<std::size_t>(rank)];
  }
  void include_in(RunSizes& sizes) const {
    for (const auto& column : values_)
      for (const double value : column) sizes.parameters = std::max(sizes.parameters, std::abs(value));
    for (const double momentum : momentum_) sizes.momentum = std::max(sizes.momentum, std::abs(momentum));
  }

 private:
  void meet(std::size_t element) {
    auto& column = values_[element];
    double mean = std::accumulate(column.begin(), column.end(), 0.0) / run_.ranks;
    if (run_.slow_momentum > 0) {
      momentum_[element] = run_.slow_momentum * momentum_[element] + (slow_[element] - mean) / kLearningRate;
      mean = slow_[element] -= kLearningRate * momentum_[element];
    }
    std::ranges::fill(column, mean);
  }

  const LongRun run_;
  std::vector<std::vector<double>> values_;  // by element and rank
  std::vector<double> slow_, momentum_ = std::vector<double>(kElements);
};

RunSizes sizes_of_exact_run(const LongRun& run, const json& args) {
  RunSizes sizes = sizes_of_run(args, json::array());
  ExactRun exact(run);
  for (int step = 0; step < run.steps; ++step) {
    exact.step(step);
    exact.include_in(sizes);
  }
  return sizes;
}

// Answers are in f32.
std::string problem_of_long_run(Adapter& adapter, const LongRun& run, const std::string& convention) {
  const json args = question_of_run(run, convention);
  return problem_of(adapter, "slowmo.trace", args, [&](const json& result) -> std::string {
    if (result.at("steps").size() != static_cast<std::size_t>(run.steps))
      return fmt::format("{} steps", result["steps"].size());
    Rounding rounding(args, sizes_of_exact_run(run, args), kSingleUnit, 0);
    ExactRun exact(run);
    for (int step = 0; step < run.steps; ++step) {
      exact.step(step);
      const double most = rounding.after(static_cast<std::size_t>(step)).parameters;
      const json& rows = result["steps"][static_cast<std::size_t>(step)];
      for (int rank = 0; rank < run.ranks; ++rank)
        for (int element = 0; element < kElements; ++element) {
          const double got = rows.at(static_cast<std::size_t>(rank)).at("params").at(static_cast<std::size_t>(element));
          if (const double right = exact.value(rank, element); !(std::abs(got - right) <= most))
            return fmt::format("step {}, rank {}: parameter {} is {}, it should be {} and may be off by {:.3g}", step,
                               rank, element, got, right, most);
        }
    }
    return {};
  });
}

JudgeSize long_runs(const std::string& convention, double slow_momentum) {
  return [=](Adapter& adapter, int ranks) {
    for (const LongRun& run : {LongRun{ranks, 26, slow_momentum}, LongRun{2, 31 * ranks, slow_momentum}})
      if (std::string words = problem_of_long_run(adapter, run, convention); !words.empty())
        return fmt::format("{} ranks, {} steps: {}", run.ranks, run.steps, words);
    return std::string();
  };
}

}  // namespace

void add_slowmo_size_checks(suite::Suite& suite) {
  const auto add = [&](SizedCheck one) { add_sized_check(suite, "slowmo", std::move(one)); };
  const std::vector<int> ranks{2, 6, 17, 64};
  add(asking({{"base", {"localsgd"}}, {"mixing", {"uniform"}}, {"optimizer.name", {"sgd"}}},
             {"slowmo.trace", "SLOWMO-013@8aee", ranks, long_runs("plumbline", 0.5)}));
  add(asking({{"base", {"localsgd"}}, {"mixing", {"uniform"}}, {"optimizer.name", {"sgd"}}},
             {"slowmo.trace", "SLOWMO-010@305d", ranks, long_runs("plumbline", 0), "plumbline", "averages"}));
  add(asking({{"base", {"localsgd"}}, {"mixing", {"uniform"}}, {"optimizer.name", {"sgd"}}},
             {"slowmo.trace", "SLOWMO-001@dbdf", ranks, long_runs("fairscale", 0), "fairscale"}));
}

}  // namespace plumbline::conformance
