// SlowMo and LocalSGD of 2 to 64 ranks, over up to 2,000 steps, by the recurrence of their papers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

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
constexpr double kRate = 0.125;

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
            {"optimizer", {{"lr", kRate}, {"momentum", 0}}}};
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

// Each rank by itself; in every fourth step the mean, and with slow momentum what the momentum makes of it. In f32, so that
// numbers agree but for the rounding of as many steps.
std::string problem_of_long_run(Adapter& adapter, const LongRun& run, const std::string& convention) {
  return problem_of(adapter, "slowmo.trace", question_of_run(run, convention), [&](const json& result) -> std::string {
    const auto ranks = static_cast<std::size_t>(run.ranks);
    std::vector<std::vector<double>> values(kElements, std::vector<double>(ranks));
    std::vector<double> slow(kElements), memory(kElements);
    for (int element = 0; element < kElements; ++element) {
      slow[static_cast<std::size_t>(element)] = first_value(element);
      std::ranges::fill(values[static_cast<std::size_t>(element)], first_value(element));
    }
    if (result.at("steps").size() != static_cast<std::size_t>(run.steps))
      return fmt::format("{} steps", result["steps"].size());
    for (int step = 0; step < run.steps; ++step) {
      const json& rows = result["steps"][static_cast<std::size_t>(step)];
      for (int element = 0; element < kElements; ++element) {
        const auto at = static_cast<std::size_t>(element);
        auto& column = values[at];
        for (std::size_t rank = 0; rank < ranks; ++rank)
          column[rank] -= kRate * gradient_at(step, static_cast<int>(rank), element);
        if ((step + 1) % kSlowEvery == 0) {
          double mean = std::accumulate(column.begin(), column.end(), 0.0) / run.ranks;
          if (run.slow_momentum > 0) {
            memory[at] = run.slow_momentum * memory[at] + (slow[at] - mean) / kRate;
            mean = slow[at] -= kRate * memory[at];
          }
          std::ranges::fill(column, mean);
        }
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          const double got = rows.at(rank).at("params").at(at);
          if (!(std::abs(got - column[rank]) <= 2e-5 * (1 + std::abs(column[rank]))))
            return fmt::format("step {}, rank {}: parameter {} is {}, it should be {}", step, rank, element, got,
                               column[rank]);
        }
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
             {"slowmo.trace", "SLOWMO-013@c74b", ranks, long_runs("plumbline", 0.5)}));
  add(asking({{"base", {"localsgd"}}, {"mixing", {"uniform"}}, {"optimizer.name", {"sgd"}}},
             {"slowmo.trace", "SLOWMO-010@041c", ranks, long_runs("plumbline", 0), "plumbline", "averages"}));
  add(asking({{"base", {"localsgd"}}, {"mixing", {"uniform"}}, {"optimizer.name", {"sgd"}}},
             {"slowmo.trace", "SLOWMO-001@d10d", ranks, long_runs("fairscale", 0), "fairscale"}));
}

}  // namespace plumbline::conformance
