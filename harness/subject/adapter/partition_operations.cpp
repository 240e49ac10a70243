// schedules.partition_method, pipeline_layout, partition_counted, partition_measured, partition_costs.
#include <cstdint>

#include <fmt/format.h>

#include "harness/subject/adapter/operations.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/partition_costs.hpp"
#include "reference/schedules/partition_methods.hpp"
#include "reference/schedules/pipeline_layout.hpp"

namespace plumbline::subject {

using nlohmann::json;
using schedules::Boundaries;
using schedules::LayerCost;

namespace {

// As for other partitions: of more parts nobody has a use.
constexpr std::int64_t kMostParts = 1 << 20;

int parts_in(const Arguments& arguments, const char* name) {
  const int parts = arguments.get<int>(name);
  if (parts > kMostParts) arguments.refuse(fmt::format("{} {} is more than {} parts", name, parts, kMostParts));
  return parts;
}

int chunks_in(const Arguments& arguments, int stages) {
  const int chunks = arguments.get<int>("chunks", 1);
  if (chunks > kMostParts || std::int64_t{stages} * chunks > kMostParts)
    arguments.refuse(fmt::format("pp {} x chunks {} is more than {} parts", stages, chunks, kMostParts));
  return chunks;
}

json parts_of(const std::vector<std::vector<schedules::Interval>>& ranks) {
  json parts = json::array();
  for (const auto& chunks : ranks) {
    json& intervals = parts.emplace_back(json::array());
    for (const schedules::Interval& interval : chunks) intervals.push_back({interval.begin, interval.end});
  }
  return parts;
}

// ---- by name ----

json partition_method(const Arguments& arguments) {
  enum class Convention { colossalai, deepspeed, deepspeed06 };
  const auto convention = arguments.convention<Convention>({{"colossalai", Convention::colossalai},
                                                            {"deepspeed", Convention::deepspeed},
                                                            {"deepspeed-0.6", Convention::deepspeed06}});
  const auto method = arguments.get<std::string>("method");
  std::vector<schedules::LayerDescription> layers;
  for (const Arguments& layer : arguments.get<std::vector<Arguments>>("layers"))
    layers.push_back({.type = layer.find<std::string>("type"), .parameters = layer.get<std::int64_t>("parameters")});
  if (convention == Convention::colossalai) {
    const int stages = parts_in(arguments, "pp"), chunks = chunks_in(arguments, stages);
    const schedules::ColossalaiPartition partition = schedules::colossalai_by_method(layers, stages, chunks, method);
    return {{"parts", parts_of(partition.ranks)}, {"warned", partition.warned}};
  }
  const int parts = parts_in(arguments, "num_parts");
  return {{"boundaries", convention == Convention::deepspeed
                             ? schedules::deepspeed_by_method(layers, parts, method)
                             : schedules::deepspeed06_by_method(layers, parts, method)}};
}

// ---- Megatron-LM's layouts ----

enum class Megatron { plumbline, megatron };
Megatron whose(const Arguments& arguments) {
  return arguments.convention<Megatron>({{"plumbline", Megatron::plumbline}, {"megatron", Megatron::megatron}});
}

json pipeline_layout(const Arguments& arguments) {
  (void)whose(arguments);
  const schedules::LayoutDemands demands{.ranks = parts_in(arguments, "pp"),
                                         .transformer_layers = arguments.get<int>("num_layers"),
                                         .prediction_layers = arguments.find<int>("mtp_num_layers")};
  const schedules::PipelineLayout layout = schedules::parse_pipeline_layout(arguments.get<std::string>("layout"));
  schedules::require_layout(layout, demands);
  json stages = json::array();
  for (const auto& stage : layout.stages) stages.push_back(schedules::to_string(stage));
  const Boundaries boundaries = schedules::boundaries_of(layout, schedules::LayerKind::transformer);
  return {{"stages", std::move(stages)},
          {"parts", parts_of(schedules::by_rank(boundaries, demands.ranks))},
          {"mtp_standalone", schedules::has_standalone_prediction(layout, demands.ranks)}};
}

json partition_counted(const Arguments& arguments) {
  const Megatron convention = whose(arguments);
  const int layers = arguments.get<int>("num_layers"), ranks = parts_in(arguments, "pp");
  const int chunks = chunks_in(arguments, ranks);
  if (ranks < 1 || chunks < 1) arguments.refuse(fmt::format("{} ranks with {} chunks make no parts", ranks, chunks));
  const schedules::CountedEnds counted{.embedding = arguments.get<bool>("embedding", false),
                                       .loss = arguments.get<bool>("loss", false)};
  const Boundaries boundaries = convention == Megatron::megatron
                                    ? schedules::megatron_counted(layers, ranks, chunks, counted)
                                    : schedules::partition_counted(layers, ranks * chunks, counted);
  return {{"parts", parts_of(schedules::by_rank(boundaries, ranks))}};
}

// ---- measured layers ----

std::vector<LayerCost> read_layers(const Arguments& arguments) {
  (void)arguments.convention<Megatron>({{"plumbline", Megatron::plumbline}});
  std::vector<LayerCost> layers;
  for (const Arguments& layer : arguments.get<std::vector<Arguments>>("layers"))
    layers.push_back({.forward = layer.get<double>("forward"),
                      .backward = layer.get<double>("backward"),
                      .weight_gradient = layer.get<double>("weight_gradient", 0),
                      .parameters = layer.get<std::int64_t>("parameters", 0),
                      .parameter_bytes = layer.get<std::int64_t>("parameter_bytes", 0),
                      .activation_bytes = layer.get<std::int64_t>("activation_bytes", 0),
                      .output_bytes = layer.get<std::int64_t>("output_bytes", 0)});
  return layers;
}

json partition_measured(const Arguments& arguments) {
  const std::vector<LayerCost> layers = read_layers(arguments);
  schedules::StageLimits limits;
  const int stages = parts_in(arguments, "pp"), micro_batches = arguments.get<int>("microbatches");
  limits.kept = schedules::kept_by_1f1b(stages, micro_batches);
  limits.memory = arguments.get<std::int64_t>("memory", limits.memory);
  limits.bandwidth = arguments.get<double>("bandwidth", limits.bandwidth);
  arguments.expect_no_others();
  const Boundaries boundaries = schedules::partition_measured(layers, limits);
  const std::vector<schedules::StageCost> costs = schedules::stage_costs(layers, boundaries, limits);
  json answer = json::array();
  for (const schedules::StageCost& stage : costs)
    answer.push_back({{"seconds", stage.seconds}, {"message", stage.message}, {"bytes", stage.bytes}});
  return {{"boundaries", boundaries}, {"stages", std::move(answer)}, {"period", schedules::period_of(costs)}};
}

json partition_costs(const Arguments& arguments) {
  const std::vector<LayerCost> layers = read_layers(arguments);
  const schedules::ScheduleKind family = schedules::family_of(arguments.get<std::string>("schedule"));
  const schedules::Shape shape{.ranks = arguments.get<int>("pp"),
                               .micro_batches = arguments.get<int>("microbatches"),
                               .stages_per_rank = arguments.get<int>("stages_per_rank", 1)};
  const auto memory = arguments.find<std::int64_t>("memory");
  schedules::SimulationOptions options{.forward_only = family == schedules::ScheduleKind::forward_only};
  options.links.bandwidth = arguments.get<double>("bandwidth", options.links.bandwidth);
  options.links.latency = arguments.get<double>("latency", options.links.latency);
  arguments.expect_no_others();
  json candidates = json::array();
  for (const schedules::PartitionFigures& candidate :
       schedules::compare_partitions(schedules::generate(family, shape), layers, memory, options))
    candidates.push_back({{"name", candidate.name},
                          {"boundaries", candidate.boundaries},
                          {"slowest_stage", candidate.slowest_stage},
                          {"makespan", candidate.makespan},
                          {"barrier_bubble", candidate.barrier_bubble},
                          {"idle_part", candidate.idle_part},
                          {"peak_bytes", candidate.peak_bytes}});
  return {{"candidates", std::move(candidates)}};
}

}  // namespace

void add_partition_operations(AdapterService& service) {
  const ArgumentRow micro_batches{"microbatches", "integer", "micro-batches"};
  const ArgumentRow measured{"layers", "list of object",
                             "each forward and backward in seconds, weight_gradient, parameters, parameter_bytes, "
                             "activation_bytes, output_bytes"};
  const ArgumentRow memory{"memory", "integer", "bytes of a rank; null: no limit", kOptional};
  const ArgumentRow bandwidth{"bandwidth", "number", "bytes a second; null: messages take no time", kOptional};
  const ResultRow parts{"parts", "list of list of list of integer", "the intervals of each rank"};
  service.add({"schedules.partition_method",
               "parts of described layers, by the name of a method",
               {"colossalai", "deepspeed", "deepspeed-0.6"},
               {{"method", "text", "uniform, parameters or type:EXPRESSION; layer or parameter of ColossalAI", kRequired,
                 {"uniform", "parameters", "layer", "parameter"}},
                {"layers", "list of object", "each type (null: a nameless function) and parameters"},
                {"num_parts", "integer", "parts", kOptional, {}, {"deepspeed", "deepspeed-0.6"}},
                {"pp", "integer", "pipeline stages", kOptional, {}, {"colossalai"}},
                {"chunks", "integer", "parts of each stage", "1", {}, {"colossalai"}}},
               {{"boundaries", "list of integer", "the first layer of each part, and the end"},
                parts,
                {"warned", "boolean", "a part is empty"}}},
              partition_method);
  service.add({"schedules.pipeline_layout",
               "a pipeline layout that is written down",
               {"plumbline", "megatron"},
               {{"layout", "text", R"(stages and their layers: "Et*3|(tt|)*2m|L")"},
                {"pp", "integer", "pipeline ranks"},
                {"num_layers", "integer", "transformer layers that the layout has to have"},
                {"mtp_num_layers", "integer", "layers of multi-token prediction; null: none", kOptional}},
               {{"stages", "list of text", "the layers of each stage, from the input on"},
                parts,
                {"mtp_standalone", "boolean", "prediction layers have stages of their own"}}},
              pipeline_layout);
  service.add({"schedules.partition_counted",
               "transformer layers, where embedding and loss count as layers",
               {"plumbline", "megatron"},
               {{"num_layers", "integer", "transformer layers"},
                {"pp", "integer", "pipeline ranks"},
                {"chunks", "integer", "stages of each rank", "1"},
                {"embedding", "boolean", "counted as a layer", "false"},
                {"loss", "boolean", "counted as a layer", "false"}},
               {parts}},
              partition_counted);
  service.add({"schedules.partition_measured",
               "stages of measured layers with the shortest period",
               {"plumbline"},
               {measured, {"pp", "integer", "stages"}, micro_batches, memory, bandwidth},
               {{"boundaries", "list of integer", "the first layer of each stage, and the end"},
                {"stages", "list of object", "of each seconds, message and bytes"},
                {"period", "number", "seconds of the slowest stage or message"}}},
              partition_measured);
  service.add({"schedules.partition_costs",
               "what partitions of measured layers cost under a schedule",
               {"plumbline"},
               {measured,
                {"schedule", "text", "its name", kRequired, own_schedules()},
                {"pp", "integer", "ranks"},
                micro_batches,
                {"stages_per_rank", "integer", "stages of each rank", "1"},
                memory,
                bandwidth,
                {"latency", "number", "seconds of a message", "0.0"}},
               {{"candidates", "list of object",
                 "of each name, boundaries, slowest_stage, makespan, barrier_bubble, idle_part, peak_bytes"}}},
              partition_costs);
}

}  // namespace plumbline::subject
