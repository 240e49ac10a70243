// Whether the gradient of a loss may be divided in place of what is made of it: what lies between them must be linear.
#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "conformance/pass/answers.hpp"
#include "conformance/pass/pass_checks.hpp"
#include "conformance/pass/question.hpp"
#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

// What is between the gradient of the loss, `g`, and all others: it makes `passed`. `x0` is a value of the forward.
struct Between {
  bool is_linear = true;
  std::vector<json> ops;
};

json backward_op(const char* type, json inputs, json attributes = json::object(), const char* output = "passed") {
  attributes["op_role"] = attributes.value("op_role", 1);
  return {{"type", type}, {"inputs", std::move(inputs)}, {"outputs", {{"Out", {output}}}}, {"attrs", attributes}};
}

constexpr const char* kLossGradient = "loss@GRAD";

void add_linear(std::map<std::string, Between>& all) {
  const json g{kLossGradient};
  for (const char* type : {"assign", "c_identity", "cast", "reshape2", "reduce_sum", "reduce_mean", "slice", "split",
                           "transpose2", "all_gather", "scale", "c_allreduce_sum", "all_reduce"})
    all[type] = {true, {backward_op(type, {{"X", g}})}};
  for (const char* type : {"concat", "sum"})
    all[type] = {true, {backward_op(type, {{"X", {kLossGradient, kLossGradient}}})}};
  for (const char* type : {"elementwise_add", "elementwise_sub"})
    all[type] = {true, {backward_op(type, {{"X", g}, {"Y", g}})}};
  for (const char* type : {"elementwise_mul", "matmul_v2", "mul"}) {
    all[type] = {true, {backward_op(type, {{"X", g}, {"Y", {"x0"}}})}};
    all[std::string(type) + "_by_it"] = {true, {backward_op(type, {{"X", {"x0"}}, {"Y", g}})}};
  }
  all["scale_without_bias"] = {true, {backward_op("scale", {{"X", g}}, {{"scale", 0.5}, {"bias", 0.0}})}};
  all["derivative"] = {true, {backward_op("relu_grad", {{"Out@GRAD", g}, {"Out", {"x0"}}})}};
  all["second_derivative"] = {true, {backward_op("square_grad_grad", {{"DDX", g}, {"X", {"x0"}}})}};
  all["received"] = {true,
                     {backward_op("recv_v2", json::object(), json::object(), "other"),
                      backward_op("sum", {{"X", {kLossGradient, "other"}}})}};
  all["sent_undivided"] = {
      true, {backward_op("send_v2", {{"x", g}}, json::object(), "other"), backward_op("assign", {{"X", g}})}};
  const auto with_zeros = [&](const char* name, std::vector<json> makes) {
    makes.push_back(backward_op("sum", {{"X", {kLossGradient, "other"}}}));
    all[name] = {true, std::move(makes)};
  };
  with_zeros("zeros", {backward_op("fill_constant", json::object(), {{"value", 0.0}}, "other")});
  with_zeros("zeros_like", {backward_op("fill_any_like", {{"X", {"x0"}}}, {{"value", 0.0}}, "other")});
  with_zeros("sum_of_zeros", {backward_op("fill_constant", json::object(), {{"value", 0.0}}, "zeros"),
                              backward_op("sum", {{"X", {"zeros", "zeros"}}}, json::object(), "other")});
}

void add_others(std::map<std::string, Between>& all) {
  const json g{kLossGradient}, x{"x0"};
  const auto add = [&](const char* name, std::vector<json> ops) { all[name] = {false, std::move(ops)}; };
  add("square", {backward_op("square", {{"X", g}})});
  add("itself_times_itself", {backward_op("elementwise_mul", {{"X", g}, {"Y", g}})});
  add("matrix_of_itself", {backward_op("matmul_v2", {{"X", g}, {"Y", g}})});
  add("quotient", {backward_op("elementwise_div", {{"X", x}, {"Y", g}})});
  for (const char* type : {"elementwise_add", "elementwise_sub"})
    add((std::string("something_") + type).c_str(), {backward_op(type, {{"X", x}, {"Y", g}})});
  for (const char* type : {"sum", "concat"})
    add((std::string("something_") + type).c_str(), {backward_op(type, {{"X", {kLossGradient, "x0"}}})});
  add("bias", {backward_op("scale", {{"X", g}}, {{"scale", 1.0}, {"bias", 1.0}})});
  add("scale_of_a_variable", {backward_op("scale", {{"X", g}, {"ScaleTensor", x}})});
  add("largest", {backward_op("all_reduce", {{"x", g}}, {{"ring_id", 10}, {"reduce_type", "max"}})});
  add("largest_of_older_kind", {backward_op("c_allreduce_max", {{"x", g}}, {{"ring_id", 10}})});
  add("value_of_a_derivative", {backward_op("relu_grad", {{"Out@GRAD", g}, {"Out", g}})});
  add("derivative_of_something", {backward_op("add_grad", {{"Out@GRAD", g}, {"Other@GRAD", x}})});
  add("ones", {backward_op("fill_constant", json::object(), {{"value", 1.0}}, "other"),
               backward_op("sum", {{"X", {kLossGradient, "other"}}})});
  add("ones_like", {backward_op("fill_any_like", {{"X", x}}, {{"value", 1.0}}, "other"),
                    backward_op("sum", {{"X", {kLossGradient, "other"}}})});
  add("zeros_that_are_written", {backward_op("fill_constant", json::object(), {{"value", 0.0}}, "other"),
                                 backward_op("assign", {{"X", x}}, json::object(), "other"),
                                 backward_op("sum", {{"X", {kLossGradient, "other"}}})});
  add("zeros_and_something", {backward_op("fill_constant", json::object(), {{"value", 0.0}}, "zeros"),
                              backward_op("sum", {{"X", {"zeros", "x0"}}}, json::object(), "other"),
                              backward_op("sum", {{"X", {kLossGradient, "other"}}})});
  add("read_by_the_forward",
      {backward_op("assign", {{"X", g}}, {{"op_role", 0}}, "other"), backward_op("assign", {{"X", g}})});
  add("read_by_an_optimizer",
      {backward_op("assign", {{"X", g}}, {{"op_role", 2}}, "other"), backward_op("assign", {{"X", g}})});
  add("shared_memory",
      {backward_op("share_buffer", {{"X", x}}, json::object(), "other"), backward_op("assign", {{"X", g}})});
}

const std::map<std::string, Between>& betweens() {
  static const std::map<std::string, Between> all = [] {
    std::map<std::string, Between> list;
    add_linear(list);
    add_others(list);
    return list;
  }();
  return all;
}

json question_with_between(const std::vector<json>& ops) {
  PassQuestion question;
  question.gradients.resize(2);
  json args = question.args("plumbline");
  json& program = args["program"];
  for (const char* name : {"passed", "other", "zeros"})
    program["vars"].push_back({{"name", name}, {"shape", {4}}, {"dtype", "float32"}});
  json& all = program["ops"];
  const auto start =
      std::ranges::find_if(all, [](const json& op) { return op["type"] == "fill_constant"; }) - all.begin();
  all[static_cast<std::size_t>(start) + 1]["inputs"]["Out@GRAD"] = {"passed"};
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) all.insert(all.begin() + (start + 1), *op);
  return args;
}

double value_of_loss(const json& program) {
  for (const json& op : program.at("ops"))
    if (op.at("attrs").at("op_role") == 257) return op.at("attrs").at("value");
  throw std::out_of_range("no gradient of a loss");
}

void through(Context& context) {
  const Between& between = betweens().at(context.parameters().text("between"));
  const json args = question_with_between(between.ops);
  PassQuestion question;
  question.gradients.resize(2);
  const auto ranks = static_cast<double>(question.size_of_ring(0));
  report_words(problem_of(context.adapter(), kPass, args, [&](const json& result) -> std::string {
    const json program = program_at(args, result, "final");
    const double before = value_of_loss(args.at("program")), got = value_of_loss(program);
    const double right = between.is_linear ? static_cast<double>(static_cast<float>(before / ranks)) : before;
    if (got != right) return fmt::format("the gradient of the loss is {}, it is {}", got, right);
    if (between.is_linear && std::ranges::any_of(program.at("ops"), is_scale)) return "scale ops are left";
    return {};
  }));
}

}  // namespace

void add_pass_linear_checks(suite::Suite& suite) {
  std::vector<std::string> names;
  for (const auto& [name, between] : betweens()) names.push_back(name);
  suite.add({.id = "pass.rule.pruned_through",
             .verifies = {"PASS-010@ba42"},
             .door = Door::adapter,
             .axes = {{"between", std::move(names)}},
             .operations = {kPass},
             .convention = "plumbline",
             .body = through});
}

}  // namespace plumbline::conformance
