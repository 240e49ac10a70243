// schedules.partition_uniform, partition_balanced, partition_optimal, count_layer_params.
#include <cstdint>

#include <fmt/format.h>

#include "reference/adapter/operations.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/layer_parameters.hpp"
#include "reference/schedules/partition.hpp"

namespace plumbline::adapter {

using nlohmann::json;
using schedules::Boundaries;

namespace {

// Answers of more than a million parts are of no use to anybody, and of more memory than there is.
constexpr int kMostParts = 1 << 20;

int parts_in(const Arguments& arguments, const char* name) {
  const int parts = arguments.get<int>(name);
  if (parts > kMostParts) arguments.refuse(fmt::format("{} {} is more than {} parts", name, parts, kMostParts));
  return parts;
}

struct Places {
  int stages = 1, chunks = 1;
};
Places places_in(const Arguments& arguments) {
  const Places places{.stages = parts_in(arguments, "pp"), .chunks = arguments.get<int>("chunks", 1)};
  if (places.chunks > kMostParts || std::int64_t{places.stages} * places.chunks > kMostParts)
    arguments.refuse(fmt::format("pp {} x chunks {} is more than {} parts", places.stages, places.chunks, kMostParts));
  return places;
}

json result_of(const Boundaries& boundaries) { return {{"boundaries", boundaries}}; }

json result_of(const std::vector<std::vector<schedules::Interval>>& ranks, bool warned) {
  json parts = json::array();
  for (const auto& chunks : ranks) {
    json intervals = json::array();
    for (const schedules::Interval& interval : chunks) intervals.push_back({interval.begin, interval.end});
    parts.push_back(std::move(intervals));
  }
  return {{"parts", std::move(parts)}, {"warned", warned}};
}

// Our own rule in either layout: boundaries of num_parts, or the parts of pp stages with chunks.
template <class Partition>
json ours(const Arguments& arguments, const Partition& partition) {
  if (arguments.has("num_parts")) return result_of(partition(parts_in(arguments, "num_parts")));
  const auto [stages, chunks] = places_in(arguments);
  if (stages < 1 || chunks < 1) arguments.refuse(fmt::format("{} stages with {} chunks make no parts", stages, chunks));
  const Boundaries boundaries = partition(stages * chunks);
  bool empty = false;
  for (std::size_t part = 1; part < boundaries.size(); ++part)
    empty = empty || boundaries[part - 1] == boundaries[part];
  return result_of(schedules::by_rank(boundaries, stages), empty);
}

json result_of(const schedules::ColossalaiPartition& partition) { return result_of(partition.ranks, partition.warned); }

json partition_uniform(const Arguments& arguments) {
  const int items = arguments.get<int>("num_items");
  switch (arguments.convention()) {
    case Convention::colossalai: {
      const auto [stages, chunks] = places_in(arguments);
      return result_of(schedules::colossalai_uniform(items, stages, chunks));
    }
    case Convention::deepspeed:
      return result_of(schedules::deepspeed_uniform(items, parts_in(arguments, "num_parts")));
    case Convention::deepspeed_0_6:
      return result_of(schedules::deepspeed06_uniform(items, parts_in(arguments, "num_parts")));
    default:
      break;
  }
  const schedules::FixedEnds ends{.first = arguments.find<int>("first"), .last = arguments.find<int>("last")};
  return ours(arguments, [&](int parts) { return schedules::partition_uniform(items, parts, ends); });
}

Boundaries optimal(const Arguments& arguments, int parts) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 33;
  const auto weights = arguments.get<std::vector<double>>("weights");
  const auto items = static_cast<std::int64_t>(weights.size());
  if (parts > 0 && items > kMostSteps / parts)
    arguments.refuse(fmt::format("{} items x {} parts are more than {} steps", items, parts, kMostSteps));
  return schedules::partition_optimal(weights, parts);
}

json partition_balanced(const Arguments& arguments) {
  const auto weights = [&] { return arguments.get<std::vector<double>>("weights"); };
  switch (arguments.convention()) {
    case Convention::colossalai: {
      const auto [stages, chunks] = places_in(arguments);
      return result_of(
          schedules::colossalai_balanced(arguments.get<std::vector<std::int64_t>>("weights"), stages, chunks));
    }
    case Convention::deepspeed:
      return result_of(schedules::deepspeed_balanced(weights(), parts_in(arguments, "num_parts")));
    case Convention::deepspeed_0_6:
      return result_of(schedules::deepspeed06_balanced(weights(), parts_in(arguments, "num_parts")));
    default:
      break;
  }
  return ours(arguments, [&](int parts) { return optimal(arguments, parts); });
}

json partition_optimal(const Arguments& arguments) {
  return result_of(optimal(arguments, parts_in(arguments, "parts")));
}

schedules::Layer::Value read_value(const Arguments& arguments, const std::string& name, const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return arguments.get<std::int64_t>(name);
  if (value.is_array()) return arguments.get<std::vector<std::int64_t>>(name);
  if (value.is_number()) return arguments.get<double>(name);
  return arguments.get<std::string>(name);
}

json count_layer_params(const Arguments& arguments) {
  std::vector<schedules::Layer> layers;
  for (const json& given : arguments.get<std::vector<json>>("layers")) {
    const Arguments fields("schedules.count_layer_params", given);
    schedules::Layer layer{.type = fields.get<std::string>("type"), .arguments = {}};
    for (const auto& [name, value] : given.items())
      if (name != "type" && !value.is_null()) layer.arguments[name] = read_value(fields, name, value);
    layers.push_back(std::move(layer));
  }
  return {{"counts", schedules::trainable_parameters(layers)}};
}

}  // namespace

void add_schedule_operations(AdapterService& service) {
  const Words all{"plumbline", "colossalai", "deepspeed", "deepspeed-0.6"};
  const Words by_parts{"plumbline", "deepspeed", "deepspeed-0.6"}, by_rank{"plumbline", "colossalai"};
  const std::vector<ArgumentRow> parts{
      {"num_parts", "integer", "parts", kOptional, {}, by_parts},
      {"pp", "integer", "pipeline stages, in place of num_parts", kOptional, {}, by_rank},
      {"chunks", "integer", "parts of each stage, with pp", "1", {}, by_rank}};
  const std::vector<ResultRow> results{
      {"boundaries", "list of integer [num_parts + 1]", "first item of each part, and the end; of num_parts"},
      {"parts", "list of list of list of integer [pp][chunks][2]", "first item and end of each interval; of pp"},
      {"warned", "boolean", "a part is empty; of pp"}};
  const std::vector<FormRow> forms{{"num_parts", "num_parts"}, {"pp", "pp"}};
  const RefusalRow too_many{"invalid_argument", "there are fewer than 1 or more than 2^20 parts"},
      bad_weight{"invalid_argument", "a weight is negative or NaN, or items x parts exceed 2^33"},
      large_sum{"out_of_range", "the weights sum to more than 63 bits (convention colossalai)"};
  const auto with_parts = [&](std::vector<ArgumentRow> arguments) {
    arguments.insert(arguments.end(), parts.begin(), parts.end());
    return arguments;
  };
  service.add(
      {"schedules.partition_uniform",
       "partitions items into parts of nearly equal size",
       all,
       with_parts({{"num_items", "integer", "items"},
                   {"first", "integer", "size of the first part; null: as the others", kOptional, {}, {"plumbline"}},
                   {"last", "integer", "size of the last part; null: as the others", kOptional, {}, {"plumbline"}}}),
       results,
       R"({"num_items": 10, "num_parts": 4})",
       {too_many, {"invalid_argument", "num_items is negative, or first and last do not fit"}},
       forms},
      partition_uniform);
  service.add({"schedules.partition_balanced",
               "partitions weighted items as evenly as the convention does",
               all,
               with_parts({{"weights", "list of number", "weight of each item"}}),
               results,
               R"({"weights": [1, 2, 3, 4], "pp": 2})",
               {too_many, bad_weight, large_sum},
               forms},
              partition_balanced);
  service.add({"schedules.partition_optimal",
               "partitions weighted items so that the heaviest part is as light as possible",
               {"plumbline"},
               {{"weights", "list of number", "weight of each item"}, {"parts", "integer", "parts"}},
               {{"boundaries", "list of integer [parts + 1]", "first item of each part, and the end"}},
               R"({"weights": [1, 2, 3, 4], "parts": 2})",
               {too_many, bad_weight}},
              partition_optimal);
  service.add(
      {"schedules.count_layer_params",
       "counts the trainable parameters of layers",
       {"plumbline", "colossalai"},
       {with_fields({"layers", "list of object", "the layers"},
                    {{"type", "text", "name of its class in torch.nn, as Linear"},
                     {"*", "any", "argument of that name of its constructor", kOptional}})},
       {{"counts", "list of integer [layers]", "trainable parameters of each"}},
       R"({"layers": [{"type": "Linear", "in_features": 4, "out_features": 2}, {"type": "LayerNorm", "normalized_shape": [2]}]})",
       {{"invalid_argument", "the constructor has no such argument, lacks one, or rejects its value"},
        {"not_found", "the type is unknown"},
        {"out_of_range", "the count exceeds 63 bits"}}},
      count_layer_params);
}

}  // namespace plumbline::adapter
