// Partitions by a name or a layout: each system's methods, Megatron-LM's texts, and ends that are counted as layers.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/support/recorded.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

const char* const kMethod = "schedules.partition_method";
const char* const kLayout = "schedules.pipeline_layout";
const char* const kCounted = "schedules.partition_counted";

// What a recorded case asks, what it answers, and whether it is refused.
void ask_name_as_recorded(Context& context, const std::string& op, const char* convention, const json& one,
                          std::initializer_list<const char*> fields, std::initializer_list<const char*> results) {
  json args{{"convention", convention}}, expected = json::object();
  for (const char* field : fields) args[field] = one.at(field);
  const std::string words = fmt::format("{} {}: ", op, args.dump().substr(0, 200));
  if (one.contains("error")) {
    if (!refuses_bad_value(answer_to(context.adapter(), op, args), args))
      report_words(words + "refused in the record, here answered, or unsupported");
    return;
  }
  for (const char* field : results) expected[field] = one.at(field);
  const std::string problem =
      problem_of(context.adapter(), op, args, [&](const json& result) { return first_difference(expected, result); });
  if (!problem.empty()) report_words(words + problem);
}

std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// ---- methods ----

void deepspeed_methods(Context& context) {
  const json record = recorded("schedules", "partition_methods");
  for (const json& one : record.at("cases"))
    if (in_small_letters(one.at("method")).starts_with(context.parameters().text("method")))
      ask_name_as_recorded(context, kMethod, "deepspeed", one, {"method", "layers", "num_parts"}, {"boundaries"});
}

void unknown_methods(Context& context) {
  static const std::map<std::string, std::string> methods{
      {"unknown", "Layerwise"}, {"profile", "profile"}, {"no_match", "type:conv"}, {"bad_expression", "type:a("}};
  const std::string& method = methods.at(context.parameters().text("fault"));
  // DeepSpeed lowers the letters of a method, and has Python's own error of an expression.
  const bool is_named = method != methods.at("bad_expression");
  const std::string named = in_small_letters(method.substr(method.find(':') + 1));
  const json layers{{{"type", "Linear"}, {"parameters", 4}}, {{"type", "ReLU"}, {"parameters", 0}}};
  report_words(problem_of_control(context.adapter(), kMethod, {{"convention", "deepspeed"}}));
  const json args{{"convention", "deepspeed"}, {"method", method}, {"layers", layers}, {"num_parts", 2}};
  const Answer answer = answer_to(context.adapter(), kMethod, args);
  if (!answer.is_refused())
    report_words(fmt::format("method '{}' is answered: {}", method, answer.result.dump()));
  else if (!refuses_bad_value(answer, args) ||
           (is_named && in_small_letters(answer.message).find(named) == std::string::npos))
    report_words(
        fmt::format("method '{}' is refused as '{}', which does not name it: {}", method, answer.kind, answer.message));
}

// Of boundaries, or of the parts of each rank.
int layers_owned(const json& answer) {
  int owned = 0;
  if (answer.contains("boundaries")) {
    for (const int boundary : answer.at("boundaries").get<std::vector<int>>()) owned = boundary;
    return owned;
  }
  for (const auto& chunks : answer.at("parts").get<std::vector<std::vector<std::array<int, 2>>>>())
    for (const auto& [begin, end] : chunks) owned += end - begin;
  return owned;
}

// A method's answer is that of the same system to the weights that the method gives.
void dealt_by_weight(Context& context) {
  const std::string &convention = context.parameters().text("convention"),
                    &method = context.parameters().text("method");
  const bool of_colossalai = convention == "colossalai", even = method == "even";
  const std::array<int, 9> parameters{0, 900, 3, 3, 40, 0, 7, 120, 500};
  json layers = json::array(), weights = json::array();
  for (const int count : parameters) {
    layers.push_back({{"type", "Layer"}, {"parameters", count}});
    weights.push_back(count);
  }
  json place = of_colossalai ? json{{"pp", 3}, {"chunks", 1}} : json{{"num_parts", 3}};
  place["convention"] = convention;
  json named = place, dealt = place;
  named["layers"] = layers;
  named["method"] = of_colossalai ? (even ? "layer" : "parameter") : (even ? "uniform" : "parameters");
  if (even)
    dealt["num_items"] = layers.size();
  else
    dealt["weights"] = weights;
  const char* const of_weights = even ? "schedules.partition_uniform" : "schedules.partition_balanced";
  report_words(problem_of(context.adapter(), kMethod, named, [&](const json& by_name) -> std::string {
    if (const int owned = layers_owned(by_name); owned != static_cast<int>(parameters.size()))
      return fmt::format("{} of {} layers have an owner", owned, parameters.size());
    return problem_of(context.adapter(), of_weights, dealt,
                      [&](const json& by_weight) { return first_difference(by_weight, by_name); });
  }));
  named["method"] = of_colossalai ? "parameters" : "parameter";
  if (!refuses_bad_value(answer_to(context.adapter(), kMethod, named), named))
    report_words(
        fmt::format("{}: method {} is not refused, which is another system's", convention, named["method"].dump()));
}

// ---- layouts ----

const char* kind_of(const std::string& layout) {
  if (layout.find('m') != std::string::npos) return "prediction";
  return layout.find('*') == std::string::npos ? "plain" : "repeated";
}

void layouts(Context& context) {
  const json record = recorded("schedules", "partition_megatron");
  for (const json& one : record.at("cases"))
    if (one.at("kind") == "layout" && !one.contains("error") &&
        kind_of(one.at("layout")) == context.parameters().text("text"))
      ask_name_as_recorded(context, kLayout, "megatron", one, {"layout", "pp", "num_layers", "mtp_num_layers"},
                           {"stages", "parts", "mtp_standalone"});
}

void refused_layouts(Context& context) {
  report_words(problem_of_control(context.adapter(), kLayout, {{"convention", "megatron"}}));
  const json record = recorded("schedules", "partition_megatron");
  const bool of_text = context.parameters().text("wrong") == "text";
  for (const json& one : record.at("cases"))
    if (one.at("kind") == "layout" && one.contains("error") &&
        of_text == one["error"].at("message").get<std::string>().starts_with("Invalid layer character"))
      ask_name_as_recorded(context, kLayout, "megatron", one, {"layout", "pp", "num_layers", "mtp_num_layers"}, {});
}

// Stages on each number of ranks, a transformer layer in each stage.
void layouts_of_any_size(Context& context) {
  const auto stages = static_cast<int>(context.parameters().number("stages"));
  std::vector<std::string> texts(static_cast<std::size_t>(stages), "t");
  texts.front() = "E" + texts.front();
  texts.back() += "L";
  for (int ranks = 0; ranks <= 2 * stages + 1; ++ranks) {
    const json args{{"convention", "megatron"},
                    {"layout", fmt::format("{}", fmt::join(texts, "|"))},
                    {"pp", ranks},
                    {"num_layers", stages}};
    const bool fits = ranks > 0 && stages % ranks == 0;
    const std::string words =
        fits ? problem_of(context.adapter(), kLayout, args,
                          [&](const json& result) { return first_difference({{"stages", texts}}, result); })
             : problem_of_refusal_beside_answers(context.adapter(), kLayout, args);
    if (!words.empty()) return report_words(args.dump() + ": " + words);
  }
}

// ---- ends that are counted ----

json counted_of(const std::string& which) {
  return {{"embedding", which == "embedding" || which == "both"}, {"loss", which == "loss" || which == "both"}};
}

void counted_as_megatron(Context& context) {
  const json record = recorded("schedules", "partition_megatron");
  const json counted = counted_of(context.parameters().text("counted"));
  for (const json& one : record.at("cases"))
    if (one.at("kind") == "counted" && first_difference(counted, one).empty())
      ask_name_as_recorded(context, kCounted, "megatron", one, {"num_layers", "pp", "chunks", "embedding", "loss"},
                           {"parts"});
}

// Where each chunk of each rank has as many, the counted ends among them; nothing where they cannot.
json parts_counted(int layers, int ranks, int chunks, const json& counted) {
  const int before = counted.at("embedding").get<bool>() ? 1 : 0, after = counted.at("loss").get<bool>() ? 1 : 0;
  const int all = layers + before + after;
  if (all % (ranks * chunks) != 0) return {};
  const int each = all / (ranks * chunks);
  json parts = json::array();
  for (int rank = 0; rank < ranks; ++rank) {
    json& own = parts.emplace_back(json::array());
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int part = chunk * ranks + rank;
      own.push_back({std::max(0, part * each - before), std::min(layers, (part + 1) * each - before)});
    }
  }
  return parts;
}
void counted_in_any_shape(Context& context) {
  const json counted = counted_of(context.parameters().text("counted"));
  for (int layers = 1; layers <= 13; ++layers)
    for (int ranks = 1; ranks <= 4; ++ranks)
      for (int chunks = 1; chunks <= 3; ++chunks) {
        if (ranks == 1 && chunks > 1) continue;  // Megatron-core has chunks of pipelines of several ranks alone
        json args = counted;
        args.update({{"convention", "megatron"}, {"num_layers", layers}, {"pp", ranks}, {"chunks", chunks}});
        const json parts = parts_counted(layers, ranks, chunks, counted);
        const Answer answer = answer_to(context.adapter(), kCounted, args);
        if (parts.is_null() && !refuses_bad_value(answer, args))
          return report_words(args.dump() + " is not refused: " + answer.kind);
        if (parts.is_null()) continue;
        const std::string words =
            answer.is_refused() ? "refused: " + answer.message : first_difference({{"parts", parts}}, answer.result);
        if (!words.empty()) return report_words(args.dump() + ": " + words);
      }
}

// Embedding and loss counted, no two parts differ by more than one, and the larger ones are the first.
std::string problem_of_counted(const json& parts, int layers, const json& counted) {
  std::vector<int> sizes;
  int next = 0;
  for (const json& chunks : parts) {
    const int begin = chunks.at(0).at(0), end = chunks.at(0).at(1);
    if (begin != next || end < begin) return fmt::format("[{}, {}) follows layer {}", begin, end, next);
    sizes.push_back(end - begin);
    next = end;
  }
  if (next != layers) return fmt::format("{} of {} layers have an owner", next, layers);
  const std::string of_layers = fmt::format("{}", fmt::join(sizes, " "));
  sizes.front() += counted.at("embedding").get<bool>() ? 1 : 0;
  sizes.back() += counted.at("loss").get<bool>() ? 1 : 0;
  const auto [least, most] = std::ranges::minmax(sizes);
  if (most - least <= 1 && std::ranges::is_sorted(sizes, std::ranges::greater())) return {};
  return fmt::format("layers {}, with what is counted {}: they differ by one at most, the larger first", of_layers,
                     fmt::join(sizes, " "));
}

void counted_evenly(Context& context) {
  const json counted = counted_of(context.parameters().text("counted"));
  const auto parts = static_cast<int>(context.parameters().number("parts"));
  for (int layers = parts; layers <= 4 * parts + 1; ++layers) {
    json args = counted;
    args.update({{"num_layers", layers}, {"pp", parts}});
    const std::string problem = problem_of(context.adapter(), kCounted, args, [&](const json& result) {
      return problem_of_counted(result.at("parts"), layers, counted);
    });
    if (!problem.empty()) return report_words(fmt::format("{} layers in {} parts: {}", layers, parts, problem));
  }
}

}  // namespace

void add_partition_name_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> operations,
                       std::vector<suite::Axis> axes, void (*body)(Context&), const char* convention = "plumbline",
                       std::vector<AskedOption> options = {}, OperationsOfCase asks = {}) {
    suite.add({.id = std::string("schedules.partition.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = std::move(operations),
               .asks = std::move(asks),
               .convention = convention,
               .options = options_of(std::move(options)),
               .body = body});
  };
  const char* const uniform = "schedules.partition_uniform";
  const char* const balanced = "schedules.partition_balanced";
  const auto by_method = operations_by("method", {{"even", {kMethod, uniform}}, {"weighed", {kMethod, balanced}}});
  const auto methods_and_form = [&](const char* even, const char* weighed_too, const char* weighed, const char* form) {
    return std::vector<AskedOption>{
        {kMethod, "method", {}, "method", {{"even", {even, weighed_too}}, {"weighed", {weighed, "parameters"}}}},
        {uniform, "form", {}, "method", {{"even", {form}}}},
        {balanced, "form", {}, "method", {{"weighed", {form}}}}};
  };
  const suite::Axis counted{"counted", {"none", "embedding", "loss", "both"}}, methods{"method", {"even", "weighed"}};
  add("deepspeed_methods", "SCHED-100@72ca", {kMethod}, {{"method", {"uniform", "parameters", "type:"}}},
      deepspeed_methods, "deepspeed",
      {{kMethod, "method", {}, "method", {{"uniform", {"uniform"}}, {"parameters", {"parameters"}}}}});
  add("unknown_methods", "SCHED-101@66d2", {kMethod}, {{"fault", {"unknown", "profile", "no_match", "bad_expression"}}},
      unknown_methods, "deepspeed", {{kMethod, "method", {"parameters"}}});
  add("colossalai_methods", "SCHED-102@7e3a", {kMethod, uniform, balanced}, {{"convention", {"colossalai"}}, methods},
      dealt_by_weight, "colossalai", methods_and_form("layer", "parameters", "parameter", "pp"), by_method);
  add("deepspeed_06_methods", "SCHED-102@7e3a", {kMethod, uniform, balanced},
      {{"convention", {"deepspeed-0.6"}}, methods}, dealt_by_weight, "deepspeed-0.6",
      methods_and_form("uniform", "parameter", "parameter", "num_parts"), by_method);
  add("layouts", "SCHED-103@262f", {kLayout}, {{"text", {"plain", "repeated", "prediction"}}}, layouts, "megatron");
  add("refused_layouts", "SCHED-104@eb00", {kLayout}, {{"wrong", {"text", "model"}}}, refused_layouts, "megatron");
  add("layouts_of_any_size", "SCHED-104@eb00", {kLayout}, {{"stages", {"1", "2", "3", "4", "6", "8"}}},
      layouts_of_any_size, "megatron");
  add("counted_in_any_shape", "SCHED-105@369d", {kCounted}, {counted}, counted_in_any_shape, "megatron");
  add("counted_as_megatron", "SCHED-105@369d", {kCounted}, {counted}, counted_as_megatron, "megatron");
  add("counted_evenly", "SCHED-106@43af", {kCounted}, {counted, {"parts", {"1", "2", "4"}}}, counted_evenly);
}

}  // namespace plumbline::conformance
