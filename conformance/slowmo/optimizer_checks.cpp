// The optimizer between communications, by the formulas of torch.optim.
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

constexpr const char* kOptimizerTrace = "slowmo.trace";
constexpr int kOptimizerRanks = 2, kOptimizerSteps = 6, kOptimizedElements = 4, kAverageEvery = 3;
constexpr double kOptimizerRate = 0.125;
constexpr double kRateOfFirst = 0.25, kRateOfSecond = 0.0625;  // of two groups

double start_of(int element) { return 0.75 * element - 1; }
double gradient_of(int step, int rank, int element) { return ((step * 5 + rank * 3 + element * 7) % 16 - 8) / 8.0; }

json question_with(json optimizer) {
  optimizer["lr"] = kOptimizerRate;
  json args{{"convention", "plumbline"},
            {"world_size", kOptimizerRanks},
            {"nprocs_per_node", 1},
            {"base", "localsgd"},
            {"slowmo_momentum", 0},
            {"localsgd_frequency", kAverageEvery},
            {"optimizer", std::move(optimizer)}};
  json start = json::array();
  for (int element = 0; element < kOptimizedElements; ++element) start.push_back(start_of(element));
  for (int rank = 0; rank < kOptimizerRanks; ++rank) args["ranks"].push_back({{"init_params", start}});
  for (int step = 0; step < kOptimizerSteps; ++step) {
    json& of_step = args["steps"].emplace_back(json::array());
    for (int rank = 0; rank < kOptimizerRanks; ++rank) {
      json& gradients = of_step.emplace_back(json::object())["grads"];
      for (int element = 0; element < kOptimizedElements; ++element)
        gradients.push_back(gradient_of(step, rank, element));
    }
  }
  return args;
}

// What an optimizer remembers of one element.
struct Moments {
  double first = 0, second = 0;
};

// torch.optim.SGD and torch.optim.Adam: the element after step t, which counts from 1.
double stepped(const json& optimizer, double value, double gradient, int t, Moments& moments, double rate) {
  gradient += optimizer.value("weight_decay", 0.0) * value;
  if (optimizer.value("name", "sgd") == "adam") {
    const double beta1 = optimizer["betas"][0], beta2 = optimizer["betas"][1];
    moments.first = beta1 * moments.first + (1 - beta1) * gradient;
    moments.second = beta2 * moments.second + (1 - beta2) * gradient * gradient;
    const double mean = moments.first / (1 - std::pow(beta1, t)), square = moments.second / (1 - std::pow(beta2, t));
    return value - rate * mean / (std::sqrt(square) + optimizer["eps"].get<double>());
  }
  const double momentum = optimizer.value("momentum", 0.0);
  if (momentum == 0) return value - rate * gradient;
  const double fresh = 1 - optimizer.value("dampening", 0.0);
  moments.first = t == 1 ? gradient : momentum * moments.first + fresh * gradient;
  return value - rate * (optimizer.value("nesterov", false) ? gradient + momentum * moments.first : moments.first);
}

const std::map<std::string, json>& torch_rules() {
  static const std::map<std::string, json> all{
      {"sgd", json{{"name", "sgd"}}},
      {"decay", json{{"name", "sgd"}, {"weight_decay", 0.25}}},
      {"momentum", json{{"name", "sgd"}, {"momentum", 0.5}}},
      {"dampening", json{{"name", "sgd"}, {"momentum", 0.5}, {"dampening", 0.25}}},
      {"dampening_of_nothing", json{{"name", "sgd"}, {"dampening", 0.25}}},
      {"nesterov", json{{"name", "sgd"}, {"momentum", 0.5}, {"nesterov", true}, {"weight_decay", 0.25}}},
      {"adam", json{{"name", "adam"}, {"betas", {0.75, 0.5}}, {"eps", 0.25}}},
      {"adam_decay", json{{"name", "adam"}, {"betas", {0.5, 0.875}}, {"eps", 0.5}, {"weight_decay", 0.25}}}};
  return all;
}

// Parameters of an element each, two of f32 and two of f64, which are the first group.
json question_of_groups(const json& optimizer) {
  json args = question_with(optimizer);
  args["dims"] = {1, 1, 1};
  args["double_tail"] = true;
  args["groups"] = {{"split", 2}, {"lrs", {kRateOfFirst, kRateOfSecond}}};
  return args;
}

// Answers are in f32, or of two groups the last two elements in f64; no value here is larger than 4.
std::string problem_of_steps(const json& optimizer, const json& result, bool has_groups = false) {
  const auto rate_of = [&](int element) {
    if (!has_groups) return kOptimizerRate;
    return element >= 2 ? kRateOfFirst : kRateOfSecond;
  };
  double values[kOptimizerRanks][kOptimizedElements];
  Moments moments[kOptimizerRanks][kOptimizedElements];
  for (auto& of_rank : values)
    for (int element = 0; element < kOptimizedElements; ++element) of_rank[element] = start_of(element);
  for (int step = 0; step < kOptimizerSteps; ++step)
    for (int element = 0; element < kOptimizedElements; ++element) {
      for (int rank = 0; rank < kOptimizerRanks; ++rank)
        values[rank][element] = stepped(optimizer, values[rank][element], gradient_of(step, rank, element), step + 1,
                                        moments[rank][element], rate_of(element));
      if ((step + 1) % kAverageEvery == 0)
        values[0][element] = values[1][element] = (values[0][element] + values[1][element]) / kOptimizerRanks;
      for (std::size_t rank = 0; rank < kOptimizerRanks; ++rank) {
        const double right = values[rank][element];
        const double got = result.at("steps")
                               .at(static_cast<std::size_t>(step))
                               .at(rank)
                               .at("params")
                               .at(static_cast<std::size_t>(element));
        if (!(std::abs(got - right) <= (has_groups && element >= 2 ? 1e-13 : 1e-5)))
          return fmt::format("step {}, rank {}: parameter {} is {}, it should be {}", step, rank, element, got, right);
      }
    }
  return {};
}

void as_torch(Context& context) {
  const json& optimizer = torch_rules().at(context.parameters().text("rule"));
  report_words(problem_of(context.adapter(), kOptimizerTrace, question_with(optimizer),
                          [&](const json& result) { return problem_of_steps(optimizer, result); }));
}

void groups_as_torch(Context& context) {
  const json& optimizer = torch_rules().at(context.parameters().text("rule"));
  report_words(problem_of(context.adapter(), kOptimizerTrace, question_of_groups(optimizer),
                          [&](const json& result) { return problem_of_steps(optimizer, result, true); }));
}

const std::vector<BadQuestion>& bad_optimizers() {
  static const std::vector<BadQuestion> questions{
      {"no_momentum", kOptimizerTrace, question_with({{"nesterov", true}})},
      {"negative_momentum", kOptimizerTrace, question_with({{"nesterov", true}, {"momentum", -0.5}})},
      {"dampening", kOptimizerTrace, question_with({{"nesterov", true}, {"momentum", 0.5}, {"dampening", 0.25}})}};
  return questions;
}

void refuses_nesterov(Context& context) {
  const json& nesterov = torch_rules().at("nesterov");
  report_words(problem_of(context.adapter(), kOptimizerTrace, question_with(nesterov),
                          [&](const json& result) { return problem_of_steps(nesterov, result); }));
  for (const BadQuestion& question : bad_optimizers())
    if (question.fault == context.parameters().text("fault"))
      report_words(problem_of_refusal_beside_answers(context.adapter(), kOptimizerTrace, question.args));
}

}  // namespace

void add_slowmo_optimizer_checks(suite::Suite& suite) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> optimizers;
  for (const auto& [name, optimizer] : torch_rules()) {
    names.push_back(name);
    optimizers[name] = {optimizer["name"].get<std::string>()};
  }
  const AskedOption averages{kOptimizerTrace, "base", {"localsgd"}}, uniform{kOptimizerTrace, "mixing", {"uniform"}};
  suite.add({.id = "slowmo.optimizer.as_torch",
             .verifies = {"SLOWMO-047@ec98"},
             .door = Door::adapter,
             .axes = {{"rule", names}},
             .operations = {kOptimizerTrace},
             .convention = "plumbline",
             .options = options_of({averages, uniform, {kOptimizerTrace, "optimizer.name", {}, "rule", optimizers}}),
             .body = as_torch});
  suite.add({.id = "slowmo.optimizer.groups_as_torch",
             .verifies = {"SLOWMO-047@ec98"},
             .door = Door::adapter,
             .axes = {{"rule", names}},
             .operations = {kOptimizerTrace},
             .convention = "plumbline",
             .options = options_of({averages, uniform, {kOptimizerTrace, "optimizer.name", {}, "rule", optimizers}}),
             .body = groups_as_torch});
  suite.add({.id = "slowmo.optimizer.refuses_nesterov",
             .verifies = {"SLOWMO-048@7237"},
             .door = Door::adapter,
             .axes = {faults_of(bad_optimizers(), {kOptimizerTrace})},
             .operations = {kOptimizerTrace},
             .convention = "plumbline",
             .options = options_of({averages, uniform, {kOptimizerTrace, "optimizer.name", {"sgd"}}}),
             .body = refuses_nesterov});
}

}  // namespace plumbline::conformance
