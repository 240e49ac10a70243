// Runs of FairScale's wrapper, replayed through an adapter from their gradients.
#include <cstdint>

#include <fmt/format.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

// A recorded number is the shortest decimal that rounds to it in its own type: what comes of it must have the same bits.
struct RecordedTypes {
  std::size_t first_double = SIZE_MAX;  // parameters from this element on are of f64, all others of f32 or less
  [[nodiscard]] bool same(double expected, double got, std::size_t element) const {
    return element >= first_double ? expected == got : static_cast<float>(expected) == static_cast<float>(got);
  }
};

std::string numbers_differ(const json& expected, const json& got, const RecordedTypes& types,
                           const std::string& where) {
  if (got.size() != expected.size())
    return fmt::format("{} has {} values, it has {}", where, got.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double right = expected[i].get<double>(), value = got.at(i).get<double>();
    if (!types.same(right, value, i)) return fmt::format("{}[{}] is {}, it was {}", where, i, value, right);
  }
  return {};
}

std::string slow_differs(const json& expected, const json& got, const std::string& where) {
  for (const char* field : {"start", "end"})
    if (got.at(field) != expected[field])
      return fmt::format("{}.{} is {}, it was {}", where, field, got.at(field).dump(), expected[field].dump());
  const std::string old = numbers_differ(expected["old_params"], got.at("old_params"), {}, where + ".old_params");
  return !old.empty() ? old : numbers_differ(expected["momentum"], got.at("momentum"), {}, where + ".momentum");
}

std::string row_differs(const json& expected, const json& got, const RecordedTypes& types, const std::string& where) {
  for (const auto& [field, value] : expected.items()) {
    const std::string here = where + "." + field;
    if (!got.contains(field)) return here + " is missing";
    std::string problem;
    if (field == "slow")
      problem = slow_differs(value, got[field], here);
    else if (field == "ps_weight")
      problem = numbers_differ(json::array({value}), json::array({got[field]}), {}, here);
    else if (value.is_array())
      problem = numbers_differ(value, got[field], types, here);
    else if (got[field] != value)
      problem = fmt::format("{} is {}, it was {}", here, got[field].dump(), value.dump());
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string steps_differ(const json& one, const json& got) {
  const json& expected = one["steps"];
  RecordedTypes types;
  if (one["args"].value("double_tail", false)) {  // the second layer
    const auto dims = one["args"]["dims"].get<std::vector<std::size_t>>();
    types.first_double = dims[1] * (dims[0] + 1);
  }
  if (got.size() != expected.size()) return fmt::format("{} steps, there were {}", got.size(), expected.size());
  for (std::size_t step = 0; step < expected.size(); ++step)
    for (std::size_t rank = 0; rank < expected[step].size(); ++rank) {
      const json& row = got.at(step).at(rank);
      const bool refused = one["refused"].get<bool>() && step + 1 == expected.size();
      if (refused != row.contains("error"))
        return fmt::format("step {}, rank {}: {}", step, rank, refused ? "was refused, and is taken" : "is refused");
      const std::string problem =
          row_differs(expected[step][rank], row, types, fmt::format("step {}, rank {}", step, rank));
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
  const std::string kTrace = "slowmo.trace";
  const AskedOption averages{kTrace, "base", {"localsgd"}}, either{kTrace, "base", {"localsgd", "sgp"}},
      uniform{kTrace, "mixing", {"uniform"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> kinds,
                       std::vector<AskedOption> options) {
    options.push_back({kTrace, "optimizer.name", {"sgd"}});
    suite.add({.id = std::string("slowmo.recorded.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {{"runs", std::move(kinds)}},
               .operations = {kTrace},
               .convention = "fairscale",
               .options = options_of(std::move(options)),
               .body = as_fairscale});
  };
  add("averages", "SLOWMO-001@d10d", {"base"}, {averages, uniform});
  add("slow_steps", "SLOWMO-002@8e45", {"slow", "first"}, {averages, uniform});
  add("gossip", "SLOWMO-003@19df", {"sgp", "slow_sgp"},
      {{kTrace, "base", {"sgp"}},
       {kTrace,
        "graph",
        {},
        "runs",
        {{"sgp", {"DynamicBipartiteExponentialGraph", "Hub", "NPeerDynamicDirectedExponentialGraph"}},
         {"slow_sgp", {"Hub"}}}},
       {kTrace, "mixing", {}, "runs", {{"sgp", {"skew", "uniform"}}, {"slow_sgp", {"uniform"}}}}});
  add("halves", "SLOWMO-004@6f56", {"halves"}, {either, uniform, {kTrace, "fp16", {"flat", "list"}}});
  add("resumed", "SLOWMO-005@080c", {"resume"}, {either, uniform, {kTrace, "graph", {"Hub"}}});
}

}  // namespace plumbline::conformance
