// Plans and predictions of them that are asked of an adapter by options of their own: gradients that ColossalAI's
// handlers cannot flatten, and gradients whose times are predicted.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr const char* kFlattened = "bucketing.flatten";
constexpr const char* kPredicted = "bucketing.exposed";

// ---- what is not flattened ----

json question_of_three(const std::string& first_device) {
  return {{"convention", "colossalai"},
          {"numel", {2, 3, 4}},
          {"dtype", "f32"},
          {"device", {first_device, "cuda:1", "cuda:1"}}};
}
void handlers_reject(Context& context) {
  const std::string& what = context.parameters().text("what");
  report_words(problem_of(context.adapter(), kFlattened, question_of_three("cuda:1"), [](const json& result) {
    return first_difference({{"buckets", {{0, 1, 2}}}, {"numel", {9}}}, result);
  }));
  const std::string first = what == "device_number" ? "cuda:0" : what == "device_kind" ? "cpu" : "cuda:1";
  json args = question_of_three(first);
  if (what == "sparse") args["expect_sparse_gradient"] = {false, true, false};
  const Answer answer = answer_to(context.adapter(), kFlattened, args);
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump());
  const std::string missing = missing_words(answer.message, {what == "sparse" ? "sparse" : first});
  if (!missing.empty()) report_words(fmt::format("{} is not in the message '{}'", missing, answer.message));
}

// ---- times that are predicted ----

// Gradients of 32, 16, 12 and 4 bytes, each a bucket of its own, in a backward pass of 64 s: no share of it is rounded.
json question_of_four() {
  json gradients = json::array(), buckets = json::array();
  const std::vector<std::pair<const char*, int>> all{{"f32", 8}, {"f64", 2}, {"f32", 3}, {"u8", 4}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    gradients.push_back({{"elements", all[i].second}, {"dtype", all[i].first}});
    buckets.push_back({{"dtype", all[i].first}, {"elements", all[i].second}, {"members", {{i, 0}}}});
  }
  return {{"plan", {{"buckets", std::move(buckets)}}},
          {"gradients", std::move(gradients)},
          {"backward", 64},
          {"world_size", 2},
          {"latency", 0.25}};
}
std::string problem_of_times(Context& context, const json& args, const std::vector<double>& ready) {
  json launches = json::array();
  for (const double time : ready) launches.push_back({{"ready", time}});
  return problem_of(context.adapter(), kPredicted, args,
                    [&](const json& result) { return first_difference({{"launches", launches}}, result); });
}
const std::vector<double> kInReverse{64, 32, 16, 4};

void ready_at_one_rate(Context& context) {
  json args = question_of_four();
  if (context.parameters().text("order") == "reverse") return report_words(problem_of_times(context, args, kInReverse));
  args["order"] = {1, 0, 3, 2};
  report_words(problem_of_times(context, args, {48, 16, 64, 52}));
}

void orders_rejected(Context& context) {
  json args = question_of_four();
  args["order"] = {3, 2, 1, 0};
  report_words(problem_of_times(context, args, kInReverse));
  args["order"] = json::parse(context.parameters().text("order"));
  report_words(problem_of_refusal_beside_answers(context.adapter(), kPredicted, args));
}

}  // namespace

void add_asked_plan_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, const char* operation, suite::Axis axis,
                       void (*body)(Context&), std::vector<AskedOption> options, const char* convention = "plumbline") {
    suite.add({.id = std::string("bucketing.") + name,
               .verifies = {requirement},
               .door = suite::Door::adapter,
               .axes = {std::move(axis)},
               .operations = {operation},
               .convention = convention,
               .options = options_of(std::move(options)),
               .body = body});
  };
  add("flat.handlers_reject", "BUCKET-220@1e82", kFlattened, {"what", {"sparse", "device_number", "device_kind"}},
      handlers_reject,
      {{kFlattened, "dtype", {"f32"}},
       {kFlattened,
        "device",
        {"cuda:1"},
        "what",
        {{"device_number", {"cuda:0", "cuda:1"}}, {"device_kind", {"cpu", "cuda:1"}}}}},
      "colossalai");
  add("prediction.ready_at_one_rate", "BUCKET-221@9eda", kPredicted, {"order", {"reverse", "given"}}, ready_at_one_rate,
      {{kPredicted, "fields", {"gradients"}}, {kPredicted, "fields", {}, "order", {{"given", {"order"}}}}});
  add("prediction.orders_rejected", "BUCKET-221@9eda", kPredicted, {"order", {"[0]", "[0,1,2,2]", "[0,1,2,4]"}},
      orders_rejected, {{kPredicted, "fields", {"gradients", "order"}}});
}

}  // namespace plumbline::conformance
