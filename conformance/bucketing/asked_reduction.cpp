// Questions of bucketing.reduce, and what their answers must be.
#include "conformance/bucketing/asked_reduction.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

std::vector<int> AskedReduction::ready_order(int rank) const {
  if (order) return order(rank);
  std::vector<int> backwards(numel.size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  return backwards;
}

std::vector<double> AskedReduction::accumulated(int step, int rank, int gradient) const {
  std::vector<double> sum(elements_of(gradient));
  if (!produces(step, rank, gradient)) return sum;
  for (int pass = 0; pass < passes(step, rank); ++pass)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += value(step, pass, rank, gradient, static_cast<int>(i));
  return sum;
}

std::optional<std::vector<double>> AskedReduction::right(int step, int gradient) const {
  std::vector<double> sum(elements_of(gradient));
  bool has_any = false;
  for (int rank = 0; rank < ranks; ++rank) {
    has_any = has_any || (produces(step, rank, gradient) && passes(step, rank) > 0);
    const std::vector<double> mine = accumulated(step, rank, gradient);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += mine[i];
  }
  for (double& one : sum) one /= divisor == 0 ? ranks : divisor;
  const bool is_planned =
      std::ranges::any_of(buckets, [&](const std::vector<int>& one) { return std::ranges::count(one, gradient) > 0; });
  return has_any && is_planned ? std::optional(sum) : std::nullopt;
}

namespace {

json value_or_word(double value) {
  if (std::isnan(value)) return "nan";
  return std::isinf(value) ? json(value > 0 ? "inf" : "-inf") : json(value);
}

// One reduction a bucket, in the plan's order, in the last pass; a bucket may be padded.
std::string problem_of_started(const AskedReduction& asked, int step, int rank, const json& launches) {
  const int passes = asked.passes(step, rank);
  if (launches.size() != static_cast<std::size_t>(passes)) return fmt::format("{} passes", launches.size());
  for (int pass = 0; pass < passes; ++pass) {
    const json& list = launches.at(static_cast<std::size_t>(pass));
    const std::size_t expected = pass + 1 == passes ? asked.buckets.size() : 0;
    if (list.size() != expected)
      return fmt::format("pass {} has {} reductions, there must be {}", pass, list.size(), expected);
    const GradientLists buckets = with_sorted_members(asked.buckets);
    for (std::size_t bucket = 0; bucket < list.size(); ++bucket) {
      if (const std::vector<int> got = members_of(list.at(bucket)); got != buckets[bucket])
        return fmt::format("reduction {} is of gradients {}, it must be of {}", bucket, json(got).dump(),
                           json(buckets[bucket]).dump());
      std::int64_t elements = 0;
      for (const int gradient : buckets[bucket]) elements += asked.numel[static_cast<std::size_t>(gradient)];
      if (const auto got = list.at(bucket).at("elements").get<std::int64_t>(); got < elements)
        return fmt::format("reduction {} has {} of {} elements", bucket, got, elements);
    }
  }
  return {};
}

}  // namespace

json question_of_reduction(const AskedReduction& asked) {
  json args = asked.options;
  args.update(
      {{"world_size", asked.ranks}, {"numel", asked.numel}, {"buckets", asked.buckets}, {"steps", json::array()}});
  for (int step = 0; step < asked.steps; ++step) {
    json& rows = args["steps"].emplace_back(json::array());
    for (int rank = 0; rank < asked.ranks; ++rank) {
      json& row = rows.emplace_back(json::object());
      for (int pass = 0; pass < asked.passes(step, rank); ++pass) {
        json& list = row["passes"].emplace_back(json::array());
        for (const int gradient : asked.ready_order(rank)) {
          if (!asked.produces(step, rank, gradient)) continue;
          json values = json::array();
          for (int i = 0; i < asked.numel[static_cast<std::size_t>(gradient)]; ++i)
            values.push_back(value_or_word(asked.value(step, pass, rank, gradient, i)));
          list.push_back({{"gradient", gradient}, {"values", std::move(values)}});
        }
      }
    }
  }
  return args;
}

std::string problem_of_gradient(const std::optional<std::vector<double>>& right, const json& got, double nearness) {
  if (!right) return got.is_null() ? "" : "it is " + got.dump() + ", no rank has it";
  const auto values = got.get<std::vector<double>>();
  if (values.size() != right->size()) return fmt::format("{} elements, there are {}", values.size(), right->size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!(std::abs(values[i] - (*right)[i]) <= nearness * std::max(1.0, std::abs((*right)[i]))))
      return fmt::format("element {} is {}, it must be {}", i, values[i], (*right)[i]);
  return {};
}

std::vector<int> members_of(const json& launch) {
  auto members = launch.at("gradients").get<std::vector<int>>();
  std::ranges::sort(members);
  return members;
}
GradientLists with_sorted_members(GradientLists buckets) {
  for (std::vector<int>& members : buckets) std::ranges::sort(members);
  return buckets;
}

std::string problem_of_reduced(const AskedReduction& asked, const json& result) {
  for (int step = 0; step < asked.steps; ++step) {
    const json& rows = result.at("steps").at(static_cast<std::size_t>(step));
    for (int rank = 0; rank < asked.ranks; ++rank) {
      const json& row = rows.at(static_cast<std::size_t>(rank));
      const std::string where = fmt::format("step {}, rank {}", step, rank);
      if (const std::string words = problem_of_rejection(row); !words.empty()) return where + ": " + words;
      if (row.at("grads").size() != asked.numel.size()) return where + ": another number of gradients";
      for (int gradient = 0; gradient < static_cast<int>(asked.numel.size()); ++gradient)
        if (std::string words = problem_of_gradient(
                asked.right(step, gradient), row["grads"].at(static_cast<std::size_t>(gradient)), asked.nearness);
            !words.empty())
          return fmt::format("{}, gradient {}: {}", where, gradient, words);
      if (row["grads"] != rows.at(0).at("grads")) return where + ": gradients are not rank 0's, bit for bit";
      if (!asked.judges_launches) continue;
      if (std::string words = problem_of_started(asked, step, rank, row.at("launches")); !words.empty())
        return where + ": " + words;
    }
  }
  return {};
}

namespace {

// "" where an answer has a row for each step and rank of the question.
std::string problem_of_rows_answered(const json& args, const json& result) {
  const json &asked = args.at("steps"), &steps = result.at("steps");
  if (!steps.is_array() || steps.size() != asked.size())
    return fmt::format("the answer has {} steps, {} were asked", steps.size(), asked.size());
  for (std::size_t step = 0; step < steps.size(); ++step)
    if (!steps[step].is_array() || steps[step].size() != asked[step].size())
      return fmt::format("step {} has rows of {} ranks, there are {}", step, steps[step].size(), asked[step].size());
  return {};
}

}  // namespace

std::string problem_of_reduction(suite::Adapter& adapter, const json& args, const JudgeReduction& judge) {
  return problem_of(adapter, kReduce, args, [&](const json& result) {
    const std::string words = problem_of_rows_answered(args, result);
    return words.empty() ? judge(result) : words;
  });
}

std::string problem_of_rejection(const json& row) {
  return row.contains("error") ? "it is rejected: " + row["error"].dump() : "";
}

void report_reduction(Context& context, const AskedReduction& asked, const JudgeReduction& more) {
  report_words(problem_of_reduction(context.adapter(), question_of_reduction(asked), [&](const json& result) {
    std::string words = problem_of_reduced(asked, result);
    return words.empty() && more ? more(result) : words;
  }));
}

GradientLists buckets_named(const std::string& name) {
  if (name == "each") return {{3}, {2}, {1}, {0}};
  if (name == "one") return {{3, 2, 1, 0}};
  return {{3}, {2, 1}, {0}};
}

AskedReduction reduction_in_case(const Context& context) {
  AskedReduction asked{.ranks = static_cast<int>(context.parameters().number("ranks"))};
  if (context.parameters().has("buckets")) asked.buckets = buckets_named(context.parameters().text("buckets"));
  return asked;
}

std::string each_row(const json& result, const JudgeRow& judge) {
  for (std::size_t step = 0; step < result.at("steps").size(); ++step)
    for (std::size_t rank = 0; rank < result["steps"][step].size(); ++rank)
      if (std::string words = judge(result["steps"][step][rank], step, static_cast<int>(rank)); !words.empty())
        return fmt::format("step {}, rank {}: {}", step, rank, words);
  return {};
}

void ReductionChecks::operator()(const char* name, const char* requirement, std::vector<suite::Axis> axes,
                                 void (*body)(Context&), std::vector<AskedOption> options,
                                 std::vector<std::string> ranks) const {
  axes.push_back({"ranks", std::move(ranks)});
  suite.add({.id = prefix + name,
             .verifies = {requirement},
             .door = suite::Door::adapter,
             .axes = std::move(axes),
             .operations = {kReduce},
             .options = options_of(std::move(options)),
             .body = body});
}

}  // namespace plumbline::conformance
