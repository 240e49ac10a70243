// bucketing.reduce: gradients of training steps, reduced in buckets over ranks.
#include <algorithm>
#include <memory>

#include "reference/adapter/operations.hpp"
#include "reference/bucketing/detail/reduction.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

constexpr int kMostReducingRanks = 16;

json reduce(const Arguments& arguments) {
  const auto world = static_cast<int>(arguments.integer_in("world_size", 1, kMostReducingRanks));
  const Reduction all = reduction_in(arguments, world);
  if (all.compression) {  // read here, too, as far as fields are named
    std::unique_ptr<bucketing::PowerSgd> none;
    (void)hook_of(*all.compression, none);
    for (const char* field : {"channel", "directions", "start", "least_rate", "warm_start", "error_feedback", "shapes"})
      (void)all.compression->has(field);
  }
  arguments.expect_no_others();
  std::vector<std::vector<json>> rows(static_cast<std::size_t>(world));
  comm::run_ranks(world, [&](comm::Communicator& group) {
    ReducingRank rank(all, group);
    auto& mine = rows[static_cast<std::size_t>(group.rank())];
    for (std::size_t step = 0; step < all.steps.size(); ++step) {
      mine.push_back(rank.step(step));
      if (mine.back().contains("error")) return;
    }
    try {
      group.barrier();  // nobody leaves while another one still communicates
    } catch (const comm::PeerFailed&) {
      // but one whose run has ended with an error
    }
  });
  json steps = json::array();
  for (std::size_t step = 0; step < all.steps.size(); ++step) {
    if (std::ranges::any_of(rows, [&](const auto& mine) { return mine.size() <= step; })) break;
    json& row = steps.emplace_back(json::array());
    for (const auto& mine : rows) row.push_back(mine[step]);
  }
  return {{"steps", std::move(steps)}};
}

}  // namespace

void add_reduce_operations(AdapterService& service) {
  service.add(
      {"bucketing.reduce",
       "reduces the gradients of training steps in buckets over ranks",
       {"plumbline"},
       {{"world_size", "integer", "number of ranks, 1 to 16"},
        {"numel", "list of integer [gradients]",
         "elements of each gradient; their sum, with 1 for an empty one, times the numbers of ranks and of steps is at "
         "most 2^19"},
        {"dtype",
         "text",
         "element type of the gradients; null: f32",
         kOptional,
         {"f16", "bf16", "f32", "f64"},
         {},
         {"f16", "bf16", "f32", "f64"}},
        {"buckets", "list of list of integer [buckets][members]",
         "gradients of each bucket, in the order in which buckets are reduced; others are left alone"},
        where_named({"names", "list of text [gradients]", "their names, for messages", kOptional}),
        where_named(
            with_fields({"plans", "list of object [world_size]",
                         "what each rank takes the plan to be, in place of numel and buckets", kOptional},
                        {{"numel", "list of integer [gradients]", "elements of each gradient"},
                         {"buckets", "list of list of integer [buckets][members]", "gradients of each bucket"}})),
        where_named({"sparse", "list of integer", "gradients of which ranks have some rows", kOptional}),
        {"average", "boolean", "sums are divided by the number of ranks", "true"},
        where_named(
            {"divide_before", "integer",
             "of average: factor of the ranks by which each rank divides before the sum, which is divided by the rest; "
             "null: "
             "the collective averages",
             kOptional}),
        where_named(
            {"divisor", "integer", "of average: by what sums are divided in place of the number of ranks", kOptional}),
        where_named({"largest", "number", "gradients that are larger, NaN or Inf are rejected; null: none", kOptional}),
        {"wire",
         "text",
         "element type in which gradients are communicated; null: their own",
         kOptional,
         {"f16", "bf16", "f32"},
         {},
         {"f16", "bf16", "f32"}},
        {"unused",
         "text",
         "gradients that a rank does not produce: they count as zeros (zeros); ranks learn which no rank produces "
         "(find_unused); they are those of the first step (static_graph); null: all are produced",
         kOptional,
         {"zeros", "find_unused", "static_graph"},
         {},
         {"zeros", "find_unused", "static_graph"}},
        {"join",
         "text",
         "ranks may run out of rows; a sum is divided by all ranks (initial_world) or by those with rows; null: none "
         "does",
         kOptional,
         {"initial_world", "present_ranks"},
         {},
         {"initial_world", "present_ranks"}},
        where_named({"overlap", "boolean", "reductions start during the backward pass", "true"}),
        where_named(
            {"wire_buffers", "integer", "of wire: buckets that are communicated at once, at most; 1 to 64", "2"}),
        {"exchange",
         "text",
         "an exchange in place of the reduction, and nothing is divided: sum: an all-reduce; first_rank: a broadcast "
         "of "
         "rank 0's; sum_twice: an all-reduce, and when it is complete one of its result; null: none",
         kOptional,
         {"sum", "first_rank", "sum_twice"},
         {},
         {"sum", "first_rank", "sum_twice"}},
        where_named({"callbacks", "boolean", "a function is called when a bucket is reduced", "false"}),
        where_named({"positions", "list of long integer [gradients]",
                     "where each gradient lies in the rank's memory, in elements; null: each in memory of its own",
                     kOptional}),
        where_named({"lazy", "boolean", "a bucket has memory only while it is needed", "false"}),
        where_named({"after_rejections", "boolean",
                     "a call that is rejected leaves the step as it is, and the other calls are made", "false"}),
        where_named({"collectives", "boolean", "the collectives of each pass are noted", "false"}),
        where_named({"ranks_per_instance", "integer",
                     "of sharded: consecutive ranks that hold all parts together; other instances hold the same "
                     "parts; 0: all ranks are one",
                     "0"}),
        where_named({"sharded", "boolean", "each rank has its equal part of a bucket's results, and no more", "false"}),
        where_named(
            {"rebuild_bytes", "long integer [bytes]",
             "after the first step, buckets are made again in rank 0's order of readiness, each closed when it reaches "
             "this "
             "size; null: they stay",
             kOptional}),
        with_fields(
            {"compression", "object", "buckets are communicated in fewer bytes", kOptional},
            {{"kind",
              "text",
              "bytes: a byte an element; powersgd: products of two narrow matrices",
              kRequired,
              {"bytes", "powersgd"},
              {},
              {"bytes", "powersgd"}},
             {"channel", "long integer", "of bytes: elements that share a scale; 0: the bucket", "0"},
             {"directions", "integer", "of powersgd: columns of the narrow matrices", "1"},
             {"start", "long integer", "of powersgd: reductions before the first compressed one", "0"},
             {"least_rate", "number", "of powersgd: gradients that shrink by no more are not compressed", "0.0"},
             {"warm_start", "boolean", "of powersgd: a step begins with the directions of the one before", "true"},
             {"error_feedback", "boolean", "of powersgd: what a step lacks is added to the next", "true"},
             {"shapes", "list of list of long integer [gradients][2]", "of powersgd: rows and columns", kOptional}}),
        where_named({"initial", "list of list of number [world_size][elements]",
                     "values of each rank, of which rank 0's are everyone's from the first pass on", kOptional}),
        with_fields(
            {"steps", "list of list of object [steps][world_size]", "what each rank has in each step"},
            {with_fields(
                 {"passes", "list of list of object [passes][gradients]",
                  "backward passes, of which the last reduces, each as the gradients in the order in which they "
                  "are ready; null: the rank has run out of rows",
                  kOptional},
                 {{"gradient", "integer", "its index"},
                  {"values", "list of number", "what the pass adds to it; of rows, one after the other", kOptional},
                  where_named({"rows", "list of long integer", "of a sparse gradient: which rows", kOptional}),
                  where_named({"dtype", "text", "element type in which it is handed in; null: dtype", kOptional}),
                  where_named({"unused", "boolean", "it is marked as unused, and has no values", "false"})}),
             where_named(
                 {"buffers", "list of list of number [passes][elements]",
                  "buffers of the model before each pass, to be rank 0's in the last; all of one length, or none",
                  kOptional})})},
       {{"steps",
         "list of list of object [steps][world_size]",
         "what each rank has after each step",
         {{"grads", "list of any [gradients]",
           "the reduced gradients: a list of numbers, or null where no rank has it; of a sparse one rows and values"},
          {"launches",
           "list of list of object [passes][reductions]",
           "reductions of buckets, in the order in which they were started",
           {{"gradients", "list of integer", "the bucket's, in any order"},
            {"elements", "long integer", "the bucket's, with any padding"},
            {"ready_before", "integer", "gradients of the pass that were ready when it was started"}}},
          {"copied", "list of long integer [passes]", "bytes copied into buckets and out of them"},
          {"exchanges",
           "list of object",
           "of exchange: the buckets whose exchange was started, in order",
           {{"gradients", "list of integer", "the bucket's, in the order of its memory"},
            {"values", "list of list of number", "of each of them, when the exchange began"}}},
          {"finished", "list of list of integer", "of exchange: gradients of the buckets whose exchange was finished"},
          {"callbacks",
           "list of object",
           "of callbacks: the buckets that were reported, in order",
           {{"gradients", "list of integer", "the bucket's"},
            {"values", "list of any", "what the memory of each of them held at that time, as in grads"}}},
          {"memory", "list of list of long integer [passes][calls + 1]",
           "of lazy: bytes of all buckets after each entry of the pass, and after the pass"},
          {"rejected", "list of list of any [passes][calls]",
           "of after_rejections: kind and message of the error of each entry of the pass; null: it was accepted"},
          {"collectives",
           "list of list of object [passes][calls]",
           "of collectives: those that this rank began, in order",
           {{"operation", "text", "such as all_reduce, reduce_scatter, all_gather or broadcast"},
            {"ranks", "integer", "size of its group"},
            {"bytes", "long integer", "that the rank gives"},
            {"completed", "integer", "of those before it in the pass, how many were complete when it began"}}},
          {"shards", "list of list of number [buckets]", "of sharded: this rank's part of each bucket"},
          {"buffers", "list of list of number [passes][elements]", "buffers of the model in each pass"},
          {"initial", "list of number", "the values of initial"},
          {"error", "object", "kind and message of the error that ends the run of this rank"}}}},
       R"({"world_size": 2, "numel": [2], "buckets": [[0]],
           "steps": [[{"passes": [[{"gradient": 0, "values": [1, 2]}]]}, {"passes": [[{"gradient": 0, "values": [3, 6]}]]}]]})",
       {{"invalid_argument",
         "options exclude each other or are out of range, a gradient is in two buckets or does not exist, a list has "
         "another length, or gradients have too many elements"},
        {"unsupported", "a combination of options that the system does not have"}}},
      reduce);
}

}  // namespace plumbline::adapter
