// Adapters whose answers are wrong.
#include <algorithm>

#include "conformance/collectives/collectives_mutants.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

bool is_result_of(const char* asked, const std::string& op, const json& reply) {
  return op == asked && reply.contains("result");
}

// The sum of float32 numbers in wide arithmetic, rounded once.
json ring_sum_rounds_once(const std::string& op, const json& args, json reply) {
  if (!is_result_of("comm.ring_sum", op, reply) || args.at("dtype") != "float32") return reply;
  json& output = reply["result"]["output"];
  for (std::size_t i = 0; i < output.size(); ++i) {
    double sum = 0;
    for (std::size_t rank = 0; rank < args.at("inputs").size(); ++rank) {
      const json group = args.value("group", json());
      const json& value = args["inputs"][rank][i];
      if (!value.is_number()) return reply;  // a word: not finite
      if (group.is_null() || std::ranges::count(group, json(rank)) > 0) sum += value.get<double>();
    }
    output[i] = static_cast<double>(static_cast<float>(sum));
  }
  return reply;
}

/// A rewriting of comm.calls: calls for which `concerns` says so, of one that was refused, are said to be made.
RewriteAnswer with_calls_made(std::function<bool(const json& call)> concerns) {
  return [concerns = std::move(concerns)](const std::string& op, const json& args, json reply) {
    if (!is_result_of("comm.calls", op, reply)) return reply;
    for (std::size_t i = 0; i < args.at("calls").size(); ++i)
      if (concerns(args["calls"][i]))
        for (json& error : reply["result"]["calls"][i]["errors"]) error = nullptr;
    return reply;
  };
}

bool averages_in_one_place(const json& call) {
  return call.at("operation") == "all_reduce" && call.value("op", "sum") == "avg";
}

bool overlaps(const json& call) {
  if (!call.contains("in") || !call.contains("out") || !call["in"].contains("first") || !call["out"].contains("first"))
    return false;
  const int in = call["in"]["first"], out = call["out"]["first"];
  return in < out && out < in + call["in"]["count"].get<int>();
}

// The members of such a list are other ranks alone.
bool asks_for_a_group_of_others(const json& call) {
  if (call.at("operation") != "create_group") return false;
  for (std::size_t rank = 0; rank < call.at("ranks").size(); ++rank)
    if (call["ranks"][rank].empty() || std::ranges::count(call["ranks"][rank], json(rank)) > 0) return false;
  return true;
}

}  // namespace

std::vector<Mutant> answer_mutants() {
  return {
      {"ans.ring_sum_rounds_once", "COLL-060", "comm.ring_sum of float32 is added in float64 and rounded once",
       "the order of additions is taken for a detail", "collectives.adapter.ring_sum[ranks=3]",
       "collectives.adapter.ring_sum[ranks=2]", "a sum of two numbers is rounded once in any case",
       RewriteAnswer(ring_sum_rounds_once)},
      {"ans.integer_average_taken", "COLL-012", "an all_reduce that averages integers is said to be made",
       "RED-07: division of integers, whatever comes of it",
       "collectives.adapter.integer_average[operation=all_reduce,integers=int32,ranks=3]",
       "collectives.adapter.integer_average[operation=reduce,integers=int32,ranks=3]", "another operation",
       with_calls_made(averages_in_one_place)},
      {"ans.overlap_taken", "COLL-028", "buffers that overlap are taken", "a test for equal addresses alone",
       "collectives.adapter.bad_arguments[fault=overlap,ranks=3]",
       "collectives.adapter.bad_arguments[fault=null_input,ranks=3]", "the input is nowhere",
       with_calls_made(overlaps)},
      {"ans.group_of_others", "COLL-036", "a rank makes a group that it is no member of",
       "GRP-07: torch.distributed.new_group is called by all ranks",
       "collectives.adapter.bad_lists[list=without_the_caller,ranks=3]",
       "collectives.adapter.bad_lists[list=rank_twice,ranks=3]", "the caller is in the list",
       with_calls_made(asks_for_a_group_of_others)},
  };
}

}  // namespace plumbline::mutants
