// Adapters whose partitions by name, by layout or of measured layers are wrong, each by a rule of its own.
#include <algorithm>
#include <cctype>

#include "conformance/schedules/schedules_mutants.hpp"
#include "harness/mutants/rewriting.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/partition.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

using schedules::Boundaries;
using schedules::LayerCost;
using schedules::StageLimits;

const char* const kMethod = "schedules.partition_method";
const char* const kLayout = "schedules.pipeline_layout";
const char* const kCounted = "schedules.partition_counted";
const char* const kMeasured = "schedules.partition_measured";
const char* const kCosts = "schedules.partition_costs";

// ---- by name ----

void type_counts_all(const json& args, json& result) {
  auto method = args.at("method").get<std::string>();
  std::ranges::transform(method, method.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (method.starts_with("type:"))
    result["boundaries"] =
        schedules::deepspeed_balanced(std::vector<double>(args.at("layers").size(), 1), args.at("num_parts"));
}

json method_case_matters(const std::string& op, const json& args, json reply) {
  if (op != kMethod || args.value("convention", "") != "deepspeed") return reply;
  const auto method = args.at("method").get<std::string>();
  if (std::ranges::none_of(method.substr(0, method.find(':')), [](unsigned char c) { return std::isupper(c) != 0; }))
    return reply;
  return {{"error", {{"kind", "unsupported"}, {"message", "no method " + method}}}};
}

void parameter_is_layer(const json& args, json& result) {
  const schedules::ColossalaiPartition partition =
      schedules::colossalai_uniform(static_cast<int>(args.at("layers").size()), args.at("pp"), args.at("chunks"));
  for (std::size_t rank = 0; rank < partition.ranks.size(); ++rank)
    for (std::size_t chunk = 0; chunk < partition.ranks[rank].size(); ++chunk)
      result["parts"][rank][chunk] = {partition.ranks[rank][chunk].begin, partition.ranks[rank][chunk].end};
}

// ---- layouts ----

json parts_of(const Boundaries& boundaries, int ranks) {
  json parts = json::array();
  for (const auto& chunks : schedules::by_rank(boundaries, ranks)) {
    json& row = parts.emplace_back(json::array());
    for (const schedules::Interval& interval : chunks) row.push_back({interval.begin, interval.end});
  }
  return parts;
}

bool is_layout(const std::string& text) {
  try {
    (void)schedules::parse_pipeline_layout(text);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

// What is repeated is the character in front of the star, be it the last one of a group.
void group_not_repeated(const json& args, json& result) {
  auto text = args.at("layout").get<std::string>();
  if (text.find(")*") == text.npos) return;
  std::erase_if(text, [](char c) { return c == '(' || c == ')'; });
  if (!is_layout(text)) return;
  result["stages"] = json::array();
  for (const auto& stage : schedules::parse_pipeline_layout(text).stages)
    result["stages"].push_back(schedules::to_string(stage));
}

void counts_prediction(const json& args, json& result) {
  auto text = args.at("layout").get<std::string>();
  std::ranges::replace(text, 'm', 't');
  const Boundaries boundaries =
      schedules::boundaries_of(schedules::parse_pipeline_layout(text), schedules::LayerKind::transformer);
  result["parts"] = parts_of(boundaries, args.at("pp"));
}

void not_counted(const json& args, json& result, const char* end) {
  if (!args.value(end, false)) return;
  schedules::CountedEnds counted{.embedding = args.value("embedding", false), .loss = args.value("loss", false)};
  (end == std::string("loss") ? counted.loss : counted.embedding) = false;
  const int ranks = args.at("pp");
  result["parts"] = parts_of(schedules::partition_counted(args.at("num_layers"), ranks, counted), ranks);
}

// ---- measured layers ----

std::vector<LayerCost> layers_in(const json& args) {
  std::vector<LayerCost> layers;
  for (const json& layer : args.at("layers"))
    layers.push_back({.forward = layer.at("forward"),
                      .backward = layer.at("backward"),
                      .parameters = layer.value("parameters", std::int64_t{0}),
                      .parameter_bytes = layer.value("parameter_bytes", std::int64_t{0}),
                      .activation_bytes = layer.value("activation_bytes", std::int64_t{0}),
                      .output_bytes = layer.value("output_bytes", std::int64_t{0})});
  return layers;
}

StageLimits limits_in(const json& args) {
  StageLimits limits{.kept = schedules::kept_by_1f1b(args.at("pp"), args.at("microbatches"))};
  limits.memory = args.value("memory", limits.memory);
  limits.bandwidth = args.value("bandwidth", limits.bandwidth);
  return limits;
}

// The answer to changed layers or limits, in the place of the right one or of a refusal.
using ChangeQuestion = std::function<void(std::vector<LayerCost>& layers, StageLimits& limits)>;
RewriteAnswer to_another_question(ChangeQuestion change) {
  return [change = std::move(change)](const std::string& op, const json& args, json reply) -> json {
    if (op != kMeasured) return reply;
    std::vector<LayerCost> layers = layers_in(args);
    StageLimits limits = limits_in(args);
    change(layers, limits);
    try {
      const Boundaries boundaries = schedules::partition_measured(layers, limits);
      const auto costs = schedules::stage_costs(layers, boundaries, limits);
      json stages = json::array();
      for (const schedules::StageCost& stage : costs)
        stages.push_back({{"seconds", stage.seconds}, {"message", stage.message}, {"bytes", stage.bytes}});
      return {{"result", {{"boundaries", boundaries}, {"stages", stages}, {"period", schedules::period_of(costs)}}}};
    } catch (const InvalidArgument& error) {
      return {{"error", {{"kind", error.kind()}, {"message", error.what()}}}};
    }
  };
}

void one_timeline_for_all(const json&, json& result) {
  for (json& candidate : result["candidates"])
    for (const char* field : {"makespan", "barrier_bubble"}) candidate[field] = result["candidates"][0][field];
}

void optimal_is_uniform(const json&, json& result) {
  json& candidates = result["candidates"];
  candidates[2] = candidates[0];
  candidates[2]["name"] = "optimal";
}

std::vector<Mutant> name_mutants() {
  const std::string check = "schedules.partition.";
  return {
      {"sch.type_counts_all", "SCHED-100", "type:EXPRESSION balances all layers, whatever their type",
       "the weights are those of a uniform split", check + "deepspeed_methods[method=type:]",
       check + "deepspeed_methods[method=parameters]", "another method",
       results_of(kMethod, "deepspeed", type_counts_all)},
      {"sch.method_case_matters", "SCHED-100", "a method in capital letters is not known",
       "DeepSpeed lowers it before it compares", check + "deepspeed_methods[method=uniform]", "",
       "every case has a name in capital letters", RewriteAnswer(method_case_matters)},
      {"sch.unknown_method_is_uniform", "SCHED-101", "a method that there is not falls back to the uniform one",
       "a last else without a name", check + "unknown_methods[fault=unknown]",
       check + "unknown_methods[fault=no_match]", "the method is one",
       takes(kMethod,
             [](const json& args) { return args.at("method").get<std::string>().find(':') == std::string::npos; },
             {{"boundaries", {0, 1, 2}}})},
      {"sch.colossalai_parameter_is_layer", "SCHED-102", "parameter partitions by the number of layers",
       "ColossalAI builder/pipeline.py has the two side by side",
       check + "colossalai_methods[convention=colossalai,method=weighed]",
       check + "colossalai_methods[convention=colossalai,method=even]", "the method is layer",
       results_of(kMethod, "colossalai", parameter_is_layer)},
      {"sch.layout_group_not_repeated", "SCHED-103", "of a group, the last character alone is repeated",
       "the star is read before the parentheses", check + "layouts[text=repeated]", check + "layouts[text=plain]",
       "nothing is repeated", results_of(kLayout, "megatron", group_not_repeated)},
      {"sch.layout_counts_prediction", "SCHED-103", "multi-token prediction counts as a transformer layer",
       "both are built like one", check + "layouts[text=prediction]", check + "layouts[text=plain]", "there is none",
       results_of(kLayout, "megatron", counts_prediction)},
      {"sch.layout_of_any_model", "SCHED-104", "a layout is not held against the model", "the text could be read",
       check + "refused_layouts[wrong=model]", check + "refused_layouts[wrong=text]", "it cannot be read",
       takes(kLayout, [](const json& args) { return is_layout(args.at("layout").get<std::string>()); })},
      {"sch.counted_without_going_round", "SCHED-105", "a share that does not go round is taken",
       "a division without a look at its remainder", check + "counted_as_megatron[counted=both]", "",
       "every case has layers that do not go round",
       takes(kCounted, [](const json& args) { return args.value("convention", "") == "megatron"; })},
      {"sch.embedding_not_counted", "SCHED-106", "the embedding is not counted",
       "the setting is read for the loss alone", check + "counted_evenly[counted=embedding,parts=4]",
       check + "counted_evenly[counted=loss,parts=4]", "it is not asked for",
       results_of(kCounted, "plumbline",
                  [](const json& args, json& result) { not_counted(args, result, "embedding"); })},
      {"sch.loss_not_counted", "SCHED-106", "the loss is not counted", "the setting is read for the embedding alone",
       check + "counted_evenly[counted=loss,parts=4]", check + "counted_evenly[counted=embedding,parts=4]",
       "it is not asked for",
       results_of(kCounted, "plumbline", [](const json& args, json& result) { not_counted(args, result, "loss"); })},
  };
}

}  // namespace

std::vector<Mutant> partition_mutants() {
  const std::string check = "schedules.partition.";
  std::vector<Mutant> mutants = name_mutants();
  std::vector<Mutant> measured{
      {"sch.balances_forward_alone", "SCHED-107", "the forwards are balanced, the backwards are not",
       "a profile of inference", check + "shortest_period[times=random]", check + "shortest_period[times=proportional]",
       "the backward is twice the forward, so that both are balanced at once",
       RewriteAnswer([](const std::string& op, const json& args, json reply) {
         if (op != kMeasured || !reply.contains("result")) return reply;
         std::vector<LayerCost> layers = layers_in(args);
         for (LayerCost& layer : layers) layer.backward = 0;
         reply["result"]["boundaries"] = schedules::partition_measured(layers, limits_in(args));
         return reply;
       })},
      {"sch.memory_ignored", "SCHED-108", "the memory limit is not looked at", "the search knows times alone",
       check + "memory_is_kept[bytes=parameters,micro_batches=1]", check + "memory_is_kept[bytes=none,micro_batches=1]",
       "no layer needs any",
       to_another_question([](std::vector<LayerCost>&, StageLimits& limits) { limits.memory = StageLimits{}.memory; })},
      {"sch.keeps_one_activation", "SCHED-108", "a stage is said to keep one micro-batch's activations", "PIPE-18",
       check + "memory_is_kept[bytes=activations,micro_batches=8]",
       check + "memory_is_kept[bytes=activations,micro_batches=1]", "there is one micro-batch",
       to_another_question([](std::vector<LayerCost>&, StageLimits& limits) { std::ranges::fill(limits.kept, 1); })},
      {"sch.keeps_one_less", "SCHED-108", "stage s keeps p - s - 1 activations, those of its warm-up",
       "the forward that is in turn with a backward is forgotten",
       check + "memory_is_kept[bytes=activations,micro_batches=8]",
       check + "memory_is_kept[bytes=activations,micro_batches=1]", "there is one micro-batch, which is kept",
       to_another_question([](std::vector<LayerCost>&, StageLimits& limits) {
         for (std::size_t stage = 0; stage < limits.kept.size(); ++stage)
           limits.kept[stage] = std::clamp(static_cast<int>(limits.kept.size() - stage) - 1, 1, limits.kept[stage]);
       })},
      {"sch.messages_ignored", "SCHED-109", "the cut lies where the stages are even, whatever is sent there",
       "the search knows computations alone", check + "messages_count[links=slow]",
       check + "messages_count[links=free]", "messages take no time",
       to_another_question(
           [](std::vector<LayerCost>&, StageLimits& limits) { limits.bandwidth = StageLimits{}.bandwidth; })},
      {"sch.one_timeline_for_all", "SCHED-110", "every candidate has the makespan of the first",
       "the schedule is simulated once", check + "costs_of_candidates[layers=random,micro_batches=4]",
       check + "costs_of_candidates[layers=equal,micro_batches=4]", "all candidates are the same",
       results_of(kCosts, "plumbline", one_timeline_for_all)},
      {"sch.optimal_is_uniform", "SCHED-110", "the optimal partition is the uniform one", "layers are taken for equal",
       check + "costs_of_candidates[layers=random,micro_batches=1]",
       check + "costs_of_candidates[layers=equal,micro_batches=1]", "they are",
       results_of(kCosts, "plumbline", optimal_is_uniform)},
      {"sch.takes_negative_layers", "SCHED-111", "times below 0 are taken", "a clock that was set back",
       check + "bad_layers[fault=negative_time,stages=two]",
       check + "bad_layers[fault=more_stages_than_layers,stages=two]", "no time is below 0",
       takes(kMeasured, [](const json& args) { return args.at("layers").back().at("backward") == -1; })},
  };
  std::ranges::move(measured, std::back_inserter(mutants));
  return mutants;
}

}  // namespace plumbline::mutants
