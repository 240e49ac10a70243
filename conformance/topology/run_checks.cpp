// All groups of a run, as Megatron-LM makes them of sizes, an order and options, and what each rank is told of them.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "conformance/topology/shapes.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr const char* kRun = "topology.initialize_model_parallel";

// What Megatron-LM makes of sizes of tp, cp and pp, data taking the rest.
struct Sizes {
  int tp = 1, cp = 1, dp = 1, pp = 1;
};

Shape shape_of(const Sizes& sizes) {
  return {.axes = {"tp", "cp", "dp", "pp"}, .dims = {sizes.tp, sizes.cp, sizes.dp, sizes.pp}};
}

json run_of(const Sizes& sizes) {
  return {{"world_size", ranks_in(shape_of(sizes))},
          {"args",
           {{"tensor_model_parallel_size", sizes.tp},
            {"context_parallel_size", sizes.cp},
            {"pipeline_model_parallel_size", sizes.pp}}}};
}

// The lists of each name, as they were made.
json groups_made(const json& result) {
  json groups = json::object();
  for (const json& call : result.at("new_group_calls")) groups[call.at(0).get<std::string>()].push_back(call.at(1));
  return groups;
}

json expected_groups(const Sizes& sizes) {
  const Shape shape = shape_of(sizes);
  json groups{{"DATA_PARALLEL_GROUP", lists_of(shape, {"dp"})},
              {"DATA_PARALLEL_GROUP_WITH_CP", lists_of(shape, {"cp", "dp"})},
              {"CONTEXT_PARALLEL_GROUP", lists_of(shape, {"cp"})},
              {"MODEL_PARALLEL_GROUP", lists_of(shape, {"tp", "pp"})},
              {"TENSOR_MODEL_PARALLEL_GROUP", lists_of(shape, {"tp"})},
              {"PIPELINE_MODEL_PARALLEL_GROUP", lists_of(shape, {"pp"})},
              {"TENSOR_AND_DATA_PARALLEL_GROUP", lists_of(shape, {"tp", "dp"})},
              {"TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", lists_of(shape, {"tp", "cp", "dp"})},
              {"TENSOR_AND_CONTEXT_PARALLEL_GROUP", lists_of(shape, {"tp", "cp"})}};
  for (int rank = 0; rank < ranks_in(shape); ++rank) groups["GTP_WEIGHT_REMAT_GROUP"].push_back(Ranks{rank});
  for (const Ranks& pipeline : lists_of(shape, {"pp"})) {
    groups["EMBEDDING_GROUP"].push_back(pipeline.size() == 1 ? pipeline : Ranks{pipeline.front(), pipeline.back()});
    groups["POSITION_EMBEDDING_GROUP"].push_back(Ranks{pipeline.front()});
  }
  return groups;
}

void all_groups(Context& context) {
  for (const Sizes& sizes :
       {Sizes{2, 1, 3, 1}, Sizes{1, 2, 2, 3}, Sizes{2, 2, 1, 2}, Sizes{3, 1, 2, 4}, Sizes{1, 1, 5, 1}}) {
    if (std::to_string(sizes.pp) != context.parameters().text("stages")) continue;
    json args = run_of(sizes);
    const auto judge = [&](const json& result) {
      return first_difference(expected_groups(sizes), groups_made(result), args.dump());
    };
    report_words(problem_of(context.adapter(), kRun, args, judge));
    if (sizes.pp == 1) continue;
    args["args"]["virtual_pipeline_model_parallel_size"] = 2;  // of which no group knows
    report_words(problem_of(context.adapter(), kRun, args, judge));
  }
}

// Experts with tp and ep of their own on the same ranks: their data takes what a pipeline's stage has left.
void expert_groups(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 40; ++trial) {
    const int tp = random.between(1, 3), ep = random.between(1, 4), dp = random.between(1, 3);
    const int pp = static_cast<int>(context.parameters().number("stages"));
    const Shape shape{.axes = {"tp", "ep", "dp", "pp"}, .dims = {tp, ep, dp, pp}};
    json args = run_of({.tp = tp, .cp = 1, .dp = ep * dp, .pp = pp});
    args["args"]["expert_model_parallel_size"] = ep;
    json expected{{"EXPERT_MODEL_PARALLEL_GROUP", lists_of(shape, {"ep"})},
                  {"EXPERT_TENSOR_PARALLEL_GROUP", lists_of(shape, {"tp"})},
                  {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", lists_of(shape, {"tp", "ep"})},
                  {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", lists_of(shape, {"tp", "ep", "pp"})},
                  {"EXPERT_DATA_PARALLEL_GROUP", lists_of(shape, {"dp"})}};
    for (int rank = 0; rank < ranks_in(shape); ++rank) expected["EXPERT_GTP_WEIGHT_REMAT_GROUP"].push_back(Ranks{rank});
    report_words(problem_of(context.adapter(), kRun, args, [&](const json& result) {
      return first_difference(expected, groups_made(result), args.dump());
    }));
  }
}

// A run with an order of axes, and the shapes that its own groups and its experts' have by it.
struct OrderedRun {
  std::vector<std::string> order;
  Shape own, expert;
  json args;
};

Shape shape_in_order(const std::vector<std::string>& order, const std::map<std::string, int>& sizes) {
  Shape shape;
  for (const std::string& axis : order)
    if (const auto size = sizes.find(axis); size != sizes.end()) {
      shape.axes.push_back(axis);
      shape.dims.push_back(size->second);
    }
  return shape;
}

// Where gtp_remat is named as well, ranks may share the memory of their weights.
OrderedRun draw_ordered(Random& random, int pp) {
  const int tp = random.between(1, 3), ep = random.between(1, 2), dp = random.between(1, 2), cp = random.between(1, 2);
  const bool has_weights = random.between(0, 2) == 0;
  const int weights = has_weights ? random.between(1, 2) : 1, expert_weights = has_weights ? random.between(1, 2) : 1;
  std::vector<std::string> order{"tp", "cp", "ep", "dp"};
  if (has_weights) order.emplace_back("gtp_remat");
  order = random.shuffled(order);
  order.insert(order.begin() + random.between(0, static_cast<int>(order.size())), "pp");
  // Each data axis has what the other grid's axes leave of the world.
  const std::map<std::string, int> own{
      {"tp", tp}, {"cp", cp}, {"dp", dp * ep * expert_weights}, {"pp", pp}, {"gtp_remat", weights}},
      experts{{"tp", tp}, {"ep", ep}, {"dp", dp * cp * weights}, {"pp", pp}, {"gtp_remat", expert_weights}};
  OrderedRun run{.order = order, .own = shape_in_order(order, own), .expert = shape_in_order(order, experts)};
  run.args = {{"world_size", ranks_in(run.own)},
              {"args",
               {{"tensor_model_parallel_size", tp},
                {"context_parallel_size", cp},
                {"pipeline_model_parallel_size", pp},
                {"expert_model_parallel_size", ep},
                {"gtp_remat_size", weights},
                {"expert_gtp_remat_size", expert_weights},
                {"order", fmt::format("{}", fmt::join(order, "-"))}}}};
  return run;
}

// Unless pp is the last axis of several stages, data axes and pipelines of both grids must be the same.
bool is_accepted(const OrderedRun& run) {
  const auto size_of = [](const Shape& shape, const std::string& axis) {
    return shape.dims.at(static_cast<std::size_t>(number_of(shape, axis)));
  };
  return size_of(run.own, "pp") == 1 || run.order.back() == "pp" ||
         (size_of(run.own, "dp") == size_of(run.expert, "dp") &&
          lists_of(run.own, {"pp"}) == lists_of(run.expert, {"pp"}));
}

void ordered_groups(Context& context) {
  Random random(context.seed());
  for (int accepted = 0; accepted < 40;) {
    const OrderedRun one = draw_ordered(random, static_cast<int>(context.parameters().number("stages")));
    if (!is_accepted(one)) continue;
    ++accepted;
    const Shape &run = one.own, &expert = one.expert;
    json expected{{"TENSOR_MODEL_PARALLEL_GROUP", lists_of(run, {"tp"})},
                  {"CONTEXT_PARALLEL_GROUP", lists_of(run, {"cp"})},
                  {"DATA_PARALLEL_GROUP", lists_of(run, {"dp"})},
                  {"PIPELINE_MODEL_PARALLEL_GROUP", lists_of(run, {"pp"})},
                  {"EXPERT_MODEL_PARALLEL_GROUP", lists_of(expert, {"ep"})},
                  {"EXPERT_TENSOR_PARALLEL_GROUP", lists_of(expert, {"tp"})},
                  {"EXPERT_DATA_PARALLEL_GROUP", lists_of(expert, {"dp"})}};
    if (number_of(run, "gtp_remat") >= 0) {
      expected["GTP_WEIGHT_REMAT_GROUP"] = lists_of(run, {"gtp_remat"});
      expected["EXPERT_GTP_WEIGHT_REMAT_GROUP"] = lists_of(expert, {"gtp_remat"});
    }
    report_words(problem_of(context.adapter(), kRun, one.args, [&](const json& result) {
      return first_difference(expected, groups_made(result), one.args.dump());
    }));
  }
}

void orders_are_refused(Context& context) {
  Random random(context.seed());
  for (int refused = 0; refused < 30;) {
    const OrderedRun one = draw_ordered(random, static_cast<int>(context.parameters().number("stages")));
    if (is_accepted(one)) continue;
    ++refused;
    if (const std::string words = problem_of_refusal(context.adapter(), kRun, one.args); !words.empty())
      return report_words(words);
  }
}

// These groups, and no other one over the ranks that share weights.
JudgeResult groups_alone(const json& expected, const json& args) {
  return [=](const json& result) -> std::string {
    const json made = groups_made(result);
    for (const auto& [name, lists] : made.items())
      if (name.ends_with("_WITH_GTP_REMAT") && !expected.contains(name))
        return fmt::format("{}: {} is made", args.dump(), name);
    return first_difference(expected, made, args.dump());
  };
}

JudgeResult one_instance_of(int world, const json& args) {
  return [=](const json& result) {
    Ranks all(static_cast<std::size_t>(world));
    std::iota(all.begin(), all.end(), 0);
    const json expected{{"INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", json::array({all})}};
    return first_difference(expected, groups_made(result), args.dump());
  };
}

// Ranks that share the memory of their weights: next to those of a tensor in the run's own order, next to those of
// other experts in the experts', if the order names ep at all.
void weight_groups(Context& context) {
  Random random(context.seed());
  const int pp = static_cast<int>(context.parameters().number("stages"));
  for (int trial = 0; trial < 40; ++trial) {
    const int tp = random.between(1, 2), ep = random.between(1, 2), dp = random.between(1, 2);
    const int weights = random.between(1, 3), expert_weights = random.between(1, 3);
    std::vector<std::string> order{"tp", "dp"};
    if (ep > 1 || random.between(0, 1) == 0) order.emplace_back("ep");
    order = random.shuffled(order);
    order.insert(pp == 1 ? order.begin() : order.end(), "pp");
    const auto with_weights_after = [&](const char* axis) {
      std::vector<std::string> all = order;
      all.insert(std::ranges::find(all, axis) + 1, "gtp_remat");
      return all;
    };
    const bool names_experts = std::ranges::count(order, "ep") > 0;
    const std::map<std::string, int> of_experts{
        {"tp", tp}, {"gtp_remat", expert_weights}, {"dp", dp * weights}, {"pp", pp}, {"ep", ep}};
    const Shape run = shape_in_order(
        with_weights_after("tp"), {{"tp", tp}, {"gtp_remat", weights}, {"dp", dp * ep * expert_weights}, {"pp", pp}});
    Shape expert = shape_in_order(with_weights_after(names_experts ? "ep" : "tp"), of_experts);
    if (!names_experts) {
      expert.axes.emplace_back("ep");
      expert.dims.push_back(1);
    }
    const json args{{"world_size", ranks_in(run)},
                    {"args",
                     {{"tensor_model_parallel_size", tp},
                      {"pipeline_model_parallel_size", pp},
                      {"expert_model_parallel_size", ep},
                      {"gtp_remat_size", weights},
                      {"expert_gtp_remat_size", expert_weights},
                      {"order", fmt::format("{}", fmt::join(order, "-"))}}}};
    json expected{
        {"GTP_WEIGHT_REMAT_GROUP", lists_of(run, {"gtp_remat"})},
        {"TENSOR_MODEL_PARALLEL_GROUP", lists_of(run, {"tp"})},
        {"DATA_PARALLEL_GROUP", lists_of(run, {"dp"})},
        {"MODEL_PARALLEL_GROUP", lists_of(run, {"tp", "gtp_remat", "pp"})},
        {"TENSOR_AND_DATA_PARALLEL_GROUP", lists_of(run, {"tp", "gtp_remat", "dp"})},
        {"TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", lists_of(run, {"tp", "gtp_remat", "dp"})},
        {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", lists_of(expert, {"tp", "ep"})},
        {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", lists_of(expert, {"tp", "ep", "pp"})},
        {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP", lists_of(expert, {"tp", "ep", "gtp_remat", "pp"})},
        {"EXPERT_GTP_WEIGHT_REMAT_GROUP", lists_of(expert, {"gtp_remat"})},
        {"EXPERT_MODEL_PARALLEL_GROUP", lists_of(expert, {"ep"})},
        {"EXPERT_DATA_PARALLEL_GROUP", lists_of(expert, {"dp"})}};
    if (weights > 1)
      for (const char* name : {"DATA_PARALLEL_GROUP_WITH_GTP_REMAT", "DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT"})
        expected[name] = lists_of(run, {"gtp_remat", "dp"});
    if (expert_weights > 1)
      expected["EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT"] = lists_of(expert, {"gtp_remat", "dp"});
    JudgesByRequirement judges{{"TOPO-068", groups_alone(expected, args)}};
    if (weights > 1 || expert_weights > 1) judges.emplace("TOPO-079", one_instance_of(ranks_in(run), args));
    report_problems(context.adapter(), kRun, args, judges);
  }
}

// What a rank is told of an axis: the list along it that holds the rank, and where in that list the rank is.
struct Along {
  Ranks list;
  int place;
};

Along along(const Shape& shape, const std::set<std::string>& tokens, int rank) {
  const Ranks list = list_with(lists_of(shape, tokens), rank);
  return {list, static_cast<int>(std::ranges::find(list, rank) - list.begin())};
}

json places_of(const Shape& shape, int rank) {
  const Along tp = along(shape, {"tp"}, rank), cp = along(shape, {"cp"}, rank), dp = along(shape, {"dp"}, rank),
              pp = along(shape, {"pp"}, rank);
  const Ranks& line = pp.list;
  const bool is_first = rank == line.front(), is_last = rank == line.back();
  return {
      {"rank", rank},
      {"get_tensor_model_parallel_rank", tp.place},
      {"get_tensor_model_parallel_world_size", tp.list.size()},
      {"get_tensor_model_parallel_src_rank", tp.list.front()},
      {"get_context_parallel_rank", cp.place},
      {"get_context_parallel_world_size", cp.list.size()},
      {"get_data_parallel_rank", dp.place},
      {"get_data_parallel_world_size", dp.list.size()},
      {"get_data_parallel_src_rank", dp.list.front()},
      {"get_model_parallel_src_rank", along(shape, {"tp", "pp"}, rank).list.front()},
      {"get_pipeline_model_parallel_rank", pp.place},
      {"get_pipeline_model_parallel_world_size", line.size()},
      {"get_pipeline_model_parallel_first_rank", line.front()},
      {"get_pipeline_model_parallel_last_rank", line.back()},
      {"get_pipeline_model_parallel_next_rank", is_last ? line.front() : line[static_cast<std::size_t>(pp.place) + 1]},
      {"get_pipeline_model_parallel_prev_rank", is_first ? line.back() : line[static_cast<std::size_t>(pp.place) - 1]},
      {"is_pipeline_first_stage", is_first},
      {"is_pipeline_last_stage", is_last},
      {"is_rank_in_embedding_group", is_first || is_last},
      {"is_rank_in_position_embedding_group", is_first}};
}

void places_in_groups(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 20; ++trial) {
    const Sizes sizes{.tp = random.between(1, 3),
                      .cp = random.between(1, 3),
                      .dp = random.between(1, 3),
                      .pp = static_cast<int>(context.parameters().number("stages"))};
    json expected = json::array();
    for (int rank = 0; rank < ranks_in(shape_of(sizes)); ++rank) expected.push_back(places_of(shape_of(sizes), rank));
    const json args = run_of(sizes);
    report_words(problem_of(context.adapter(), kRun, args, [&](const json& result) {
      return first_difference(expected, result.at("ranks"), args.dump() + ": ranks");
    }));
  }
}

// ---- options of a run ----

std::string problem_of_run(Context& context, const json& args, const json& expected) {
  return problem_of(context.adapter(), kRun, args,
                    [&](const json& result) { return first_difference(expected, groups_made(result), args.dump()); });
}

// Consecutive parts of one size of each list; what is left is the last part.
std::vector<Ranks> parts_of(const std::vector<Ranks>& lists, std::size_t size) {
  std::vector<Ranks> parts;
  for (const Ranks& list : lists)
    for (std::size_t from = 0; from < list.size(); from += size)
      parts.emplace_back(list.begin() + static_cast<std::ptrdiff_t>(from),
                         list.begin() + static_cast<std::ptrdiff_t>(std::min(from + size, list.size())));
  return parts;
}

// The members of each list that differ in one digit of their place, digits of these sizes, the first one fastest.
std::vector<Ranks> level_of(const std::vector<Ranks>& lists, const std::vector<int>& sizes, std::size_t level) {
  const Shape digits{.axes = {}, .dims = sizes};
  const std::vector<Position> places = positions_in(digits, Fastest::first);
  std::vector<Ranks> groups;
  for (const Ranks& list : lists) {
    std::vector<Ranks> of_list = lists_along(digits, places, {static_cast<int>(level)});
    std::ranges::sort(of_list);
    for (const Ranks& members : of_list) {
      groups.emplace_back();
      for (const int place : members) groups.back().push_back(list[static_cast<std::size_t>(place)]);
    }
  }
  return groups;
}

int stages_of(Context& context) { return static_cast<int>(context.parameters().number("stages")); }

void optimizer_instances(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 20; ++trial) {
    const int instances = random.between(2, 3), tp = random.between(1, 2), ep = random.between(1, 2);
    const int rest = random.between(1, 2);
    const Sizes sizes{.tp = tp, .cp = 1, .dp = instances * ep * rest, .pp = stages_of(context)};
    const Shape run = shape_of(sizes),
                expert{.axes = {"tp", "ep", "dp", "pp"}, .dims = {tp, ep, instances * rest, sizes.pp}};
    json args = run_of(sizes);
    args["args"]["expert_model_parallel_size"] = ep;
    args["args"]["num_distributed_optimizer_instances"] = instances;
    json expected{
        {"DATA_PARALLEL_GROUP_WITH_CP", lists_of(run, {"dp", "cp"})},
        {"INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP",
         parts_of(lists_of(run, {"dp", "cp"}), static_cast<std::size_t>(ep * rest))},
        {"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0", level_of(lists_of(expert, {"dp"}), {rest, instances}, 0)},
        {"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1", level_of(lists_of(expert, {"dp"}), {rest, instances}, 1)}};
    // The experts' models of an instance, one after the other.
    Ranks strung;
    for (const Ranks& model : lists_of(expert, {"tp", "ep", "pp"}))
      strung.insert(strung.end(), model.begin(), model.end());
    expected["INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP"] =
        parts_of({strung}, strung.size() / static_cast<std::size_t>(instances));
    report_words(problem_of_run(context, args, expected));
  }
}

// Data groups are made again for gloo: those of the run unless its ranks share the memory of weights, and the experts'
// unless theirs do, too.
json gloo_groups_of(const Shape& run, const Shape& expert, int instances, const std::string& weights) {
  json groups = json::object();
  if (weights == "gtp_remat_size") return groups;
  const std::vector<Ranks> with_context = lists_of(run, {"cp", "dp"}), experts = lists_of(expert, {"dp"});
  const auto part = static_cast<std::size_t>(instances);
  groups["DATA_PARALLEL_GROUP_WITH_CP_GLOO"] = with_context;
  groups["DATA_PARALLEL_GROUP_GLOO"] = lists_of(run, {"dp"});
  if (instances > 1)
    groups["INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO"] = parts_of(with_context, with_context[0].size() / part);
  if (!weights.empty()) return groups;
  groups["EXPERT_DATA_PARALLEL_GROUP_GLOO"] = experts;
  for (const std::size_t level : {0, 1})
    if (instances > 1)
      groups[fmt::format("HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L{}", level)] =
          level_of(experts, {static_cast<int>(experts[0].size()) / instances, instances}, level);
  return groups;
}

std::string problem_of_gloo_calls(const json& calls) {
  const std::string mark = "_GLOO";
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::string name = calls[i].at(0);
    const std::size_t at = name.find(mark);
    if (at == std::string::npos) continue;
    name.erase(at, mark.size());
    if (i == 0 || calls[i - 1] != json::array({name, calls[i].at(1)}))
      return fmt::format("{} does not come directly after {} of the same ranks", calls[i].dump(), name);
  }
  return {};
}

void gloo_groups(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 30; ++trial) {
    const auto weights = random.one_of<std::string>({"", "", "gtp_remat_size", "expert_gtp_remat_size"});
    const int instances = weights.empty() ? random.between(1, 3) : 1, ep = random.between(1, 2);
    const Sizes sizes{.tp = random.between(1, 2),
                      .cp = random.between(1, 2),
                      .dp = 2 * instances * ep * random.between(1, 2),
                      .pp = stages_of(context)};
    const Shape expert{.axes = {"tp", "ep", "dp", "pp"}, .dims = {sizes.tp, ep, sizes.cp * sizes.dp / ep, sizes.pp}};
    json args = run_of(sizes);
    args["args"]["expert_model_parallel_size"] = ep;
    args["args"]["num_distributed_optimizer_instances"] = instances;
    args["args"]["create_gloo_process_groups"] = true;
    if (!weights.empty()) args["args"][weights] = 2;
    const json expected = gloo_groups_of(shape_of(sizes), expert, instances, weights);
    report_words(problem_of(context.adapter(), kRun, args, [&](const json& result) -> std::string {
      const json made = groups_made(result);
      for (const auto& [name, lists] : made.items())
        if (name.find("_GLOO") != std::string::npos && !expected.contains(name))
          return fmt::format("{}: {} is made", args.dump(), name);
      if (std::string words = first_difference(expected, made, args.dump()); !words.empty()) return words;
      return problem_of_gloo_calls(result.at("new_group_calls"));
    }));
  }
}

void hierarchies(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 20; ++trial) {
    const std::vector<int> levels{random.between(1, 3), random.between(1, 3), random.between(1, 2)};
    const Sizes sizes{.tp = random.between(1, 2),
                      .cp = levels[0] * levels[1] * levels[2],
                      .dp = random.between(1, 2),
                      .pp = stages_of(context)};
    json args = run_of(sizes);
    args["args"]["hierarchical_context_parallel_sizes"] = levels;
    const std::vector<Ranks> lists = lists_of(shape_of(sizes), {"cp"});
    json expected{{"CONTEXT_PARALLEL_GROUP", lists}};
    for (std::size_t level = 0; level < levels.size(); ++level)
      expected[fmt::format("HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L{}", level)] = level_of(lists, levels, level);
    report_words(problem_of_run(context, args, expected));
  }
}

void hybrid_groups(Context& context) {
  for (const Sizes& shape : {Sizes{1, 2, 2, 1}, Sizes{2, 1, 4, 1}, Sizes{1, 4, 2, 1}, Sizes{1, 2, 1, 1},
                             Sizes{1, 1, 6, 1}, Sizes{2, 5, 2, 1}, Sizes{1, 2, 7, 1}}) {
    Sizes sizes = shape;
    sizes.pp = stages_of(context);
    json args = run_of(sizes);
    args["args"]["hybrid_context_parallel"] = true;
    const std::vector<Ranks> lists = lists_of(shape_of(sizes), {"cp", "dp"});
    json expected{{"DATA_PARALLEL_GROUP_WITH_CP", lists}};
    for (std::size_t size = 2; size <= lists[0].size() / 2; size *= 2)
      expected[fmt::format("HYBRID_DP_CP_GROUP_{}", size)] = parts_of(lists, size);
    report_words(problem_of(context.adapter(), kRun, args, [&](const json& result) -> std::string {
      const json made = groups_made(result);
      for (const auto& [name, groups] : made.items())
        if (name.starts_with("HYBRID_DP_CP_GROUP_") && !expected.contains(name))
          return fmt::format("{}: {} is made", args.dump(), name);
      return first_difference(expected, made, args.dump());
    }));
  }
}

// Ranks below the offset have no part in the run.
void run_offsets(Context& context) {
  const Sizes sizes{.tp = 2, .cp = 1, .dp = 2, .pp = stages_of(context)};
  const json plain = run_of(sizes);
  for (const int offset : {1, 7, 64}) {
    json args = plain;
    args["args"]["rank_offset"] = offset;
    report_words(problem_of(context.adapter(), kRun, args, [&](const json& result) -> std::string {
      json groups = expected_groups(sizes), told = json::array();
      for (auto& [name, lists] : groups.items())
        for (json& list : lists)
          for (json& rank : list) rank = rank.get<int>() + offset;
      for (int rank = 0; rank < ranks_in(shape_of(sizes)); ++rank) {
        json places = places_of(shape_of(sizes), rank);
        for (const auto& [name, value] : places.items())
          if (name == "rank" || name.ends_with("_src_rank") || name.ends_with("_first_rank") ||
              name.ends_with("_last_rank") || name.ends_with("_next_rank") || name.ends_with("_prev_rank"))
            value = value.get<int>() + offset;
        told.push_back(places);
      }
      if (std::string words = first_difference(groups, groups_made(result), args.dump()); !words.empty()) return words;
      return first_difference(told, result.at("ranks"), args.dump() + ": ranks");
    }));
  }
}

// ---- what no run has ----

const std::vector<BadQuestion>& bad_runs() {
  const auto run = [](const char* fault, int world, const json& args) {
    return BadQuestion{fault, kRun, {{"world_size", world}, {"args", args}}};
  };
  static const std::vector<BadQuestion> list{
      run("no_context", 4, {{"context_parallel_size", 0}}),
      run("no_experts", 4, {{"expert_model_parallel_size", 0}}),
      run("no_expert_tensor", 4, {{"expert_tensor_parallel_size", 0}}),
      run("no_virtual_stages", 4, {{"pipeline_model_parallel_size", 2}, {"virtual_pipeline_model_parallel_size", 0}}),
      run("no_weights", 4, {{"gtp_remat_size", 0}}),
      run("no_expert_weights", 4, {{"expert_gtp_remat_size", 0}}),
      run("no_instances", 4, {{"num_distributed_optimizer_instances", 0}}),
      run("no_level", 4, {{"context_parallel_size", 2}, {"hierarchical_context_parallel_sizes", {0, 2}}}),
      run("negative_levels", 4, {{"context_parallel_size", 2}, {"hierarchical_context_parallel_sizes", {-1, -2}}}),
      run("levels_of_another_size", 4, {{"context_parallel_size", 4}, {"hierarchical_context_parallel_sizes", {2, 3}}}),
      run("virtual_stages_of_one_stage", 4, {{"virtual_pipeline_model_parallel_size", 2}}),
      run("instances_not_dividing", 4, {{"num_distributed_optimizer_instances", 3}}),
      run("instances_not_dividing_data", 8,
          {{"tensor_model_parallel_size", 2},
           {"expert_tensor_parallel_size", 1},
           {"num_distributed_optimizer_instances", 8}}),
      run("instances_not_dividing_experts", 4,
          {{"expert_model_parallel_size", 4}, {"num_distributed_optimizer_instances", 2}}),
      run("instances_with_weights", 8, {{"gtp_remat_size", 2}, {"num_distributed_optimizer_instances", 2}}),
      run("instances_with_expert_weights", 8,
          {{"expert_gtp_remat_size", 2}, {"num_distributed_optimizer_instances", 2}}),
      run("hybrid_of_an_odd_number", 3, {{"hybrid_context_parallel", true}}),
      run("offset_minus_one", 4, {{"rank_offset", -1}}),
      run("weights_not_dividing", 8, {{"gtp_remat_size", 3}}),
  };
  return list;
}

void bad_run(Context& context) { report_words(problem_of_bad_question(context, bad_runs())); }

suite::Check run_check(std::string id, std::string verifies, suite::Axis axis, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {std::move(axis)},
          .operations = {kRun},
          .body = std::move(body)};
}

}  // namespace

void add_run_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* verifies, std::function<void(Context&)> body) {
    suite.add(run_check(id, verifies, {"stages", {"1", "2", "3", "4"}}, std::move(body)));
  };
  add("topology.orders.all_groups", "TOPO-036@ff7d", all_groups);
  add("topology.orders.expert_groups", "TOPO-054@d45c", expert_groups);
  add("topology.orders.ordered_groups", "TOPO-067@14a5", ordered_groups);
  suite.add(run_check("topology.refusals.orders", "TOPO-075@924e", {"stages", {"2", "3", "4"}}, orders_are_refused));
  suite.add({.id = "topology.orders.weight_groups",
             .verifies = {"TOPO-068@9707", "TOPO-079@ac83"},
             .door = suite::Door::adapter,
             .axes = {{"stages", {"1", "2", "3", "4"}}},
             .operations = {kRun},
             .body = weight_groups});
  add("topology.orders.places", "TOPO-055@9168", places_in_groups);
  const auto add_option = [&](const char* id, const char* verifies, std::function<void(Context&)> body) {
    suite.add(run_check(id, verifies, {"stages", {"1", "2"}}, std::move(body)));
  };
  add_option("topology.runs.optimizer_instances", "TOPO-069@85e1", optimizer_instances);
  add_option("topology.runs.gloo_groups", "TOPO-080@2661", gloo_groups);
  add_option("topology.runs.hierarchies", "TOPO-070@0e5b", hierarchies);
  add_option("topology.runs.hybrid_groups", "TOPO-071@5eec", hybrid_groups);
  add_option("topology.runs.offset", "TOPO-073@8c99", run_offsets);
  suite.add(run_check("topology.refusals.runs", "TOPO-074@6b3b", faults_of(bad_runs(), {kRun}), bad_run));
}

}  // namespace plumbline::conformance
