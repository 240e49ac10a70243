// Runs of FairScale's wrapper, replayed through an adapter from their gradients.
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/slowmo/rounding.hpp"
#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

// ---- comparing ----

// A recorded number is the shortest decimal that rounds to it in its own type.
class Comparison {
 public:
  Comparison(const json& args, const json& steps, bool demands_bits)
      : demands_bits_(demands_bits),
        singles_(args, sizes_of_run(args, steps), kSingleUnit, 0),
        doubles_(args, sizes_of_run(args, steps), kDoubleUnit, 0),
        halves_(args, sizes_of_run(args, steps), kSingleUnit, args.contains("fp16") ? kHalfUnit : 0) {
    if (!args.value("double_tail", false)) return;
    const auto dims = args["dims"].get<std::vector<std::size_t>>();  // the second layer is of f64
    first_double_ = dims[1] * (dims[0] + 1);
  }

  void begin(std::size_t step) {
    single_ = singles_.after(step), double_ = doubles_.after(step), half_ = halves_.after(step);
  }

  // `distance` is that of the values in each of the sets.
  std::string lists_differ(const json& expected, const json& got, double Distances::* distance,
                           const std::string& where) const {
    if (got.size() != expected.size())
      return fmt::format("{} has {} values, it has {}", where, got.size(), expected.size());
    std::size_t beyond = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const bool is_double = i >= first_double_ && distance == &Distances::parameters;
      const double right = rounded(expected[i], is_double), value = rounded(got.at(i), is_double);
      if (right == value) continue;
      const double off = std::abs(value - right), near = (is_double ? double_ : single_).*distance;
      const double far = is_double ? near : half_.*distance;
      if (!demands_bits_ && off <= near) continue;
      if (demands_bits_ || !(off <= far))
        return fmt::format("{}[{}] is {}, it was {}{}", where, i, value, right,
                           demands_bits_ ? "" : fmt::format(" and may be off by {:.3g}", near));
      ++beyond;
    }
    // Halves round the other way only where they lie next to the middle of two: about one in a thousand.
    constexpr std::size_t few = 4;
    return beyond * few <= expected.size() ? ""
                                           : fmt::format("{}: {} of {} values are off by more than {:.3g}", where,
                                                         beyond, expected.size(), single_.*distance);
  }

 private:
  static double rounded(const json& value, bool is_double) {
    const auto number = value.get<double>();
    return is_double ? number : static_cast<double>(static_cast<float>(number));
  }

  bool demands_bits_;
  std::size_t first_double_ = SIZE_MAX;  // parameters from this element on
  Rounding singles_, doubles_, halves_;
  Distances single_, double_, half_;
};

std::string slow_differs(const json& expected, const json& got, const Comparison& compare, const std::string& where) {
  for (const char* field : {"start", "end"})
    if (got.at(field) != expected[field])
      return fmt::format("{}.{} is {}, it was {}", where, field, got.at(field).dump(), expected[field].dump());
  const std::string old =
      compare.lists_differ(expected["old_params"], got.at("old_params"), &Distances::old, where + ".old_params");
  if (!old.empty()) return old;
  return compare.lists_differ(expected["momentum"], got.at("momentum"), &Distances::slow, where + ".momentum");
}

std::string row_differs(const json& expected, const json& got, const Comparison& compare, const std::string& where) {
  for (const auto& [field, value] : expected.items()) {
    const std::string here = where + "." + field;
    if (!got.contains(field)) return here + " is missing";
    std::string problem;
    if (field == "slow")
      problem = slow_differs(value, got[field], compare, here);
    else if (field == "ps_weight")
      problem = compare.lists_differ(json::array({value}), json::array({got[field]}), &Distances::weight, here);
    else if (value.is_array())
      problem = compare.lists_differ(
          value, got[field], field == "buffer_after_forward" ? &Distances::copied : &Distances::parameters, here);
    else if (got[field] != value)
      problem = fmt::format("{} is {}, it was {}", here, got[field].dump(), value.dump());
    if (!problem.empty()) return problem;
  }
  return {};
}

std::string steps_differ(const json& one, const json& args, const json& got, bool demands_bits) {
  const json& expected = one["steps"];
  if (got.size() != expected.size()) return fmt::format("{} steps, there were {}", got.size(), expected.size());
  Comparison compare(args, expected, demands_bits);
  for (std::size_t step = 0; step < expected.size(); ++step) {
    compare.begin(step);
    for (std::size_t rank = 0; rank < expected[step].size(); ++rank) {
      const json& row = got.at(step).at(rank);
      const bool refused = one["refused"].get<bool>() && step + 1 == expected.size();
      if (refused != row.contains("error"))
        return fmt::format("step {}, rank {}: {}", step, rank, refused ? "was refused, and is taken" : "is refused");
      const std::string problem =
          row_differs(expected[step][rank], row, compare, fmt::format("step {}, rank {}", step, rank));
      if (!problem.empty()) return problem;
    }
  }
  return {};
}

// ---- asking ----

// Graph Hub is a class of the recording. It can be asked for by its peers, where a node has one rank.
bool has_hub(const json& args) { return args.contains("graph") && args["graph"] == "Hub"; }

std::string runs_of(const json& one) {
  const json& args = one["args"];
  const std::string kind = one["kind"];
  if (args.value("mixing", "uniform") == "skew") return kind + "_skew";
  if (has_hub(args)) return kind + (args["nprocs_per_node"] == 1 ? "_book" : "_hub");
  if (args.contains("graph") && args["graph"].is_string())
    return kind + (args["graph"] == "DynamicBipartiteExponentialGraph" ? "_bipartite" : "_n_peer");
  return kind == "halves" && args["base"] == "sgp" ? kind + "_sgp" : kind;
}

json question_of(const json& one) {
  json args = one["args"];
  args["convention"] = "fairscale";
  if (!has_hub(args) || args["nprocs_per_node"] != 1) return args;
  const int nodes = args["world_size"];
  args.erase("graph");
  args["regular"] = false;
  for (int node = 0; node < nodes; ++node)
    args["phone_book"].push_back({node == 0 ? 1 % nodes : 0, (node + 1) % nodes});
  return args;
}

void as_fairscale(Context& context) {
  const std::string& runs = context.parameters().text("runs");
  const bool demands_bits = context.parameters().text("arithmetic") == "separate";
  const json record = recorded("slowmo", "fairscale");
  int asked = 0;
  for (const json& one : record["cases"]) {
    if (runs_of(one) != runs) continue;
    json args = question_of(one);
    if (demands_bits) args["arithmetic"] = "separate";
    ++asked;
    context.progress(one["name"].get<std::string>());
    const std::string problem = problem_of(context.adapter(), "slowmo.trace", args, [&](const json& result) {
      return steps_differ(one, args, result.at("steps"), demands_bits);
    });
    report_words(problem.empty() ? problem : one["name"].get<std::string>() + ": " + problem);
  }
  report_words(asked > 0 ? "" : "no recorded run of '" + runs + "'");
}

}  // namespace

void add_slowmo_recorded_checks(suite::Suite& suite) {
  const std::string kTrace = "slowmo.trace";
  const auto of_runs = [&](const char* argument, std::map<std::string, std::vector<std::string>> by) {
    return AskedOption{kTrace, argument, {}, "runs", std::move(by)};
  };
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> kinds,
                       std::vector<AskedOption> options) {
    options.push_back({kTrace, "optimizer.name", {"sgd"}});
    options.push_back(of_runs("mixing", {{"sgp_skew", {"skew"}}}));
    options.back().values = {"uniform"};
    options.push_back({kTrace, "arithmetic", {}, "arithmetic", {{"separate", {"separate"}}, {"any", {}}}});
    suite.add({.id = std::string("slowmo.recorded.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {{"runs", std::move(kinds)}, {"arithmetic", {"separate", "any"}}},
               .operations = {kTrace},
               .convention = "fairscale",
               .options = options_of(std::move(options)),
               .body = as_fairscale});
  };
  const AskedOption averages{kTrace, "base", {"localsgd"}}, gossip{kTrace, "base", {"sgp"}};
  const std::vector<std::string> n_peer{"NPeerDynamicDirectedExponentialGraph"};
  add("averages", "SLOWMO-001@dbdf", {"base"}, {averages});
  add("slow_steps", "SLOWMO-002@4730", {"slow", "first"}, {averages});
  add("gossip", "SLOWMO-003@26df",
      {"sgp", "sgp_n_peer", "sgp_bipartite", "sgp_book", "sgp_hub", "sgp_skew", "slow_sgp", "slow_sgp_book"},
      {gossip, of_runs("graph", {{"sgp_n_peer", n_peer},
                                 {"sgp_skew", n_peer},
                                 {"sgp_bipartite", {"DynamicBipartiteExponentialGraph"}},
                                 {"sgp_hub", {"Hub"}}})});
  add("halves", "SLOWMO-004@9ab7", {"halves", "halves_sgp"},
      {of_runs("base", {{"halves", {"localsgd"}}, {"halves_sgp", {"sgp"}}}),
       of_runs("fp16", {{"halves", {"flat", "list"}}, {"halves_sgp", {"flat"}}})});
  add("resumed", "SLOWMO-005@527b", {"resume", "resume_book"},
      {of_runs("base", {{"resume", {"localsgd"}}, {"resume_book", {"sgp"}}})});
}

}  // namespace plumbline::conformance
