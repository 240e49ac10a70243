// Adapters whose answers are right of small questions, and wrong of large ones.
#include <algorithm>
#include <sstream>

#include "harness/mutants/kinds.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

using Size = std::function<std::size_t(const json& args)>;

/// Changes results of questions that are larger than `most`.
RewriteAnswer past(const char* asked, Size size, std::size_t most, ChangeResult change) {
  return results_of(asked, [size = std::move(size), most, change = std::move(change)](const json& args, json& result) {
    if (size(args) > most) change(args, result);
  });
}

Size field(const char* name) {
  return [name](const json& args) { return args.value(name, std::size_t{0}); };
}
Size length(const char* name) {
  return [name](const json& args) { return args.contains(name) ? args[name].size() : 0; };
}
std::size_t product_of_dims(const json& args) {
  std::size_t ranks = 1;
  for (const json& size : args.at("dims")) ranks *= size.get<std::size_t>();
  return ranks;
}
std::size_t ops_of(const json& args) { return args.at("program").at("ops").size(); }

/// One more than it was, or another text.
void change_number(json& number) {
  if (number.is_number()) number = number.get<double>() + 1;
}

void say_invalid(const json&, json& result) { result["valid"] = false; }
void one_peak_short(const json&, json& result) {
  result["peak_activations"][0] = result["peak_activations"][0].get<int>() - 1;
}
void lose_an_action(const json&, json& result) {
  std::string row = result["compute_only"].back();
  row.erase(row.rfind(','));
  result["compute_only"].back() = row;
}
void all_forwards_first(const json& args, json& result) {
  if (args.at("schedule") != "Schedule1F1B") return;
  for (json& row : result["compute_only"]) {
    std::string forwards, rest, cell;
    for (std::istringstream cells(row.get<std::string>()); std::getline(cells, cell, ',');)
      (cell.find('F') != std::string::npos ? forwards : rest) += cell + ",";
    row = forwards + rest.substr(0, rest.size() - 1);
  }
}
void reverse_groups(const json&, json& result) {
  for (json& lists : result["groups"])
    for (json& list : lists) std::reverse(list.begin(), list.end());
}
void other_position(const json& args, json& result) {
  if (args.at("call") == "get_coord") change_number(result["result"].back());
}
// The last gradient of a bucket goes into the next one.
void move_a_gradient(const json&, json& result) {
  json& buckets = result["buckets"];
  json &from = buckets[buckets.size() - 3], &to = buckets[buckets.size() - 2];
  to.insert(to.begin(), from.back());
  from.erase(from.size() - 1);
}
void split_a_group(const json&, json& result) {
  json& group = result["groups"].back();
  json rest = group;
  group["gradients"].erase(group["gradients"].size() - 1);
  rest["gradients"] = {rest["gradients"].back()};
  result["groups"].push_back(std::move(rest));
}
void no_race(const json&, json& result) { result["races"] = json::array(); }
void forget_the_farthest(const json&, json& result) {
  if (!result.contains("phone_book")) return;
  for (json& book : result["phone_book"]) book.erase(book.size() - 1);
}
void late_scale(const json&, json& result) { change_number(result["results"].back()["scale"]); }
void other_parameter(const json&, json& result) { change_number(result["steps"].back().back()["params"][0]); }
void other_sum(const json&, json& result) { change_number(result["output"].back()); }
void other_memory(const json&, json& result) { change_number(result["calls"].back()["memory"].back().back()); }

}  // namespace

std::vector<Mutant> size_mutants() {
  struct Row {
    const char *name, *violates, *what, *check, *shows, *hides;
    RewriteAnswer change;
  };
  const char* const plans = "schedules.check";
  const std::vector<Row> rows{
      {"sch.refuses_past_24", "SCHED-045", "valid plans of more than 24 micro-batches are not valid",
       "schedules.sizes.check", "39", "9", past(plans, field("microbatches"), 24, say_invalid)},
      {"sch.peaks_short_past_20", "SCHED-045", "of more than 20 micro-batches, rank 0 keeps one activation fewer",
       "schedules.sizes.check", "512", "9", past(plans, field("microbatches"), 20, one_peak_short)},
      {"sch.loses_work_past_100", "SCHED-015", "of more than 100 micro-batches, the last computation is left out",
       "schedules.sizes.generate", "148,schedule=1f1b", "39,schedule=1f1b",
       past("schedules.generate", field("microbatches"), 100, lose_an_action)},
      {"sch.gpipe_for_1f1b_past_100", "SCHED-024",
       "under the convention torch, 1F1B of more than 100 micro-batches has the order of GPipe",
       "schedules.sizes.generate_torch", "148,schedule=Schedule1F1B", "39,schedule=Schedule1F1B",
       past("schedules.generate", field("microbatches"), 100, all_forwards_first)},
      {"top.coordinates_past_10000", "TOPO-003", "in worlds of more than 10,000 ranks, the last position is one more",
       "topology.sizes.query", "65536", "1001", past("topology.query", product_of_dims, 10'000, other_position)},
      {"grp.reversed_past_600", "GROUP-024",
       "in worlds of more than 600 ranks, groups are listed from their last ranks on", "groups.sizes.parallel_groups",
       "1001", "60", past("groups.parallel_groups", field("world_size"), 600, reverse_groups)},
      {"bkt.moved_past_10000", "BUCKET-003", "of more than 10,000 gradients, one is in the bucket after its own",
       "bucketing.sizes.assign", "100000", "4567", past("bucketing.assign", length("numel"), 10'000, move_a_gradient)},
      {"pass.splits_past_1000", "PASS-034", "of more than 1,000 ops, the last group is two", "pass.sizes.dp_pass",
       "2500", "400", past("bucketing.dp_pass", ops_of, 1000, split_a_group)},
      {"pass.race_free_past_5000", "PASS-081", "programs of more than 5,000 ops have no race",
       "pass.sizes.race_check_one", "10000", "2500", past("bucketing.race_check", ops_of, 5000, no_race)},
      {"gos.short_book_past_500", "GOSSIP-015", "of more than 500 nodes, phone books lack the farthest one",
       "gossip.sizes.graph", "1024", "334", past("gossip.graph", field("world_size"), 500, forget_the_farthest)},
      {"amp.late_past_20000", "SCALER-002", "behind more than 20,000 operations the scale is one more",
       "scaler.sizes.trace", "10000", "4567", past("scaler.trace", length("ops"), 20'000, late_scale)},
      {"slo.other_past_50", "SLOWMO-013", "of more than 50 ranks, the last one ends with another parameter",
       "slowmo.sizes.trace", "64", "17", past("slowmo.trace", field("world_size"), 50, other_parameter)},
      {"ans.sum_past_1000", "COLL-060", "of more than 1,000 elements, the last sum is one more",
       "collectives.sizes.ring_sum_gloo", "4099", "333", past("comm.ring_sum", field("elements"), 1000, other_sum)},
      {"ans.memory_past_100", "COLL-001", "of more than 100 calls, the last leaves another number",
       "collectives.sizes.calls_many", "700", "60", past("comm.calls", length("calls"), 100, other_memory)},
  };
  std::vector<Mutant> made;
  for (const Row& row : rows) {
    const auto at = [&](const char* size) { return std::string(row.check) + "[size=" + size + "]"; };
    made.push_back({.name = row.name,
                    .violates = row.violates,
                    .what = row.what,
                    .source = "tests of small sizes alone let it pass",
                    .shows = at(row.shows),
                    .hides = at(row.hides),
                    .why_hides = "the question is a smaller one",
                    .change = row.change});
  }
  return made;
}

}  // namespace plumbline::mutants
