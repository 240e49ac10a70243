// What Paddle's pass made of 180 programs; that the default changes nothing that they compute; what is refused; when
// nothing is done.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <regex>
#include <sstream>

#include <fmt/format.h>

#include "conformance/pass/answers.hpp"
#include "conformance/pass/evaluate.hpp"
#include "conformance/pass/pass_checks.hpp"
#include "conformance/pass/question.hpp"
#include "conformance/pass/recorded_programs.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

// ---- recorded programs ----

json result_of(const json& one, const json& record) {
  json result = json::object();
  for (const char* name : {"analysis", "groups", "summary"})
    if (one.contains(name)) result[name] = one.at(name);
  result["final"] = expanded_program(one.at("final"), record);
  const json stages = one.value("stages", json::object());
  for (const auto& [name, stage] : stages.items()) result["stages"][name] = expanded_program(stage, record);
  return result;
}

using JudgeCase = std::function<std::string(const json& one, const json& record)>;

void judge_cases(Context& context, const JudgeCase& judge) {
  const json record = recorded("pass", context.parameters().text("programs"));
  for (const json& one : record.at("cases"))
    if (const std::string problem = judge(one, record); !problem.empty())
      report_words(one.at("case").get<std::string>() + ": " + problem);
}

void as_recorded(Context& context) {
  judge_cases(context, [&](const json& one, const json& record) -> std::string {
    return problem_of(
        context.adapter(), kPass, question_of_recorded(one, record, "paddle"), [&](const json& result) -> std::string {
          if (one.contains("skipped") && result.contains("analysis"))  // whether and why is not asked here
            return "the pass is applied, it is to be skipped";
          return first_difference(result_of(one, record), result);
        });
  });
}

void refused_as_recorded(Context& context) {
  const json record = recorded("pass", "refused");
  for (const json& one : record.at("cases")) {
    if (one.at("error").at("stage") != context.parameters().text("stage")) continue;
    const auto refusal = refusal_of(context.adapter(), question_of_recorded(one, record, "paddle"));
    const std::string name = one.at("case");
    if (!refusal) {
      report_words(name + " is answered");
    } else if (refusal->stage != one.at("error").at("stage") || refusal->exception != one.at("error").at("class")) {
      report_words(fmt::format("{} is refused at stage '{}' with class '{}', it is {}", name, refusal->stage,
                               refusal->exception, one.at("error").dump()));
    }
  }
}

// The part of the words that names what is wrong.
void refused_with_words(Context& context) {
  const json record = recorded("pass", "refused");
  for (const json& one : record.at("cases")) {
    const auto refusal = refusal_of(context.adapter(), question_of_recorded(one, record, "paddle"));
    if (!refusal) report_words(one.at("case").get<std::string>() + " is answered");
    for (const json& words : one.at("error").value("says", json::array()))
      if (refusal && refusal->message.find(words.get<std::string>()) == std::string::npos)
        report_words(fmt::format("{}: '{}' does not say '{}'", one.at("case").get<std::string>(), refusal->message,
                                 words.get<std::string>()));
  }
}

void twice_as_recorded(Context& context) {
  const json record = recorded("pass", "entry");
  for (const json& one : record.at("cases")) {
    if (!one.contains("again_new_context")) continue;
    json args = question_of_recorded(one, record, "paddle");
    args["program"] = expanded_program(one.at("final"), record);
    const json expected = expanded_program(one.at("again_new_context"), record);
    report_words(problem_of(context.adapter(), kPass, args, [&](const json& again) {
      return first_difference(
          {{"ops", expected.at("ops")}, {"info", expected.at("info")}},
          {{"ops", program_at(args, again, "final").at("ops")}, {"info", again.at("summary").at("info")}});
    }));
  }
}

void values_of_recorded(Context& context) {
  judge_cases(context, [&](const json& one, const json& record) -> std::string {
    const json args = question_of_recorded(one, record, "plumbline");
    if (is_computed_elsewhere(args.at("program"))) return {};
    if (is_refused_by_all(one)) return {};
    return problem_of(context.adapter(), kPass, args, [&](const json& result) {
      const json& rings = args.at("rings");
      return difference(evaluate(args.at("program"), rings), evaluate(program_at(args, result, "final"), rings));
    });
  });
}

// ---- when nothing is done, and what is not looked at ----

json step_args(const std::string& convention) {
  PassQuestion question;
  question.gradients.resize(3);
  return question.args(convention);
}

const std::vector<std::pair<std::string, json>>& reasons() {
  static const std::vector<std::pair<std::string, json>> list{
      {"no_context", {{"dist_context", nullptr}}},
      {"rank_text", {{"global_rank", "0"}}},
      {"rank_fraction", {{"global_rank", 0.0}}},
      {"rank_negative", {{"global_rank", -1}}},
      {"rank_null", {{"global_rank", nullptr}}},
      {"rank_list", {{"global_rank", {0}}}},
      {"fusion_pass_behind_others", {{"context_passes", {"auto_parallel_amp", "fused_feedforward"}}}},
      {"fuse_adamw", {{"context_passes", {"fuse_adamw"}}}},
      {"fuse_bn_act", {{"context_passes", {"fuse_bn_act"}}}},
      {"fuse_bn_add_act", {{"context_passes", {"fuse_bn_add_act"}}}},
      {"fuse_dot_product_attention", {{"context_passes", {"fuse_dot_product_attention"}}}},
      {"fuse_elewise_add_act", {{"context_passes", {"fuse_elewise_add_act"}}}},
      {"fuse_optimizer", {{"context_passes", {"fuse_optimizer"}}}},
      {"fuse_relu_depthwise_conv", {{"context_passes", {"fuse_relu_depthwise_conv"}}}},
      {"fuse_resunit", {{"context_passes", {"fuse_resunit"}}}},
      {"fused_attention", {{"context_passes", {"fused_attention"}}}},
      {"fusion_pass", {{"context_passes", {"fuse_gemm_epilogue"}}}},
      {"itself_behind_another", {{"context_passes", {"a_pass", "auto_parallel_data_parallel_optimization"}}}},
      {"itself", {{"context_passes", {"auto_parallel_data_parallel_optimization"}}}}};
  return list;
}

void does_nothing(Context& context, const char* convention) {
  const std::string& reason = context.parameters().text("reason");
  json args = step_args(convention);
  args["options"].update(std::ranges::find(reasons(), reason, &std::pair<std::string, json>::first)->second);
  report_words(problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
    const std::string words = first_difference(args.at("program"), program_at(args, result, "final"), "final");
    if (!words.empty()) return words;
    return result.value("skipped", std::string()).empty() ? "it is not said why nothing is done" : "";
  }));
}
void does_nothing_as_ours(Context& context) { does_nothing(context, "plumbline"); }
void does_nothing_as_paddle(Context& context) { does_nothing(context, "paddle"); }

// Of whole numbers, and of truth values, which are numbers to the source.
void ranks(Context& context) {
  const std::map<std::string, json> all{{"first", 0},     {"later", 3},         {"true", true},
                                        {"false", false}, {"large", INT64_MAX}, {"largest", UINT64_MAX}};
  json args = step_args("plumbline");
  const Answer plain = answer_to(context.adapter(), kPass, args);
  args["options"]["global_rank"] = all.at(context.parameters().text("rank"));
  report_words(problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
    if (result.contains("skipped")) return "nothing is done: " + result.at("skipped").dump();
    const json all{PassQuestion::name_of(0), PassQuestion::name_of(1), PassQuestion::name_of(2)};
    const std::string words =
        first_difference({{"groups", {{{"gradients", all}}}}, {"summary", {{"allreduce_ops", all.size()}}}}, result);
    if (!words.empty()) return words;
    const auto updates = std::ranges::count_if(program_at(args, result, "final").at("ops"),
                                               [](const json& op) { return op.at("attrs").at("op_role") == 2; });
    if (updates != 3) return fmt::format("{} parameters are updated, there are 3", updates);
    return first_difference(plain.result, result);
  }));
}

void options_ignored(Context& context) {
  json args = step_args("plumbline");
  const Answer plain = answer_to(context.adapter(), kPass, args);
  args["options"].update({{"enable", false},
                          {"fuse_all_reduce_ops", false},
                          {"fuse_grad_size_in_MB", 1},
                          {"overlap_comm_cacl", false},
                          {"context_passes", {"a_pass", "auto_parallel_amp", "fuse_", "zzz_pass"}},
                          {"global_rank", 1}});
  report_words(problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
    const auto reductions = std::ranges::count_if(program_at(args, result, "final").at("ops"), is_reduction);
    if (reductions != 1) return fmt::format("{} reductions are left of three that fit one", reductions);
    return first_difference(plain.result, result);
  }));
}

void nothing_parallel(Context& context) {
  json args = step_args("plumbline");
  for (json& op : args["program"]["ops"])
    if (op["attrs"].contains("op_namescope")) op["attrs"]["op_namescope"] = context.parameters().text("scope");
  report_words(problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
    if (result.at("analysis").at("data_parallel_applied") != false) return "something is data parallel";
    return first_difference(args.at("program"), program_at(args, result, "final"), "final");
  }));
}

// By their type, the reduction and the scope, each before and after those that count in the alphabet.
void recognised(Context& context) {
  const std::string& type = context.parameters().text("type");
  PassQuestion question{.gradients = std::vector<DrawnGradient>(1), .has_scales = false};
  for (const char* by : {"", "sum", "avg", "min", "max", "prod"})
    for (const char* scope : {"", "/auto_parallel/data_parallel", "auto_parallel/data_parallel/0", "a", "z",
                              "/auto_parallel/tensor_parallel"}) {
      json args = question.args("plumbline");
      json& reduction = *std::ranges::find_if(args["program"]["ops"], is_reduction);
      reduction["type"] = type;
      reduction["attrs"].erase("reduce_type");
      if (*by != '\0') reduction["attrs"]["reduce_type"] = by;
      reduction["attrs"]["op_namescope"] = scope;
      const bool counts = is_reduction(reduction);
      const std::string problem = problem_of(context.adapter(), kPass, args, [&](const json& result) {
        std::string words = first_difference({{"data_parallel_applied", counts}}, result.at("analysis"), "analysis");
        if (!words.empty() || counts) return words;
        return first_difference(args.at("program"), program_at(args, result, "final"), "final");
      });
      if (!problem.empty()) return report_words(fmt::format("{} by '{}' in scope '{}': {}", type, by, scope, problem));
    }
}

// ---- placement ----

void placed_on_all_meshes(Context& context) {
  const bool is_mapped = context.parameters().text("mapped") == "yes";
  json args = step_args("plumbline");
  for (json& variable : args["program"]["vars"]) {
    const std::string name = variable["name"];
    if (!name.starts_with("w") || name.starts_with("w1")) continue;  // w1 lies nowhere in particular
    variable["process_mesh"] = name.starts_with("w0") ? json({0, 1}) : json({1, 2});
    variable["dims_mapping"] = {0};
  }
  for (json& op : args["program"]["ops"])
    if (is_reduction(op)) {
      op["process_mesh"] = {0, 1, 2};
      op["input_dims_mappings"] = op["output_dims_mappings"] = json::object();
      const std::string name = op["outputs"]["out"][0];
      if (is_mapped) op["input_dims_mappings"][name] = op["output_dims_mappings"][name] = {0};
    }
  report_words(problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
    const json program = program_at(args, result, "final");
    const std::string name = "coalesce_grad_0_0";
    const auto& variables = program.at("vars");
    const auto fused = std::ranges::find_if(variables, [&](const json& one) { return one.at("name") == name; });
    if (fused == variables.end()) return "there is no fused variable";
    if (std::string words =
            first_difference({{"process_mesh", {0, 1, 2}}, {"dims_mapping", json::array()}}, *fused, name);
        !words.empty())
      return words;
    for (const json& op : program.at("ops")) {
      if (is_reduction(op)) {
        const json mappings = is_mapped ? json{{name, {0}}} : json::object();
        for (const char* which : {"input_dims_mappings", "output_dims_mappings"})
          if (op.at(which) != mappings)
            return fmt::format("{} of the fused reduction are {}, expected {}", which, op.at(which).dump(),
                               mappings.dump());
        return first_difference({{"process_mesh", {0, 1, 2}}}, op, "the fused reduction");
      }
      if (op.at("type") != "coalesce_tensor") continue;
      const json expected{{"process_mesh", {0, 1, 2}},
                          {"input_dims_mappings", {{"w0@GRAD", {0}}, {"w1@GRAD", json::array()}, {"w2@GRAD", {0}}}},
                          {"output_dims_mappings",
                           {{name, json::array()}, {"w0@GRAD", {0}}, {"w1@GRAD", json::array()}, {"w2@GRAD", {0}}}}};
      if (std::string words = first_difference(expected, op, "coalesce_tensor"); !words.empty()) return words;
    }
    return "there is no reduction";
  }));
}

// ---- refusals ----

struct Fault {
  std::string name;
  void (*make)(json& args);
};

json& first_reduction(json& args) { return *std::ranges::find_if(args["program"]["ops"], is_reduction); }

const std::vector<Fault>& faults() {
  static const std::vector<Fault> list{
      {"no_ring", [](json& args) { first_reduction(args)["attrs"].erase("ring_id"); }},
      {"unknown_ring", [](json& args) { first_reduction(args)["attrs"]["ring_id"] = 999; }},
      {"scaled_not_reduced", [](json& args) { first_reduction(args)["type"] = "assign"; }},
      {"read_before_written",
       [](json& args) {
         json& ops = args["program"]["ops"];
         const json first = ops[0];
         ops.erase(0);
         ops.push_back(first);
       }},
      {"cycle",
       [](json& args) {
         json& ops = args["program"]["ops"];
         ops[0]["inputs"]["X"] = ops[1].at("outputs").at("Out");
       }},
      {"undeclared_variable", [](json& args) { first_reduction(args)["inputs"]["x"] = {"nobody"}; }},
      {"negative_shape", [](json& args) { args["program"]["vars"][0]["shape"] = {-7}; }},
      {"too_many_elements", [](json& args) { args["program"]["vars"][0]["shape"] = {1LL << 40, 1LL << 40}; }},
      {"unknown_type", [](json& args) { args["program"]["vars"][0]["dtype"] = "float33"; }},
      {"variable_twice", [](json& args) { args["program"]["vars"].push_back(args["program"]["vars"][0]); }},
      {"op_without_type", [](json& args) { args["program"]["ops"][0].erase("type"); }},
      {"unknown_field_of_op", [](json& args) { args["program"]["ops"][0]["output"] = json::object(); }},
      {"slot_no_list", [](json& args) { args["program"]["ops"][0]["inputs"]["X"] = "x0"; }},
      {"role_no_number", [](json& args) { args["program"]["ops"][0]["attrs"]["op_role"] = "forward"; }},
      {"negative_role", [](json& args) { args["program"]["ops"][0]["attrs"]["op_role"] = -1; }},
      {"negative_ring", [](json& args) { args["rings"]["-3"] = {0, 1}; }},
      {"value_out_of_range",
       [](json& args) {
         for (json& op : args["program"]["ops"])
           if (op["type"] == "fill_constant") op["attrs"]["value"] = 1e39;
       }},
      {"ring_out_of_range", [](json& args) { first_reduction(args)["attrs"]["ring_id"] = 1LL << 40; }},
      {"ring_without_ranks", [](json& args) { args["rings"]["10"] = json::array(); }},
      {"rank_twice", [](json& args) { args["rings"]["10"] = {1, 1}; }},
      {"negative_rank", [](json& args) { args["rings"]["10"] = {0, -1}; }},
      {"ring_no_number", [](json& args) { args["rings"]["dp"] = {0, 1}; }},
      {"negative_limit", [](json& args) { args["max_fuse_numel"] = -1; }},
      {"dimension_below_unknown", [](json& args) { args["program"]["vars"][0]["shape"] = {4, -2}; }},
      {"name_empty", [](json& args) { args["program"]["vars"][0]["name"] = ""; }},
      {"variable_without_type", [](json& args) { args["program"]["vars"][0].erase("dtype"); }},
      {"unknown_field_of_variable", [](json& args) { args["program"]["vars"][0]["size"] = 4; }},
      {"unknown_field_of_program", [](json& args) { args["program"]["blocks"] = json::array(); }},
      {"op_without_inputs", [](json& args) { args["program"]["ops"][0].erase("inputs"); }},
      {"reduction_by_mean", [](json& args) { first_reduction(args)["attrs"]["reduce_type"] = "mean"; }},
      {"value_below_range",
       [](json& args) {
         for (json& op : args["program"]["ops"])
           if (op["type"] == "fill_constant") op["attrs"]["value"] = -3.5e38;
       }},
      {"list_of_texts_and_numbers", [](json& args) { args["program"]["ops"][0]["attrs"]["mixed"] = {"a", 1}; }},
      {"list_of_lists", [](json& args) { args["program"]["ops"][0]["attrs"]["mixed"] = {json::array()}; }},
      {"attribute_beyond_64_bits", [](json& args) { args["program"]["ops"][0]["attrs"]["most"] = UINT64_MAX; }},
      {"attribute_null", [](json& args) { args["program"]["ops"][0]["attrs"]["none"] = nullptr; }},
      {"attribute_object", [](json& args) { args["program"]["ops"][0]["attrs"]["none"] = json::object(); }},
      {"role_beyond_32_bits", [](json& args) { args["program"]["ops"][0]["attrs"]["op_role"] = 1LL << 31; }},
      {"mapping_without_mesh", [](json& args) { args["program"]["vars"][0]["dims_mapping"] = {0}; }},
      {"ring_with_leading_zero", [](json& args) { args["rings"]["010"] = {0, 1}; }},
      {"ring_fraction", [](json& args) { args["rings"]["1.0"] = {0, 1}; }},
      {"ring_beyond_32_bits", [](json& args) { args["rings"]["2147483648"] = {0, 1}; }},
      {"option_no_truth", [](json& args) { args["options"]["use_sharding"] = "yes"; }},
      {"unknown_argument", [](json& args) { args["limit"] = 3; }}};
  return list;
}

void refuses(Context& context) {
  json args = step_args("plumbline");
  std::ranges::find(faults(), context.parameters().text("fault"), &Fault::name)->make(args);
  report_words(problem_of_refusal(context.adapter(), kPass, args));
}

// ---- forms ----

// A question whose first op and first variable have every field that there is.
json every_field() {
  json args = step_args("plumbline");
  json& op = args["program"]["ops"][0];
  op["attrs"].update({{"op_role", 0},
                      {"op_namescope", "/somewhere"},
                      {"ring_id", 10},
                      {"reduce_type", "max"},
                      {"use_calc_stream", true},
                      {"execution_stream", "a"},
                      {"scale", 0.5},
                      {"value", "-inf"},
                      {"rescale_grad", 3},
                      {"copy_data", false},
                      {"use_align", true},
                      {"dtype", "float16"},
                      {"concated_shapes", {2, 3}},
                      {"concated_ranks", {1, 1}},
                      {"truth", true},
                      {"whole", -(1LL << 53) - 1},
                      {"number", 0.1},
                      {"text", "a \"b\""},
                      {"wholes", {1, -2}},
                      {"numbers", {0.5, 2}},
                      {"texts", {"a", ""}},
                      {"nothing", json::array()}});
  op["process_mesh"] = {0, 1};
  op["input_dims_mappings"] = {{"x0", {0, -1}}};
  op["output_dims_mappings"] = {{"x1", json::array()}};
  json& variable = args["program"]["vars"][0];
  variable["shape"] = {1};
  variable["process_mesh"] = {1, 0};
  variable["dims_mapping"] = {-1, 0};
  variable["persistable"] = true;
  variable["parameter"] = false;
  args["program"]["other_blocks"] = {{"relu", "tanh"}, json::array()};
  args["options"]["sequential_run"] = false;
  args["options"]["context_passes"] = {"another_pass"};
  return args;
}

// As texts, lists, objects, truth values and numbers are told apart.
std::string form_of(const json& value) {
  if (value.is_number()) return "number";
  return value.type_name();
}

// Fields by what has them, each with a form of its own. An attribute without a meaning may have any.
const std::map<std::string, std::vector<std::string>>& fields_of_one_form() {
  static const std::map<std::string, std::vector<std::string>> fields{
      {"attributes",
       {"/op_role", "/op_namescope", "/ring_id", "/reduce_type", "/use_calc_stream", "/execution_stream", "/scale",
        "/rescale_grad", "/copy_data", "/use_align", "/dtype", "/concated_shapes", "/concated_shapes/0",
        "/concated_ranks", "/concated_ranks/1"}},
      {"op",
       {"", "/type", "/inputs", "/outputs", "/attrs", "/process_mesh", "/process_mesh/1", "/input_dims_mappings",
        "/input_dims_mappings/x0", "/output_dims_mappings", "/output_dims_mappings/x1"}},
      {"variable",
       {"", "/name", "/shape", "/shape/0", "/dtype", "/persistable", "/parameter", "/process_mesh", "/process_mesh/0",
        "/dims_mapping", "/dims_mapping/1"}},
      {"question",
       {"/program", "/program/vars", "/program/ops", "/program/other_blocks", "/program/other_blocks/0",
        "/program/other_blocks/0/1", "/rings", "/rings/10", "/rings/10/0", "/options", "/options/use_sharding",
        "/options/gradient_scale", "/options/sequential_run", "/options/context_passes", "/options/context_passes/0",
        "/max_fuse_numel", "/max_overlap_rings"}}};
  return fields;
}

// What of the question's fields a pass has not left as they were.
std::string problem_of_attributes(const json& args, const json& result) {
  const json& before = args.at("program");
  const json after = program_at(args, result, "final");
  const json &op = before.at("ops").at(0), &variable = before.at("vars").at(0);
  const auto kept =
      std::ranges::find_if(after.at("ops"), [&](const json& one) { return one.at("outputs") == op.at("outputs"); });
  if (kept == after.at("ops").end()) return "the first op is not there";
  const auto same =
      std::ranges::find_if(after.at("vars"), [&](const json& one) { return one.at("name") == variable.at("name"); });
  if (same == after.at("vars").end()) return "the first variable is not there";
  if (std::string words = first_difference(op, *kept, "the first op"); !words.empty()) return words;
  if (std::string words = first_difference(variable, *same, "the first variable"); !words.empty()) return words;
  return first_difference(before.at("other_blocks"), after.at("other_blocks"), "other_blocks");
}

std::string place_of_part(const std::string& part) {
  return part == "attributes" ? "/program/ops/0/attrs"
         : part == "op"       ? "/program/ops/0"
         : part == "variable" ? "/program/vars/0"
                              : "";
}

void forms(Context& context) {
  const json args = every_field();
  report_words(problem_of(context.adapter(), kPass, args,
                          [&](const json& result) { return problem_of_attributes(args, result); }));
  const std::string& part = context.parameters().text("part");
  const std::string at = place_of_part(part);
  for (const std::string& field : fields_of_one_form().at(part)) {
    const json::json_pointer place(at + field);
    for (const json& other : {json(true), json(3), json("x"), json::array(), json::object()}) {
      json bad = args;
      if (form_of(bad.at(place)) == form_of(other)) continue;
      bad[place] = other;
      const std::string problem = problem_of_refusal_beside_answers(context.adapter(), kPass, bad);
      if (!problem.empty()) return report_words(fmt::format("{}{} is {}: {}", at, field, other.dump(), problem));
    }
  }
}

// "/program/ops/0/attrs/scale" as errors name it.
std::string place_of(const std::string& pointer) {
  std::string place;
  std::istringstream parts(pointer.substr(1));
  for (std::string part; std::getline(parts, part, '/');) {
    const bool is_index = part.find_first_not_of("0123456789") == std::string::npos && place != "rings";
    place += is_index ? fmt::format("[{}]", part) : (place.empty() ? "" : ".") + part;
  }
  return place;
}

// Whether the words have that place, and not one within it. A key may be written ["10"].
bool names_place(const std::string& message, const std::string& place) {
  static const std::regex key(R"(\[["']([^"'\]]+)["']\])");
  const std::string words = std::regex_replace(message, key, ".$1");
  for (std::size_t at = words.find(place); at != std::string::npos; at = words.find(place, at + 1))
    if (const std::size_t end = at + place.size(); end == words.size() || (words[end] != '.' && words[end] != '['))
      return true;
  return false;
}

void places(Context& context) {
  const std::string& part = context.parameters().text("part");
  const json args = every_field();
  const std::string at = place_of_part(part);
  for (const std::string& field : fields_of_one_form().at(part)) {
    if (part == "question" && !field.starts_with("/program/") && !field.starts_with("/rings")) continue;
    for (const json& other : {json(true), json(3), json("x"), json::array(), json::object()}) {
      json bad = args;
      json& value = bad[json::json_pointer(at + field)];
      if (form_of(value) == form_of(other)) continue;
      value = other;
      const Answer answer = answer_to(context.adapter(), kPass, bad);
      if (!names_place(answer.message, place_of(at + field)))
        return report_words(
            fmt::format("{} is {}: '{}' does not name it", place_of(at + field), other.dump(), answer.message));
    }
  }
}

void attributes_are_kept(Context& context) {
  const json args = every_field();
  report_words(problem_of(context.adapter(), kPass, args,
                          [&](const json& result) { return problem_of_attributes(args, result); }));
}

// Words and numbers, each of which a field may have.
void values_are_kept(Context& context) {
  const std::map<std::string, std::vector<json>> all{
      {"reduce_type", {"sum", "avg", "min", "max", "prod"}},
      {"dtype",
       {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
        "complex128"}},
      {"scale", {"inf", "-inf", "nan", 0.0, -0.5, 3.4028234663852886e38, -3.4028234663852886e38}},
      {"ring_id", {0, 10, -1, INT32_MAX, INT32_MIN}},
      {"whole", {INT64_MAX, INT64_MIN, 0}},
      {"list", {{1.5, 2}, {1, 2.5}, {INT64_MAX}, {"inf", "nan"}, {"a"}, json::array()}}};
  const std::string& field = context.parameters().text("field");
  for (const json& value : all.at(field)) {
    json args = every_field();
    args["program"]["ops"][0]["attrs"][field] = value;
    if (field == "dtype") args["program"]["vars"][0]["dtype"] = value;
    args["program"]["vars"][0]["shape"] = {-1, 0, INT64_MAX};
    const std::string problem = problem_of(context.adapter(), kPass, args,
                                           [&](const json& result) { return problem_of_attributes(args, result); });
    if (!problem.empty()) return report_words(fmt::format("{} is {}: {}", field, value.dump(), problem));
  }
}

template <class List, class Name>
std::vector<std::string> recorded_names(const List& list, Name name) {
  std::vector<std::string> names;
  for (const auto& one : list) names.push_back(std::invoke(name, one));
  return names;
}

}  // namespace

void add_pass_recorded_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       const char* convention = "plumbline") {
    suite.add({.id = std::string("pass.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {kPass},
               .convention = convention,
               .body = body});
  };
  const suite::Axis answered{"programs", files_of_answered()};
  suite::Axis all = answered;
  all.values.emplace_back("refused");
  add("recorded.answers", "PASS-071@b47d", {answered}, as_recorded, "paddle");
  add("recorded.refusals", "PASS-072@aaac",
      {{"stage", {"analyze", "prune", "group_grads", "update_program", "add_dependencies"}}}, refused_as_recorded,
      "paddle");
  add("recorded.words", "PASS-073@f256", {}, refused_with_words, "paddle");
  add("recorded.twice", "PASS-074@ddf0", {}, twice_as_recorded, "paddle");
  add("recorded.values", "PASS-014@bf3d", {all}, values_of_recorded);
  const suite::Axis reason{"reason", recorded_names(reasons(), &std::pair<std::string, json>::first)};
  add("entry.does_nothing", "PASS-002@3df2", {reason}, does_nothing_as_ours);
  add("recorded.does_nothing", "PASS-002@3df2", {reason}, does_nothing_as_paddle, "paddle");
  add("entry.ranks", "PASS-002@3df2", {{"rank", {"first", "later", "true", "false", "large", "largest"}}}, ranks);
  add("entry.options_ignored", "PASS-003@a0ea", {}, options_ignored);
  add("entry.nothing_parallel", "PASS-004@6bd3",
      {{"scope", {"/auto_parallel/tensor_parallel", "/optimizer", "/data_parallel"}}}, nothing_parallel);
  add("recognised", "PASS-004@6bd3",
      {{"type",
        {"a", "all_gather", "all_reduce", "broadcast", "c_allreduce_avg", "c_allreduce_max", "c_allreduce_prod",
         "c_allreduce_sum", "c_reduce_sum", "reduce", "reduce_scatter", "z"}}},
      recognised);
  add("placement.union", "PASS-044@690f", {{"mapped", {"yes", "no"}}}, placed_on_all_meshes);
  add("refusals", "PASS-005@8316", {{"fault", recorded_names(faults(), &Fault::name)}}, refuses);
  add("forms", "PASS-005@8316", {{"part", {"attributes", "op", "variable", "question"}}}, forms);
  add("places", "PASS-096@2abb", {{"part", {"attributes", "op", "variable", "question"}}}, places);
  add("attributes_are_kept", "PASS-040@817b", {}, attributes_are_kept);
  add("values_are_kept", "PASS-040@817b", {{"field", {"reduce_type", "dtype", "scale", "ring_id", "whole", "list"}}},
      values_are_kept);
}

}  // namespace plumbline::conformance
