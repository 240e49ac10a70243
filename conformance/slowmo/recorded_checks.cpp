// Runs of FairScale's wrapper, replayed through an adapter from their gradients.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

// A recorded number is the shortest decimal that rounds to it in its own type.
double as_recorded(const json& number) { return number.get<double>(); }

// How far two evaluations of the same operations may be apart, as FairScale's own are with and without fused multiply-add,
// summed over a run: parameters and masters, and slow momentum, which is of differences divided by a learning rate.
constexpr double kOfParameters = 1e-6, kOfMomentum = 1e-4, kOfHalves = 1e-3;

std::string numbers_differ(const json& expected, const json& got, double tolerance, const std::string& where) {
  if (got.size() != expected.size())
    return fmt::format("{} has {} values, it has {}", where, got.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double right = as_recorded(expected[i]), value = got.at(i).get<double>();
    if (!(std::abs(right - value) <= tolerance * std::max(1.0, std::abs(right))))
      return fmt::format("{}[{}] is {}, it was {}", where, i, value, right);
  }
  return {};
}

std::string slow_differs(const json& expected, const json& got, const std::string& where) {
  for (const char* field : {"start", "end"})
    if (got.at(field) != expected[field])
      return fmt::format("{}.{} is {}, it was {}", where, field, got.at(field).dump(), expected[field].dump());
  const std::string old =
      numbers_differ(expected["old_params"], got.at("old_params"), kOfParameters, where + ".old_params");
  return !old.empty() ? old
                      : numbers_differ(expected["momentum"], got.at("momentum"), kOfMomentum, where + ".momentum");
}

std::string row_differs(const json& expected, const json& got, bool has_halves, const std::string& where) {
  const double of_parameters = has_halves ? kOfHalves : kOfParameters;
  for (const auto& [field, value] : expected.items()) {
    const std::string here = where + "." + field;
    if (!got.contains(field)) return here + " is missing";
    std::string problem;
    if (field == "slow")
      problem = slow_differs(value, got[field], here);
    else if (field == "ps_weight")
      problem = numbers_differ(json::array({value}), json::array({got[field]}), kOfParameters, here);
    else if (value.is_array())
      problem = numbers_differ(value, got[field], field == "params" ? of_parameters : kOfParameters, here);
    else if (got[field] != value)
      problem = fmt::format("{} is {}, it was {}", here, got[field].dump(), value.dump());
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string steps_differ(const json& one, const json& got) {
  const json& expected = one["steps"];
  const bool has_halves = one["args"].contains("fp16");
  if (got.size() != expected.size()) return fmt::format("{} steps, there were {}", got.size(), expected.size());
  for (std::size_t step = 0; step < expected.size(); ++step)
    for (std::size_t rank = 0; rank < expected[step].size(); ++rank) {
      const json& row = got.at(step).at(rank);
      const bool refused = one["refused"].get<bool>() && step + 1 == expected.size();
      if (refused != row.contains("error"))
        return fmt::format("step {}, rank {}: {}", step, rank, refused ? "was refused, and is taken" : "is refused");
      const std::string problem =
          row_differs(expected[step][rank], row, has_halves, fmt::format("step {}, rank {}", step, rank));
      if (!problem.empty()) return problem;
    }
  return {};
}

void as_fairscale(Context& context) {
  const std::string& kind = context.parameters().text("runs");
  const json record = recorded("slowmo", "fairscale");
  int asked = 0;
  for (const json& one : record["cases"]) {
    if (one["kind"] != kind) continue;
    json args = one["args"];
    args["convention"] = "fairscale";
    ++asked;
    context.progress(one["name"].get<std::string>());
    const std::string problem = problem_of(context.adapter(), "slowmo.trace", args,
                                           [&](const json& result) { return steps_differ(one, result.at("steps")); });
    report_words(problem.empty() ? problem : one["name"].get<std::string>() + ": " + problem);
  }
  report_words(asked > 0 ? "" : "no recorded run of '" + kind + "'");
}

}  // namespace

void add_slowmo_recorded_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> kinds) {
    suite.add({.id = std::string("slowmo.recorded.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {{"runs", std::move(kinds)}},
               .operations = {"slowmo.trace"},
               .convention = "fairscale",
               .body = as_fairscale});
  };
  add("averages", "SLOWMO-001@d10d", {"base"});
  add("slow_steps", "SLOWMO-002@8e45", {"slow", "first"});
  add("gossip", "SLOWMO-003@19df", {"sgp", "slow_sgp"});
  add("halves", "SLOWMO-004@6f56", {"halves"});
  add("resumed", "SLOWMO-005@080c", {"resume"});
}

}  // namespace plumbline::conformance
