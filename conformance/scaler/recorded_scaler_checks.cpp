// What PyTorch, Megatron-LM, ColossalAI and DeepSpeed answered, as recorded: scales, counters, decisions exactly,
// gradients and norms within the errors that the requirements state.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <fmt/format.h>

#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

json fields_of(const json& one, std::initializer_list<const char*> names) {
  json fields = json::object();
  for (const char* name : names)
    if (one.contains(name)) fields[name] = one.at(name);
  return fields;
}

// Fields whose numbers may be this far from the recorded ones, or 1e-7; all others are exact.
struct Rounded {
  std::set<std::string> fields;
  double relative = 0;
};

// As first_difference(), with numbers in fields that are rounded taken for the same where they are near.
std::string difference(const json& expected, const json& got, const Rounded& rounded, const std::string& where,
                       bool is_rounded = false) {
  if (expected == got) return {};
  if (is_rounded && expected.is_number() && got.is_number()) {
    const auto a = expected.get<double>(), b = got.get<double>();
    if (std::abs(a - b) <= std::max(1e-7, rounded.relative * std::max(std::abs(a), std::abs(b)))) return {};
  }
  if (expected.is_array() && got.is_array() && expected.size() == got.size()) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (std::string words = difference(expected[i], got[i], rounded, fmt::format("{}[{}]", where, i), is_rounded);
          !words.empty())
        return words;
    return {};
  }
  if (expected.is_object() && got.is_object()) {
    for (const auto& [name, value] : expected.items()) {
      if (!got.contains(name)) return fmt::format("{}.{} is missing", where, name);
      if (std::string words = difference(value, got[name], rounded, where + "." + name, rounded.fields.contains(name));
          !words.empty())
        return words;
    }
    return {};
  }
  return first_difference(expected, got, where);
}

struct Question {
  std::string op;
  json args;
  json expected;  // null: a refusal
  Rounded rounded = {};
};

void ask(suite::Adapter& adapter, const Question& question, const std::string& name) {
  std::string problem;
  if (question.expected.is_null()) {
    const Answer answer = answer_to(adapter, question.op, question.args);
    if (!answer.is_refused())
      problem = "is refused in the record, here answered: " + answer.result.dump().substr(0, 120);
    if (answer.kind == "unsupported") problem = "is refused as unsupported: " + answer.message;
  } else {
    problem = problem_of(adapter, question.op, question.args, [&](const json& result) {
      return difference(question.expected, result, question.rounded, "result");
    });
  }
  if (!problem.empty()) report_words(name + ": " + problem);
}

// ---- torch: rows of calls ----

Question torch_question(const json& one) {
  Question question{.op = "scaler.trace",
                    .args = fields_of(one, {"init", "dtype", "sizes", "lr", "ops"}),
                    .expected = nullptr,
                    .rounded = {{"out", "grads", "params", "norm"}, 1e-6}};
  question.args["convention"] = "torch";
  if (one.contains("construct_error")) return question;
  json rows = json::array();
  for (const json& row : one.at("results")) {
    json& expected = rows.emplace_back(row);
    // That it is refused counts, in whatever words.
    if (expected.contains("error")) expected["error"] = json::object();
  }
  question.expected = {{"results", rows}};
  return question;
}

void recorded_torch(Context& context) {
  const std::string which = context.parameters().text("cases");
  const json file = recorded("scaler", "torch");
  for (const json& one : file.at("cases")) {
    const auto name = one.at("name").get<std::string>();
    const bool is_sequence = name.starts_with("sequence/") || name.starts_with("init/");
    if (is_sequence == (which == "sequences")) ask(context.adapter(), torch_question(one), name);
  }
}

// ---- rules with counters ----

void recorded_rule(Context& context) {
  const std::string peer = context.parameters().text("peer"), which = context.parameters().text("cases");
  const json file = recorded("scaler", peer);
  for (const json& one : file.at("cases")) {
    const auto name = one.at("name").get<std::string>();
    if (name.starts_with("grid") != (which == "random")) continue;
    json args = fields_of(one, {"init", "found_inf", "scaler", "overflow"});
    args["convention"] = peer;
    json expected = one.contains("construct_error") ? json() : fields_of(one, {"trace", "state_dict"});
    if (expected.contains("trace"))
      for (json& row : expected["trace"])
        if (row.contains("error")) row["error"] = json::object();
    ask(context.adapter(), {"scaler.trace", args, expected}, name);
  }
}

// ---- decisions and norms ----

void recorded_decisions(Context& context) {
  const std::string which = context.parameters().text("cases");
  const json file = recorded("scaler", "found_inf");
  for (const json& one : file.at("cases"))
    for (const json& row : one.at("table")) {
      if ((row.at("local_found_inf").size() <= 1) != (which == "one_rank")) continue;
      json args = fields_of(one, {"world_size", "tensor", "pipeline", "data"});
      args["convention"] = "colossalai";
      args["local_found_inf"] = row.at("local_found_inf");
      json expected = row;
      expected.erase("local_found_inf");
      ask(context.adapter(), {"scaler.found_inf", args, expected},
          one.at("name").get<std::string>() + " " + args["local_found_inf"].dump());
    }
}

void recorded_optimizer(Context& context) {
  const std::string which = context.parameters().text("cases");
  const json file = recorded("scaler", "fp16_optimizer");
  for (const json& one : file.at("cases")) {
    const auto name = one.at("name").get<std::string>();
    if (!name.starts_with("fp16_optimizer") || (one.at("clip_grad") > 0.0) != (which == "clipped")) continue;
    json args = fields_of(one, {"world_size", "tensor", "pipeline", "data", "clip_grad", "scaler", "params0"});
    args["convention"] = "colossalai";
    args["steps"] = json::array();
    json expected = json::array();
    for (const json& step : one.at("steps")) {
      json& asked = args["steps"].emplace_back(json::array());
      for (const json& row : step) asked.push_back(fields_of(row, {"grads_scaled"}));
      expected.push_back(step);
    }
    ask(context.adapter(),
        {"scaler.fp16_optimizer", args, {{"steps", expected}}, {{"main_params", "main_grads", "grad_norm"}, 2e-6}},
        name);
  }
}

void recorded_norms(Context& context) {
  const std::string which = context.parameters().text("cases");
  const json file = recorded("scaler", "clip_grad_norm");
  for (const json& one : file.at("cases")) {
    const auto name = one.at("name").get<std::string>();
    const bool is_special = name.find("/max") == std::string::npos;
    if (is_special != (which == "special")) continue;
    json args = fields_of(one, {"norm_type", "max_norm", "dtype", "error_if_nonfinite", "grads"});
    args["convention"] = "torch";
    const json expected = one.contains("error") ? json() : fields_of(one, {"total_norm", "clipped"});
    ask(context.adapter(), {"scaler.clip_grad_norm", args, expected, {{"total_norm", "clipped"}, 2e-6}}, name);
  }
}

// Over the ranks of a model group; orders that ColossalAI fails at are refused.
void recorded_norms_over_ranks(Context& context) {
  const std::string which = context.parameters().text("cases");
  const json file = recorded("scaler", "fp16_optimizer");
  for (const json& one : file.at("cases")) {
    const auto name = one.at("name").get<std::string>();
    if (!name.starts_with("clip_grad_norm_fp32")) continue;
    const bool is_refused = one.at("ranks").at(0).contains("error");
    if (is_refused != (which == "refused")) continue;
    json args = fields_of(one, {"world_size", "tensor", "pipeline", "max_norm", "norm_type"});
    args["convention"] = "colossalai";
    json expected = json::array();
    for (const json& rank : one.at("ranks")) {
      args["ranks"].push_back(fields_of(rank, {"grads"}));
      expected.push_back(fields_of(rank, {"norm", "clipped"}));
    }
    ask(context.adapter(),
        {"scaler.clip_grad_norm", args, is_refused ? json() : json{{"ranks", expected}}, {{"norm", "clipped"}, 1e-6}},
        name);
  }
}

}  // namespace

void add_recorded_scaler_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, const char* operation,
                       const char* convention, void (*body)(Context&), std::vector<AskedOption> options = {}) {
    suite.add({.id = std::string("scaler.recorded.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {operation},
               .convention = convention,
               .options = options_of(std::move(options)),
               .body = body});
  };
  const auto peer = [](const char* name) { return suite::Axis{"peer", {name}}; };
  const suite::Axis sequences{"cases", {"random", "sequences"}};
  add("torch", "SCALER-014@74da", {sequences}, "scaler.trace", "torch", recorded_torch,
      {{"scaler.trace",
        "dtype",
        {},
        "cases",
        {{"random", {"float32", "float64"}}, {"sequences", {"bfloat16", "float16", "float32"}}}}});
  add("megatron", "SCALER-025@caa7", {peer("megatron"), sequences}, "scaler.trace", "megatron", recorded_rule);
  add("colossalai", "SCALER-026@c772", {peer("colossalai"), sequences}, "scaler.trace", "colossalai", recorded_rule);
  add("deepspeed", "SCALER-034@b91c", {peer("deepspeed"), sequences}, "scaler.trace", "deepspeed", recorded_rule,
      {{"scaler.trace",
        "scaler",
        {},
        "cases",
        {{"random", {"DynamicLossScaler"}}, {"sequences", {"DynamicLossScaler", "FP16_Optimizer._update_scale"}}}}});
  add("decisions", "SCALER-045@5f96", {{"cases", {"one_rank", "several"}}}, "scaler.found_inf", "colossalai",
      recorded_decisions);
  add("optimizer", "SCALER-076@f02d", {{"cases", {"plain", "clipped"}}}, "scaler.fp16_optimizer", "colossalai",
      recorded_optimizer);
  add("norms", "SCALER-053@836a", {{"cases", {"ordinary", "special"}}}, "scaler.clip_grad_norm", "torch",
      recorded_norms,
      {{"scaler.clip_grad_norm", "form", {"gradients"}},
       {"scaler.clip_grad_norm",
        "dtype",
        {},
        "cases",
        {{"ordinary", {"float32"}}, {"special", {"bfloat16", "float16", "float32", "float64"}}}}});
  add("norms_over_ranks", "SCALER-080@adca", {{"cases", {"answered", "refused"}}}, "scaler.clip_grad_norm",
      "colossalai", recorded_norms_over_ranks, {{"scaler.clip_grad_norm", "form", {"ranks"}}});
}

}  // namespace plumbline::conformance
