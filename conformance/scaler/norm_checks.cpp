// The norm of gradients apart from clipping, over the parts of a model, as adapters answer.
#include <cmath>

#include <fmt/format.h>

#include "conformance/scaler/norms.hpp"
#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/support/property.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

const char* const kTotalNorm = "scaler.total_norm";

using Lists = std::vector<std::vector<double>>;
using ModelParts = std::vector<Lists>;  // of stages or shards, the gradients of each

double order_of(Context& context) { return std::stod(context.parameters().text("p")); }
json as_json(double order) { return std::isinf(order) ? json("inf") : json(order); }

double norm_of_parts(const ModelParts& parts, double p) {
  Lists all;
  for (const Lists& part : parts) all.insert(all.end(), part.begin(), part.end());
  return norm_in_one_row(all, p);
}

ModelParts draw_parts(Random& random, const std::string& kind) {
  ModelParts parts(static_cast<std::size_t>(kind == "one" ? 1 : random.between(2, 6)));
  for (Lists& part : parts) {
    if (kind == "some_empty" && random.between(0, 1) == 0) continue;
    part.resize(static_cast<std::size_t>(random.between(1, 3)));
    for (auto& list : part) {
      list.resize(static_cast<std::size_t>(random.between(1, 5)));
      for (double& value : list) value = random.between(-64, 64) / 16.0;
    }
  }
  return parts;
}

std::vector<ModelParts> smaller_parts(const ModelParts& parts) {
  std::vector<ModelParts> list;
  for (std::size_t i = 0; i < parts.size() && parts.size() > 1; ++i) {
    list.push_back(parts);
    list.back().erase(list.back().begin() + static_cast<std::ptrdiff_t>(i));
  }
  return list;
}

std::string problem_of_norms(const ModelParts& parts, double p, const json& result) {
  const double expected = norm_of_parts(parts, p), got = result.at("total_norm").get<double>();
  if (!is_near_norm(got, expected)) return fmt::format("the total norm is {}, it should be {}", got, expected);
  const auto of_parts = result.at("part_norms").get<std::vector<double>>();
  if (of_parts.size() != parts.size()) return fmt::format("{} parts have a norm", of_parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (const double own = norm_in_one_row(parts[i], p); !is_near_norm(of_parts[i], own))
      return fmt::format("the norm of part {} is {}, it should be {}", i, of_parts[i], own);
  return {};
}

void norm_of_the_whole(Context& context, const std::string& convention) {
  constexpr int trials = 40;
  const double p = order_of(context);
  const auto question = [&](const ModelParts& parts) {
    return json{{"convention", convention}, {"parts", parts}, {"norm_type", as_json(p)}};
  };
  const Property<ModelParts> property{
      .draw = [&](Random& random) { return draw_parts(random, context.parameters().text("parts")); },
      .problem =
          [&](const ModelParts& parts) {
            return problem_of(context.adapter(), kTotalNorm, question(parts),
                              [&](const json& result) { return problem_of_norms(parts, p, result); });
          },
      .smaller = smaller_parts,
      .words = [&](const ModelParts& parts) { return question(parts).dump(); }};
  report_words(search(property, context.seed(), trials));
}

// The value in the first, middle or last of three parts; of two values, the second in the part after, or the first.
void non_finite_part(Context& context, const std::string& convention) {
  const std::string value = context.parameters().text("value");
  const auto at = static_cast<std::size_t>(context.parameters().number("part"));
  const double p = order_of(context);
  json parts = json::parse("[[[1.0]], [[2.0], [-1.0]], [[0.5]]]");
  json own{nullptr, nullptr, nullptr};  // the norms that are not finite
  const auto put = [&](std::size_t part, const std::string& one) {
    parts[part][0].push_back(one);
    own[part] = one == "nan" ? "nan" : "inf";
  };
  const bool both = value == "inf_and_nan";
  put(at, both ? "inf" : value);
  if (both) put((at + 1) % 3, "nan");
  json args{{"convention", convention}, {"parts", parts}, {"norm_type", as_json(p)}, {"error_if_nonfinite", false}};
  report_words(problem_of(context.adapter(), kTotalNorm, args, [&](const json& result) -> std::string {
    const char* const expected = value == "nan" || both ? "nan" : "inf";
    if (result.at("total_norm") != expected) return "the total norm is " + result.at("total_norm").dump();
    for (std::size_t i = 0; i < 3; ++i)
      if (const json& norm = result.at("part_norms").at(i); own[i].is_string() ? norm != own[i] : !norm.is_number())
        return fmt::format("the norm of part {} is {}", i, norm.dump());
    return {};
  }));
  args["error_if_nonfinite"] = true;
  const Answer answer = answer_to(context.adapter(), kTotalNorm, args);
  if (!answer.is_refused() || answer.kind == "unsupported")
    report_words("with error_if_nonfinite it is answered: " + answer.result.dump());
}

void finite_parts(Context& context, const std::string& convention) {
  const json args{
      {"convention", convention}, {"parts", json::parse("[[[3.0]], [[4.0]], [[12.0]]]")}, {"error_if_nonfinite", true}};
  report_words(problem_of(context.adapter(), kTotalNorm, args, [](const json& result) -> std::string {
    const double norm = result.at("total_norm").get<double>();
    return is_near_norm(norm, 13) ? "" : fmt::format("with error_if_nonfinite, the total norm is {}, not 13", norm);
  }));
}

}  // namespace

void add_norm_checks(suite::Suite& suite) {
  using Body = void (*)(Context&, const std::string& convention);
  const auto add = [&](const std::string& name, const char* requirement, const std::vector<suite::Axis>& axes,
                       Body body) {
    for (const std::string convention : {"plumbline", "torch"})
      suite.add({.id = fmt::format("scaler.total_norm.{}{}", convention == "torch" ? "torch_" : "", name),
                 .verifies = {requirement},
                 .door = suite::Door::adapter,
                 .axes = axes,
                 .operations = {kTotalNorm},
                 .convention = convention,
                 .options = options_of({{kTotalNorm, "dtype", {"float32"}}}),
                 .body = [body, convention](Context& context) { body(context, convention); }});
  };
  add("of_the_whole", "SCALER-131@9157",
      {{"p", {"1", "2", "3", "0.5", "inf"}}, {"parts", {"one", "several", "some_empty"}}}, norm_of_the_whole);
  add("non_finite_part", "SCALER-132@9143",
      {{"p", {"1", "2", "inf"}}, {"value", {"inf", "-inf", "nan", "inf_and_nan"}}, {"part", {"0", "1", "2"}}},
      non_finite_part);
  add("finite_parts", "SCALER-132@9143", {}, finite_parts);
}

}  // namespace plumbline::conformance
