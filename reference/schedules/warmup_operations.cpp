// schedules.table and schedules.warmup: Megatron-core's order of forwards, and where 1F1B begins in it.
#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/schedules/detail/warmup.hpp"

namespace plumbline::adapter {

using nlohmann::json;
using schedules::Shape;

namespace {

constexpr int kMostRows = 1 << 19;  // of an answer, which is a line of at most 64 MiB

json forward_table(const Arguments& arguments) {
  const Shape shape{.ranks = 1,
                    .micro_batches = static_cast<int>(arguments.integer_in("microbatches", 1, kMostRows)),
                    .stages_per_rank = static_cast<int>(arguments.integer_in("stages_per_rank", 1, kMostRows))};
  if (std::int64_t{shape.micro_batches} * shape.stages_per_rank > kMostRows)
    arguments.refuse(fmt::format("microbatches x stages_per_rank is {} x {}; it must be at most {}",
                                 shape.micro_batches, shape.stages_per_rank, kMostRows));
  json rows = json::array();
  for (const auto& [chunk, micro_batch] : schedules::schedule_table(shape, arguments.get<int>("microbatch_group_size")))
    rows.push_back({micro_batch, chunk});
  return {{"table", std::move(rows)}};
}

json warmup_of_ranks(const Arguments& arguments) {
  const Shape shape{.ranks = static_cast<int>(arguments.integer_in("pp", 1, kMostRows)),
                    .micro_batches = arguments.get<int>("microbatches"),
                    .stages_per_rank = arguments.get<int>("stages_per_rank", 1)};
  const schedules::WarmupOptions options{
      .group = arguments.get<int>("microbatch_group_size", shape.ranks),
      .forward_only = arguments.get<bool>("forward_only", false),
      .overlaps_expert_exchange = arguments.get<bool>("overlap_moe_expert_parallel_comm", false)};
  json ranks = json::array();
  for (const int count : schedules::warmup_counts(shape, options)) {
    const int total = shape.micro_batches * shape.stages_per_rank;
    ranks.push_back({{"rank", ranks.size()},
                     {"total", total},
                     {"warmup", count},
                     {"remaining", total - count},
                     {"all_in_warmup", count == total}});
  }
  return {{"ranks", std::move(ranks)}};
}

}  // namespace

void add_warmup_operations(AdapterService& service) {
  const Words both{"plumbline", "megatron"};
  const ArgumentRow micro_batches{"microbatches", "integer", "micro-batches of a step"};
  service.add({"schedules.table",
               "lists the forwards of a rank in order: groups of micro-batches, each through all chunks",
               both,
               {micro_batches,
                {"stages_per_rank", "integer", "chunks: stages of each rank"},
                {"microbatch_group_size", "integer", "micro-batches of a group, the last of which may be smaller"}},
               {{"table", "list of list of integer [microbatches x stages_per_rank][2]",
                 "micro-batch and chunk of each forward"}},
               R"({"microbatches": 3, "stages_per_rank": 2, "microbatch_group_size": 2})",
               {{"invalid_argument", "a size is below 1, or microbatches x stages_per_rank above 2^19"}}},
              forward_table);
  service.add(
      {"schedules.warmup",
       "counts the forwards of each rank before its first pair of a forward and a backward",
       both,
       {{"pp", "integer", "pipeline ranks, 1 to 2^19"},
        micro_batches,
        {"stages_per_rank", "integer", "stages of each rank", "1"},
        {"microbatch_group_size", "integer", "micro-batches of a group, of several stages a rank; null: pp", kOptional},
        {"forward_only", "boolean", "without backward passes", "false"},
        {"overlap_moe_expert_parallel_comm", "boolean",
         "of several stages a rank: a forward overlaps the exchange of tokens of another micro-batch's "
         "backward, for which one more comes first",
         "false"}},
       {{"ranks",
         "list of object [pp]",
         "the counts of each rank",
         {{"rank", "integer", "the rank"},
          {"total", "integer", "forwards of the rank: microbatches x stages_per_rank"},
          {"warmup", "integer", "forwards before the first pair"},
          {"remaining", "integer", "the others"},
          {"all_in_warmup", "boolean", "none remains"}}}},
       R"({"pp": 2, "microbatches": 4, "stages_per_rank": 2})",
       {{"invalid_argument", "a size is below 1, pp above 2^19, or there are too many computations"}}},
      warmup_of_ranks);
}

}  // namespace plumbline::adapter
