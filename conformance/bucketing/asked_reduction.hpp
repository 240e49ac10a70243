// conformance/bucketing/asked_reduction.hpp: questions of bucketing.reduce, and what their answers must be.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "conformance/support/asking.hpp"
#include "harness/suite/check.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

inline constexpr const char* kReduce = "bucketing.reduce";

using GradientLists = std::vector<std::vector<int>>;

/// A run that is asked for, and what it must come to.
struct AskedReduction {
  int ranks = 3, steps = 3;
  std::vector<std::int64_t> numel{4, 3, 2, 5};
  GradientLists buckets{{3}, {2, 1}, {0}};
  nlohmann::json options = nlohmann::json::object();
  double divisor = 0;                                                          // of sums; 0: the number of ranks
  double nearness = 1e-6;                                                      // of a value, and of 1
  bool judges_launches = false;                                                // of plans that stay
  std::function<int(int step, int rank)> passes = [](int, int) { return 1; };  // 0: the rank has run out of rows
  std::function<bool(int step, int rank, int gradient)> produces = [](int, int, int) { return true; };
  std::function<std::vector<int>(int rank)> order = {};  // of readiness; backwards
  std::function<double(int step, int pass, int rank, int gradient, int element)> value =
      [](int step, int pass, int rank, int gradient, int element) {
        return ((7 * rank + 11 * step + 5 * pass + 3 * gradient + 13 * element) % 17 - 8) / 8.0;
      };

  [[nodiscard]] std::vector<int> ready_order(int rank) const;
  [[nodiscard]] std::size_t elements_of(int gradient) const {
    return static_cast<std::size_t>(numel[static_cast<std::size_t>(gradient)]);
  }
  /// What a rank has of a gradient before the reduction.
  [[nodiscard]] std::vector<double> accumulated(int step, int rank, int gradient) const;
  /// The reduced gradient; nothing where no rank has it.
  [[nodiscard]] std::optional<std::vector<double>> right(int step, int gradient) const;
};

[[nodiscard]] nlohmann::json question_of_reduction(const AskedReduction& asked);
/// "" where a gradient of an answer is the right one, that near.
[[nodiscard]] std::string problem_of_gradient(const std::optional<std::vector<double>>& right,
                                              const nlohmann::json& got, double nearness);
/// "" where all ranks have the right gradients in all steps.
[[nodiscard]] std::string problem_of_reduced(const AskedReduction& asked, const nlohmann::json& result);

/// The members of the bucket that a reduction is of, sorted; their order in it is the adapter's.
[[nodiscard]] std::vector<int> members_of(const nlohmann::json& launch);
[[nodiscard]] GradientLists with_sorted_members(GradientLists buckets);

using JudgeReduction = std::function<std::string(const nlohmann::json& result)>;
/// Asks, and judges an answer that has a row for each step and rank of the question; another one is a problem.
[[nodiscard]] std::string problem_of_reduction(suite::Adapter& adapter, const nlohmann::json& args,
                                               const JudgeReduction& judge);
/// "" where a rank's row has no error.
[[nodiscard]] std::string problem_of_rejection(const nlohmann::json& row);

/// Asks, and reports what is wrong with the gradients, and else what `more` finds.
void report_reduction(suite::Context& context, const AskedReduction& asked, const JudgeReduction& more = {});

/// "each", "some" or "one".
[[nodiscard]] GradientLists buckets_named(const std::string& name);
/// With the case's ranks and buckets.
[[nodiscard]] AskedReduction reduction_in_case(const suite::Context& context);

/// Judges each row of the answer, with step and rank.
using JudgeRow = std::function<std::string(const nlohmann::json& row, std::size_t step, int rank)>;
[[nodiscard]] std::string each_row(const nlohmann::json& result, const JudgeRow& judge);

/// Adds checks of bucketing.reduce to a suite, asked over each of `ranks`.
struct ReductionChecks {
  suite::Suite& suite;
  std::string prefix;  // of their names

  void operator()(const char* name, const char* requirement, std::vector<suite::Axis> axes,
                  void (*body)(suite::Context&), std::vector<AskedOption> options = {},
                  std::vector<std::string> ranks = {"2", "3"}) const;
};

}  // namespace plumbline::conformance
