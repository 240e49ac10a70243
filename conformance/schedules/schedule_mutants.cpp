// Adapters whose answers about partitions are wrong, each by a rule of its own.
#include <algorithm>
#include <cmath>

#include "conformance/schedules/schedules_mutants.hpp"
#include "harness/mutants/rewriting.hpp"
#include "reference/schedules/partition.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

using schedules::Boundaries;

const char* const kUniform = "schedules.partition_uniform";
const char* const kBalanced = "schedules.partition_balanced";
const char* const kOptimal = "schedules.partition_optimal";

int items_of(const json& args) { return args.at("num_items"); }
int own_size(int items, int parts, int part) { return items / parts + (part < items % parts ? 1 : 0); }

// ---- uniform ----

// Each rank multiplies its own size by its number.
void start_from_own_size(const json& args, json& result) {
  if (!args.contains("pp") || args.contains("chunks")) return;
  const int items = items_of(args), parts = args.at("pp");
  for (int part = 0; part < parts; ++part) {
    const int size = own_size(items, parts, part);
    result["parts"][static_cast<std::size_t>(part)][0] = {part * size, part * size + size};
  }
}

// Nobody looks at the remainder.
void truncate(const json& args, json& result) {
  if (!args.contains("pp") || args.contains("chunks")) return;
  const int size = items_of(args) / args.at("pp").get<int>();
  for (std::size_t part = 0; part < result["parts"].size(); ++part)
    result["parts"][part][0] = {static_cast<int>(part) * size, static_cast<int>(part) * size + size};
}

void uniform_tail(const json& args, json& result) {
  if (!args.contains("num_parts") || args.contains("first") || args.contains("last")) return;
  const int items = items_of(args), parts = args.at("num_parts");
  for (int part = 0; part < parts; ++part) result["boundaries"][static_cast<std::size_t>(part)] = items / parts * part;
}

// The rest goes to the last parts, where there are more parts than one digit counts.
void uneven_from_nine_parts(const json& args, json& result) {
  if (!args.contains("num_parts") || args.at("num_parts") < 9 || args.contains("first") || args.contains("last"))
    return;
  const int items = items_of(args), parts = args.at("num_parts");
  for (int part = 0; part < parts; ++part) result["boundaries"][static_cast<std::size_t>(part)] = items / parts * part;
}

// Parts without items as whoever fills a list of zeros leaves them.
void empty_parts_at_zero(const json&, json& result) {
  if (!result.contains("parts")) return;
  for (json& chunks : result["parts"])
    for (json& part : chunks)
      if (part.at(0) == part.at(1)) part = {0, 0};
}

// One setting of an end is read for both.
void first_for_last(const json& args, json& result) {
  if (args.contains("first") == args.contains("last")) return;
  const int size = args.value("first", args.value("last", 0));
  result["boundaries"] =
      schedules::partition_uniform(items_of(args), args.at("num_parts"), {.first = size, .last = size});
}

void chunks_side_by_side(const json& args, json& result) {
  if (!args.contains("chunks")) return;
  const int stages = args.at("pp"), chunks = args.at("chunks");
  const Boundaries all = schedules::partition_uniform(items_of(args), stages * chunks);
  for (int rank = 0; rank < stages; ++rank)
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const auto part = static_cast<std::size_t>(rank * chunks + chunk);
      result["parts"][static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)] = {all[part], all[part + 1]};
    }
}

// ---- balanced ----

void balances_the_difference(const json& args, json& result) {
  const auto weights = args.at("weights").get<std::vector<double>>();
  result["boundaries"] = schedules::deepspeed_balanced(weights, args.at("parts"));
}

void rounds_weights(const json& args, json& result) {
  auto weights = args.at("weights").get<std::vector<double>>();
  for (double& weight : weights) weight = std::round(weight);
  result["boundaries"] = schedules::partition_optimal(weights, args.at("parts"));
}

// Fills each part up to the least bottleneck; the last ones get what is left, be it nothing.
void balanced_greedy(const json& args, json& result) {
  const auto weights = args.at("weights").get<std::vector<double>>();
  const double bottleneck = schedules::heaviest_part(weights, result.at("boundaries").get<Boundaries>());
  Boundaries filled{0};
  double sum = 0;
  for (std::size_t item = 0; item < weights.size(); ++item) {
    if (sum + weights[item] > bottleneck) {
      filled.push_back(static_cast<int>(item));
      sum = 0;
    }
    sum += weights[item];
  }
  filled.resize(args.at("parts").get<std::size_t>() + 1, static_cast<int>(weights.size()));
  result["boundaries"] = filled;
}

// ---- conventions ----

void remainder_first(const json& args, json& result) {
  const int items = items_of(args), stages = args.at("pp"), chunks = args.at("chunks");
  for (int chunk = 0, next = 0; chunk < chunks; ++chunk)
    for (int rank = 0; rank < stages; ++rank) {
      const int end = next + own_size(items / chunks, stages, rank);
      result["parts"][static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)] = {next, end};
      next = end;
    }
}

// An item each to the first parts, however few they are.
json balances_few_items(const std::string& op, const json& args, json reply) {
  if (op != kBalanced || args.value("convention", "") != "colossalai") return reply;
  const auto items = static_cast<int>(args.at("weights").size());
  const int stages = args.at("pp"), parts = stages * args.at("chunks").get<int>();
  if (items > parts) return reply;
  json ranks(static_cast<std::size_t>(stages), json::array());
  for (int part = 0; part < parts; ++part)
    ranks[static_cast<std::size_t>(part % stages)].push_back({std::min(part, items), std::min(part + 1, items)});
  return {{"result", {{"parts", ranks}, {"warned", items < parts}}}};
}

void bias_not_counted(const json& args, json& result) {
  for (std::size_t i = 0; i < args.at("layers").size(); ++i)
    if (const json& layer = args["layers"][i]; layer.at("type") == "Linear" && layer.value("bias", true))
      result["counts"][i] = result["counts"][i].get<int>() - layer.at("out_features").get<int>();
}

}  // namespace

std::vector<Mutant> schedule_mutants() {
  const std::string check = "schedules.partition.";
  return {
      {"top.start_from_own_size", "SCHED-001", "a part begins at its number times its own size", "TOP-03",
       check + "every_item_once[items=38,parts=4]", check + "every_item_once[items=8,parts=4]", "all sizes are equal",
       results_of(kUniform, "plumbline", start_from_own_size)},
      {"top.truncate", "SCHED-001", "the remainder of the division belongs to nobody", "TOP-04",
       check + "every_item_once[items=30,parts=4]", check + "every_item_once[items=8,parts=4]", "there is none",
       results_of(kUniform, "plumbline", truncate)},
      {"sch.empty_parts_at_zero", "SCHED-001", "parts without items begin and end at 0", "a list of zeros",
       check + "every_item_once[items=3,parts=8]", check + "every_item_once[items=8,parts=4]", "no part is empty",
       results_of(kUniform, "plumbline", empty_parts_at_zero)},
      {"top.uniform_tail", "SCHED-002", "all of the remainder goes to the last part", "TOP-02",
       check + "even_sizes[items=38,parts=8]", check + "even_sizes[items=8,parts=8]", "there is none",
       results_of(kUniform, "plumbline", uniform_tail)},
      {"sch.uneven_from_nine_parts", "SCHED-002", "of nine parts or more, the last gets all of the remainder",
       "TOP-02, where nobody looked", check + "even_sizes[items=1000,parts=48]",
       check + "even_sizes[items=1000,parts=8]", "there are eight",
       results_of(kUniform, "plumbline", uneven_from_nine_parts)},
      {"top.first_for_last", "SCHED-003", "the size given for one end is taken for the other, too", "TOP-05",
       check + "ends_act_alone[given=first]", check + "ends_act_alone[given=both]", "each has its own setting",
       results_of(kUniform, "plumbline", first_for_last)},
      {"sch.drops_the_rest", "SCHED-004", "items that no part takes are dropped without a word", "TOP-04",
       check + "ends_that_do_not_fit[fault=rest_without_owner]", check + "ends_that_do_not_fit[fault=ends_too_large]",
       "there are too few items, and none is left",
       takes(kUniform,
             [](const json& args) {
               return args.value("num_items", 0) > args.value("first", 0) + args.value("last", 0);
             })},
      {"sch.chunks_side_by_side", "SCHED-005", "a rank's chunks are neighbours in the model",
       "TOP-06: chunks and stages taken for each other", check + "chunks_in_turn[stages=3,chunks=2]",
       check + "chunks_in_turn[stages=3,chunks=1]", "a rank has one chunk",
       results_of(kUniform, "plumbline", chunks_side_by_side)},
      {"sch.balances_the_difference", "SCHED-006", "heaviest minus lightest is minimised, and not the heaviest",
       "DeepSpeed 0.19 partition_balanced", check + "least_heaviest[weights=random]",
       check + "least_heaviest[weights=divisible]", "all parts can weigh the same",
       results_of(kOptimal, "plumbline", balances_the_difference)},
      {"sch.rounds_weights", "SCHED-006", "weights are rounded to whole numbers", "a parser of integers",
       check + "least_heaviest_of_fractions[unit=eighth]", check + "least_heaviest[weights=random]",
       "they are whole numbers", results_of(kOptimal, "plumbline", rounds_weights)},
      {"top.balanced_greedy", "SCHED-007", "parts are filled from the left, and the last may stay empty", "TOP-01",
       check + "none_empty[weights=equal]", check + "none_empty[weights=divisible]", "all parts are filled to the same",
       results_of(kOptimal, "plumbline", balanced_greedy)},
      {"sch.colossalai_remainder_first", "SCHED-008", "ColossalAI's remainder goes to the first parts",
       "DeepSpeed's rule taken for everybody's", check + "colossalai[kind=uniform]",
       check + "colossalai[kind=balanced]", "another operation", results_of(kUniform, "colossalai", remainder_first)},
      {"sch.colossalai_no_warning", "SCHED-008", "stages without layers are not warned of", "REF-04",
       check + "colossalai[kind=uniform]", check + "colossalai[kind=balanced]", "another operation",
       results_of(kUniform, "colossalai", [](const json&, json& result) { result["warned"] = false; })},
      {"sch.balances_few_items", "SCHED-009", "fewer items than parts are dealt to the first parts, chunks or not",
       "REF-04", check + "falls_back_to_uniform[items=7]", check + "falls_back_to_uniform[items=8]",
       "each part has one in any case", RewriteAnswer(balances_few_items)},
      {"sch.deepspeed_is_optimal", "SCHED-010", "DeepSpeed's balanced partition is taken for the optimal one",
       "the name of its source's algorithm says so", check + "deepspeed[kind=balanced]",
       check + "deepspeed[kind=uniform]", "another operation",
       results_of(kBalanced, "deepspeed",
                  [](const json& args, json& result) {
                    const auto weights = args.at("weights").get<std::vector<double>>();
                    if (const int parts = args.at("num_parts"); parts > 0)
                      result["boundaries"] = schedules::partition_optimal(weights, parts);
                  })},
      {"sch.deepspeed_06_as_today", "SCHED-011", "the remainder is dealt as today's DeepSpeed does", "TOP-02",
       check + "deepspeed_06[kind=uniform]", check + "deepspeed_06[kind=balanced]", "another operation",
       results_of(kUniform, "deepspeed-0.6",
                  [](const json& args, json& result) {
                    result["boundaries"] = schedules::deepspeed_uniform(items_of(args), args.at("num_parts"));
                  })},
      {"sch.bias_not_counted", "SCHED-012", "the bias of a linear layer is not counted", "weights alone are in mind",
       check + "layer_counts[recorded=0]", check + "layer_counts[recorded=1]", "no linear layer is there",
       results_of("schedules.count_layer_params", "plumbline", bias_not_counted)},
      {"sch.one_direction_counted", "SCHED-012", "a layer of two directions is counted as one of one",
       "the default is in mind", check + "layers_by_hand[family=recurrent]", check + "layers_by_hand[family=norm]",
       "no layer has directions",
       results_of("schedules.count_layer_params", "plumbline",
                  [](const json& args, json& result) {
                    for (std::size_t i = 0; i < args.at("layers").size(); ++i)
                      if (args.at("layers")[i].value("bidirectional", false))
                        result["counts"][i] = result["counts"][i].get<std::int64_t>() / 2;
                  })},
      {"sch.takes_bad_numbers", "SCHED-013", "weights that are no numbers are taken", "a comparison with NaN is false",
       check + "bad_arguments[fault=weight_not_a_number]", check + "bad_arguments[fault=no_parts]",
       "the weights are not looked at",
       takes(kOptimal, [](const json& args) { return args.at("weights").back() == "nan"; })},
  };
}

}  // namespace plumbline::mutants
