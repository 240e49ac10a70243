// schedules.partition_method, pipeline_layout, partition_counted, partition_measured, partition_costs.
#include <cstdint>

#include <fmt/format.h>

#include "reference/adapter/operations.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/partition.hpp"

namespace plumbline::adapter {

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
  const Convention convention = arguments.convention();
  const auto method = arguments.get<std::string>("method");
  std::vector<schedules::LayerDescription> layers;
  for (const Arguments& layer : arguments.get<std::vector<Arguments>>("layers"))
    layers.push_back({.type = layer.find<std::string>("type"), .parameters = layer.get<std::int64_t>("parameters")});
  for (const schedules::LayerDescription& layer : layers)
    if (layer.parameters < 0)
      arguments.refuse(fmt::format("layers has {} parameters; a layer has 0 or more", layer.parameters));
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

json pipeline_layout(const Arguments& arguments) {
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
  const int layers = arguments.get<int>("num_layers"), ranks = parts_in(arguments, "pp");
  const int chunks = chunks_in(arguments, ranks);
  if (ranks < 1 || chunks < 1) arguments.refuse(fmt::format("{} ranks with {} chunks make no parts", ranks, chunks));
  const schedules::CountedEnds counted{.embedding = arguments.get<bool>("embedding", false),
                                       .loss = arguments.get<bool>("loss", false)};
  const Boundaries boundaries = arguments.convention() == Convention::megatron
                                    ? schedules::megatron_counted(layers, ranks, chunks, counted)
                                    : schedules::partition_counted(layers, ranks * chunks, counted);
  return {{"parts", parts_of(schedules::by_rank(boundaries, ranks))}};
}

// ---- measured layers ----

std::vector<LayerCost> read_layers(const Arguments& arguments) {
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
  const schedules::ScheduleKind schedule_kind = schedules::schedule_kind_of(arguments.get<std::string>("schedule"));
  const schedules::Shape shape{.ranks = arguments.get<int>("pp"),
                               .micro_batches = arguments.get<int>("microbatches"),
                               .stages_per_rank = arguments.get<int>("stages_per_rank", 1)};
  const auto memory = arguments.find<std::int64_t>("memory");
  schedules::SimulationOptions options{.forward_only = schedule_kind == schedules::ScheduleKind::forward_only};
  options.links.bandwidth = arguments.get<double>("bandwidth", options.links.bandwidth);
  options.links.latency = arguments.get<double>("latency", options.links.latency);
  arguments.expect_no_others();
  json candidates = json::array();
  for (const schedules::PartitionFigures& candidate :
       schedules::compare_partitions(schedules::generate(schedule_kind, shape), layers, memory, options))
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
  const ArgumentRow micro_batches{"microbatches", "integer", "micro-batches of a step"};
  const ArgumentRow measured = with_fields(
      {"layers", "list of object", "the measured layers, from the input on"},
      {{"forward", "number [s]", "time of the forward pass"},
       {"backward", "number [s]", "time of the whole backward pass"},
       {"weight_gradient", "number [s]", "part of backward that computes weight gradients", "0.0"},
       {"parameters", "integer", "trainable parameters", "0"},
       {"parameter_bytes", "integer [bytes]", "parameters and what the optimizer keeps of them", "0"},
       {"activation_bytes", "integer [bytes]", "activations kept for the backward pass of a micro-batch", "0"},
       {"output_bytes", "integer [bytes]", "output sent to the next stage", "0"}});
  const ArgumentRow memory{"memory", "integer [bytes]", "memory of a rank; null: no limit", kOptional};
  const ArgumentRow bandwidth{"bandwidth", "number [bytes/s]", "of a link; null: messages take no time", kOptional};
  const ResultRow parts{"parts", "list of list of list of integer [ranks][chunks][2]",
                        "first layer and end of each interval"};
  const RefusalRow too_many{"invalid_argument", "there are fewer than 1 or more than 2^20 parts"},
      bad_layer{"invalid_argument", "a time or a size is negative, or weight_gradient exceeds backward"},
      no_fit{"invalid_argument", "no partition fits into the memory, or there are fewer layers than stages"};
  service.add(
      {"schedules.partition_method",
       "partitions layers by a named method",
       {"colossalai", "deepspeed", "deepspeed-0.6"},
       {{"method",
         "text",
         "uniform, parameters or type:EXPRESSION; in convention colossalai layer or parameter",
         kRequired,
         {"uniform", "parameters", "layer", "parameter"}},
        with_fields({"layers", "list of object", "the layers, from the input on"},
                    {{"type", "text", "name of its class; null: a nameless function", kOptional},
                     {"parameters", "integer", "trainable parameters"}}),
        {"num_parts", "integer", "parts", kOptional, {}, {"deepspeed", "deepspeed-0.6"}},
        {"pp", "integer", "pipeline stages", kOptional, {}, {"colossalai"}},
        {"chunks", "integer", "parts of each stage", "1", {}, {"colossalai"}}},
       {{"boundaries", "list of integer [num_parts + 1]", "first layer of each part, and the end; of num_parts"},
        parts,
        {"warned", "boolean", "a part is empty; of pp"}},
       R"({"convention": "deepspeed", "method": "parameters", "num_parts": 2, "layers": [
                   {"type": "Embedding", "parameters": 100}, {"type": "Linear", "parameters": 50}, {"type": "Linear", "parameters": 50}]})",
       {{"invalid_argument", "the method does not exist, or the expression is malformed"},
        too_many,
        {"not_found", "no type matches the expression"},
        {"out_of_range", "the parameters exceed 63 bits"}}},
      partition_method);
  service.add({"schedules.pipeline_layout",
               "reads a written pipeline layout of Megatron-core",
               {"plumbline", "megatron"},
               {{"layout", "text", R"(stages separated by | and their layers, as "Et*3|(tt|)*2m|L")"},
                {"pp", "integer", "pipeline ranks"},
                {"num_layers", "integer", "transformer layers that the layout must have"},
                {"mtp_num_layers", "integer", "multi-token prediction layers; null: none", kOptional}},
               {{"stages", "list of text", "layers of each stage, from the input on"},
                parts,
                {"mtp_standalone", "boolean", "prediction layers have stages of their own"}},
               R"({"layout": "Ett|ttL", "pp": 2, "num_layers": 4})",
               {{"invalid_argument",
                 "the layout is malformed, its stages are no multiple of pp, or it has other layers than required"}}},
              pipeline_layout);
  service.add({"schedules.partition_counted",
               "partitions transformer layers where embedding and loss may count as layers",
               {"plumbline", "megatron"},
               {{"num_layers", "integer", "transformer layers"},
                {"pp", "integer", "pipeline ranks"},
                {"chunks", "integer", "stages of each rank", "1"},
                {"embedding", "boolean", "the embedding counts as a layer", "false"},
                {"loss", "boolean", "the loss counts as a layer", "false"}},
               {parts},
               R"({"num_layers": 6, "pp": 2, "embedding": true, "loss": true})",
               {{"invalid_argument",
                 "a stage would have fewer layers than it counts, or in convention megatron the layers do not divide "
                 "evenly"},
                too_many}},
              partition_counted);
  service.add(
      {"schedules.partition_measured",
       "partitions measured layers for the shortest period of 1F1B",
       {"plumbline"},
       {measured, {"pp", "integer", "pipeline stages"}, micro_batches, memory, bandwidth},
       {{"boundaries", "list of integer [pp + 1]", "first layer of each stage, and the end"},
        {"stages",
         "list of object [pp]",
         "each stage's load",
         {{"seconds", "number [s]", "forward and backward of a micro-batch"},
          {"message", "number [s]", "transfer of its output"},
          {"bytes", "integer [bytes]", "memory it needs"}}},
        {"period", "number [s]", "time of the slowest stage or message"}},
       R"({"pp": 2, "microbatches": 4, "layers": [{"forward": 1, "backward": 2}, {"forward": 1, "backward": 2}, {"forward": 2, "backward": 4}]})",
       {bad_layer, no_fit, too_many}},
      partition_measured);
  service.add(
      {"schedules.partition_costs",
       "compares partitions of measured layers under a schedule",
       {"plumbline"},
       {measured,
        {"schedule", "text", "name of the schedule", kRequired, own_schedules()},
        {"pp", "integer", "pipeline ranks"},
        micro_batches,
        {"stages_per_rank", "integer", "stages of each rank", "1"},
        memory,
        bandwidth,
        {"latency", "number [s]", "of a message", "0.0"}},
       {{"candidates",
         "list of object",
         "the partitions uniform, parameters and optimal",
         {{"name", "text", "which one"},
          {"boundaries", "list of integer", "first layer of each stage, and the end"},
          {"slowest_stage", "number [s]", "time of its slowest stage"},
          {"makespan", "number [s]", "time of a step"},
          {"barrier_bubble", "number [s]", "idle time of the busiest rank until the step ends"},
          {"idle_part", "number", "idle share of all ranks' time"},
          {"peak_bytes", "number [bytes]", "most memory that a rank needs"}}}},
       R"({"schedule": "1f1b", "pp": 2, "microbatches": 4, "layers": [{"forward": 1, "backward": 2}, {"forward": 1, "backward": 2}]})",
       {bad_layer,
        no_fit,
        {"invalid_argument", "the schedule does not have the shape"},
        {"not_found", "the schedule does not exist"}}},
      partition_costs);
}

}  // namespace plumbline::adapter
