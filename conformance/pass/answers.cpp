#include "conformance/pass/answers.hpp"

#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/suite/adapter_error.hpp"

namespace plumbline::conformance {

using nlohmann::json;

namespace {

// As many as can be told by an earlier one.
constexpr int kMostStages = 5;

json program_told(const json& args, const json& result, const std::string& stage, int left) {
  const json& before = args.at("program");
  if (stage == "before") return before;
  if (left == 0) throw std::out_of_range("stages that are told by one another");
  const json& told = stage == "final" ? result.at("final") : result.at("stages").at(stage);
  if (told.contains("same_as")) return program_told(args, result, told.at("same_as"), left - 1);
  if (told.contains("vars")) return told;
  json program = before;
  program["ops"] = told.at("ops");
  for (const json& variable : told.value("vars_added", json::array())) program["vars"].push_back(variable);
  return program;
}

}  // namespace

json program_at(const json& args, const json& result, const std::string& stage) {
  return program_told(args, result, stage, kMostStages);
}

namespace {

bool is_in_scope(const json& op) {
  const std::string scope = op.at("attrs").value("op_namescope", "");
  return scope.find("auto_parallel/data_parallel") != std::string::npos;
}

}  // namespace

bool is_reduction(const json& op) {
  const std::string type = op.at("type");
  if (!is_in_scope(op)) return false;
  if (type == "c_allreduce_sum" || type == "c_allreduce_avg") return true;
  const std::string by = op.at("attrs").value("reduce_type", "sum");
  return (type == "all_reduce" || type == "reduce") && (by == "sum" || by == "avg");
}

bool is_scale(const json& op) { return op.at("type") == "scale" && is_in_scope(op); }

std::string problem_of_lost_ops(const json& before, const json& after) {
  std::map<std::string, int> left;  // how many more of a type the first program has
  for (const auto& [program, sign] : {std::pair(&before, 1), std::pair(&after, -1)})
    for (const json& op : program->at("ops")) {
      const std::string type = op.at("type");
      if (!is_reduction(op) && type != "scale" && !type.starts_with("c_wait_")) left[type] += sign;
    }
  for (const auto& [type, count] : left)
    if (count > 0) return fmt::format("{} ops of type {} are gone", count, type);
  return {};
}

bool has_names(const json& slots, const std::string& slot, const json& names) {
  return slots.size() == 1 && slots.contains(slot) && slots.at(slot) == names;
}

std::optional<PassRefusal> refusal_of(suite::Adapter& adapter, const json& args) {
  try {
    (void)adapter.ask(kPass, args);
    return std::nullopt;
  } catch (const suite::AdapterError& error) {
    const auto field = [&](const char* name) {
      const auto found = error.fields().find(name);
      return found == error.fields().end() ? std::string() : found->second;
    };
    return PassRefusal{std::string(error.kind()), error.message(), field("stage"), field("class")};
  }
}

}  // namespace plumbline::conformance
