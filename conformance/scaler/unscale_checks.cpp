// Gradients that are divided by a loss scale, asked of an adapter.
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/element.hpp"
#include "reference/comm/dtype.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr const char* kUnscale = "scaler.unscale";

comm::DType dtype_named(const std::string& name) {
  if (name == "float16") return comm::DType::f16;
  if (name == "bfloat16") return comm::DType::bf16;
  return name == "float32" ? comm::DType::f32 : comm::DType::f64;
}
double rounded(const std::string& dtype, double value) {
  return static_cast<double>(number_of(dtype_named(dtype), nearest_bits(dtype_named(dtype), value)));
}

// The product with 0.375 of a number of at most 20 bits is exact in float32: what is stored is it, rounded once. The
// smallest numbers of float16 have products between two of its numbers.
void judge_rounded_once(Context& context, json args, const std::string& from, const std::string& to) {
  args.update({{"dtype", from}, {"inverse", 0.375}, {"grads", json::array()}});
  json expected = json::array();
  int number = 0;
  for (const int elements : {5, 0, 1, 33}) {
    json given = json::array(), right = json::array();
    for (int i = 0; i < elements; ++i) {
      const bool is_small = ++number % 3 == 0;
      const double value = rounded(from, is_small ? std::ldexp(number, -24) : ((number * 7919) % 4001 - 2000) / 64.0);
      given.push_back(value);
      right.push_back(rounded(to, value * 0.375));
    }
    args["grads"].push_back(std::move(given));
    expected.push_back(std::move(right));
  }
  report_words(problem_of(context.adapter(), kUnscale, args,
                          [&](const json& result) { return first_difference(expected, result.at("grads"), "grads"); }));
}

void answered_rounded_once(Context& context) {
  const std::string &from = context.parameters().text("from"), &to = context.parameters().text("to");
  judge_rounded_once(context, {{"to", to}}, from, to);
}
// PyTorch's gradients are divided where they are.
void answered_rounded_in_place(Context& context) {
  const std::string& dtype = context.parameters().text("dtype");
  judge_rounded_once(context, {{"convention", "torch"}}, dtype, dtype);
}

void answered_refusals(Context& context) {
  const std::string& what = context.parameters().text("what");
  json right{{"dtype", "float16"}, {"to", "float32"}, {"inverse", 0.5}, {"grads", {{2, 4}, {6}}}};
  if (what == "fewer" || what == "more") right["elements"] = {2, 1};
  json args = right;
  if (what == "fewer") args["elements"] = {2, 0};
  if (what == "more") args["elements"] = {3, 1};
  if (what == "to_float16") args.update({{"dtype", "float32"}, {"to", "float16"}});
  if (what == "to_bfloat16") args["to"] = "bfloat16";
  if (what == "to_float64") args["to"] = "float64";
  report_words(problem_of(context.adapter(), kUnscale, right, [](const json& result) {
    return first_difference(json{{1, 2}, {3}}, result.at("grads"), "grads");
  }));
  const Answer answer = answer_to(context.adapter(), kUnscale, args);
  if (!answer.is_refused()) report_words("it is answered with " + answer.result.dump());
}

}  // namespace

void add_unscale_checks(suite::Suite& suite) {
  const AskedOption from{kUnscale, "dtype", {}, "from"}, to{kUnscale, "to", {}, "to"};
  suite.add({.id = "scaler.unscale.rounded_once",
             .verifies = {"SCALER-114@8187"},
             .door = suite::Door::adapter,
             .axes = {{"from", {"float16", "bfloat16", "float32", "float64"}},
                      {"to", {"float16", "bfloat16", "float32", "float64"}}},
             .applies =
                 [](const suite::Parameters& parameters) {
                   const std::string &from = parameters.text("from"), &to = parameters.text("to");
                   return from == to || (to == "float32" && from != "float64");
                 },
             .operations = {kUnscale},
             .options = options_of({from, to}),
             .body = answered_rounded_once});
  suite.add({.id = "scaler.unscale.rounded_in_place",
             .verifies = {"SCALER-114@8187"},
             .door = suite::Door::adapter,
             .axes = {{"dtype", {"float16", "bfloat16", "float32", "float64"}}},
             .operations = {kUnscale},
             .convention = "torch",
             .options = options_of({{kUnscale, "dtype", {}, "dtype"}}),
             .body = answered_rounded_in_place});
  suite.add({.id = "scaler.unscale.refusals",
             .verifies = {"SCALER-115@b5c7"},
             .door = suite::Door::adapter,
             .axes = {{"what", {"fewer", "more", "to_float16", "to_bfloat16", "to_float64"}}},
             .operations = {kUnscale},
             .options = options_of(
                 {{kUnscale, "dtype", {"float16"}},
                  {kUnscale, "dtype", {}, "what", {{"to_float16", {"float32"}}}},
                  {kUnscale, "to", {"float32"}},
                  {kUnscale,
                   "to",
                   {},
                   "what",
                   {{"to_float16", {"float16"}}, {"to_bfloat16", {"bfloat16"}}, {"to_float64", {"float64"}}}},
                  {kUnscale, "fields", {}, "what", {{"fewer", {"elements"}}, {"more", {"elements"}}}}}),
             .body = answered_refusals});
}

}  // namespace plumbline::conformance
