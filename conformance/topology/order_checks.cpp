// Megatron-LM's orders: the first name fastest, merged axes, expert grids, spans that begin beyond rank 0.
#include <algorithm>
#include <map>
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

// The lists along the axes of "tp-dp", by their first ranks.
std::vector<Ranks> lists_of(const Shape& shape, const std::set<std::string>& tokens) {
  std::vector<int> along;
  for (const std::string& token : tokens) along.push_back(number_of(shape, token));
  std::vector<Ranks> lists = lists_along(shape, positions_in(shape, Fastest::first), along);
  std::ranges::sort(lists);
  return lists;
}

// The order names all axes; those that it leaves out have size 1.
json generator_args(const Shape& shape, const std::vector<std::string>& tokens) {
  json sizes{{"tp", 1}, {"ep", 1}, {"dp", 1}, {"pp", 1}, {"cp", 1}, {"gtp_remat", 1}};
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) sizes[shape.axes[axis]] = shape.dims[axis];
  return {{"sizes", sizes},
          {"order", fmt::format("{}", fmt::join(shape.axes, "-"))},
          {"rank_offset", shape.offset},
          {"tokens", tokens}};
}

// The order names the axes that were given first, and the sizes are theirs; what it is completed with has one rank.
std::string problem_of_generated(const Shape& shape, const json& groups, const json& result) {
  const auto order = result.at("normalized_order").get<std::string>();
  if (!(order + "-").starts_with(fmt::format("{}-", fmt::join(shape.axes, "-"))))
    return fmt::format("the order is {}", order);
  auto sizes = shape.dims;
  sizes.resize(std::max(sizes.size(), result.at("ordered_size").size()), 1);
  return first_difference({{"world_size", ranks_in(shape)}, {"ordered_size", sizes}, {"groups", groups}}, result);
}

std::string problem_of_groups(suite::Adapter& adapter, const Shape& shape,
                              const std::map<std::string, std::set<std::string>>& tokens) {
  std::vector<std::string> asked;
  json expected = json::object();
  for (const auto& [words, axes] : tokens) {
    asked.push_back(words);
    expected[words] = lists_of(shape, axes);
  }
  return problem_of(adapter, "topology.rank_generator", generator_args(shape, asked),
                    [&](const json& result) { return problem_of_generated(shape, expected, result); });
}

// The fixed shapes have Megatron-LM's names.
Shape renamed(Shape shape, const std::vector<std::string>& names) {
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
    if (const auto& name = shape.axes[axis]; std::ranges::count(names, name) == 0) shape.axes[axis] = names[axis];
  return shape;
}

void judge_orders(Context& context, const std::vector<std::string>& names, int offset,
                  const std::function<std::string(const Shape&)>& problem) {
  judge_shapes(
      context, [&](const Shape& shape) { return problem(renamed(shape, names)); },
      {.axes = 4, .ranks = 48, .offset = offset, .names = names}, 500);
}

const std::vector<std::string> kNames{"tp", "cp", "dp", "pp"};

void first_fastest(Context& context) {
  judge_orders(context, kNames, 0, [&](const Shape& shape) {
    std::map<std::string, std::set<std::string>> tokens;
    for (const std::string& axis : shape.axes) tokens[axis] = {axis};
    return problem_of_groups(context.adapter(), shape, tokens);
  });
}

// The ranks of experts are a grid of their own, with ep where the other has cp.
void expert_grids(Context& context) {
  judge_orders(context, {"ep", "tp", "dp", "pp", "gtp_remat"}, 0, [&](const Shape& shape) {
    std::map<std::string, std::set<std::string>> tokens;
    if (number_of(shape, "ep") < 0) return std::string();
    for (const std::string& axis : shape.axes)
      if (axis != "ep") {
        tokens["ep-" + axis] = {"ep", axis};
        tokens[axis] = {axis};
      }
    for (std::size_t axis = 1; axis < shape.axes.size(); ++axis)
      for (std::size_t other = 0; other < axis; ++other) {
        const std::string &one = shape.axes[axis], &two = shape.axes[other];
        if (one != "ep" && two != "ep") tokens["ep-" + one + "-" + two] = {"ep", one, two};
      }
    tokens["ep"] = {"ep"};
    return problem_of_groups(context.adapter(), shape, tokens);
  });
}

void merged(Context& context) {
  judge_orders(context, kNames, 0, [&](const Shape& shape) {
    std::map<std::string, std::set<std::string>> tokens;
    for (const std::string& one : shape.axes)
      for (const std::string& other : shape.axes)
        if (one != other) tokens[one + "-" + other] = {one, other};
    if (shape.axes.size() > 2)
      tokens[fmt::format("{}-{}-{}", shape.axes[2], shape.axes[0], shape.axes[1])] = {shape.axes[0], shape.axes[1],
                                                                                      shape.axes[2]};
    if (tokens.empty()) tokens[shape.axes.front()] = {shape.axes.front()};  // which cannot be merged
    return problem_of_groups(context.adapter(), shape, tokens);
  });
}

void offsets(Context& context) {
  const auto begin = static_cast<int>(context.parameters().number("begin"));
  judge_orders(context, {"tp", "ep", "dp", "pp", "gtp_remat"}, 0, [&](Shape shape) {
    shape.offset = begin;
    std::map<std::string, std::set<std::string>> tokens;
    for (const std::string& axis : shape.axes) {
      tokens[axis] = {axis};
      if (axis != shape.axes.front()) tokens[shape.axes.front() + "-" + axis] = {shape.axes.front(), axis};
    }
    return problem_of_groups(context.adapter(), shape, tokens);
  });
}

// ---- spans ----

void spans(Context& context) {
  judge_orders(context, kNames, 40, [&](const Shape& shape) {
    json groups = json::object();
    for (std::size_t one = 0; one < shape.axes.size(); ++one) {
      groups[shape.axes[one]] = lists_of(shape, {shape.axes[one]});
      for (std::size_t other = one + 1; other < shape.axes.size(); ++other)
        groups[shape.axes[one] + "-" + shape.axes[other]] = lists_of(shape, {shape.axes[one], shape.axes[other]});
    }
    const json args{{"shape", shape.dims},
                    {"dim_names", shape.axes},
                    {"world_size", shape.offset + ranks_in(shape) + 3},
                    {"rank_offset", shape.offset}};
    return problem_of(context.adapter(), "topology.hyper_comm_grid", args,
                      [&](const json& result) { return first_difference(groups, result.at("groups"), "groups"); });
  });
}

// ---- all groups of a run ----

// What Megatron-LM makes of sizes of tp, cp and pp, data taking the rest.
struct Sizes {
  int tp = 1, cp = 1, dp = 1, pp = 1;
};

Shape shape_of(const Sizes& sizes) {
  return {.axes = {"tp", "cp", "dp", "pp"}, .dims = {sizes.tp, sizes.cp, sizes.dp, sizes.pp}};
}

json question_of(const Sizes& sizes) {
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
    const json args = question_of(sizes);
    report_words(problem_of(context.adapter(), "topology.initialize_model_parallel", args, [&](const json& result) {
      return first_difference(expected_groups(sizes), groups_made(result), args.dump());
    }));
  }
}

// Experts with tp and ep of their own on the same ranks: their data takes what a pipeline's stage has left.
void expert_groups(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 40; ++trial) {
    const int tp = random.between(1, 3), ep = random.between(1, 4), dp = random.between(1, 3);
    const int pp = static_cast<int>(context.parameters().number("stages"));
    const Shape shape{.axes = {"tp", "ep", "dp", "pp"}, .dims = {tp, ep, dp, pp}};
    json args = question_of({.tp = tp, .cp = 1, .dp = ep * dp, .pp = pp});
    args["args"]["expert_model_parallel_size"] = ep;
    json expected{{"EXPERT_MODEL_PARALLEL_GROUP", lists_of(shape, {"ep"})},
                  {"EXPERT_TENSOR_PARALLEL_GROUP", lists_of(shape, {"tp"})},
                  {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", lists_of(shape, {"tp", "ep"})},
                  {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", lists_of(shape, {"tp", "ep", "pp"})},
                  {"EXPERT_DATA_PARALLEL_GROUP", lists_of(shape, {"dp"})}};
    for (int rank = 0; rank < ranks_in(shape); ++rank) expected["EXPERT_GTP_WEIGHT_REMAT_GROUP"].push_back(Ranks{rank});
    report_words(problem_of(context.adapter(), "topology.initialize_model_parallel", args, [&](const json& result) {
      return first_difference(expected, groups_made(result), args.dump());
    }));
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
    const json args = question_of(sizes);
    report_words(problem_of(context.adapter(), "topology.initialize_model_parallel", args, [&](const json& result) {
      return first_difference(expected, result.at("ranks"), args.dump() + ": ranks");
    }));
  }
}

suite::Check order_check(std::string id, std::string verifies, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {shapes({"5", "3x2", "2x3x1", "2x3x2x2", "random"})},
          .operations = {"topology.rank_generator"},
          .body = std::move(body)};
}

}  // namespace

void add_order_checks(suite::Suite& suite) {
  suite.add(order_check("topology.orders.first_fastest", "TOPO-031@d698", first_fastest));
  suite.add(order_check("topology.orders.merged", "TOPO-032@6bc9", merged));
  suite::Check experts = order_check("topology.orders.expert_grids", "TOPO-033@a568", expert_grids);
  experts.axes = {shapes({"1x4", "3x2", "2x3x1", "2x3x2x2", "random"})};
  suite.add(std::move(experts));
  suite::Check shifted = order_check("topology.orders.offset", "TOPO-034@001e", offsets);
  shifted.axes = {shapes({"5", "3x2", "2x3x1", "random"}), {"begin", {"0", "7", "64"}}};
  suite.add(std::move(shifted));
  suite::Check span = order_check("topology.orders.spans", "TOPO-035@b18a", spans);
  span.operations = {"topology.hyper_comm_grid"};
  suite.add(std::move(span));
  suite::Check all = order_check("topology.orders.all_groups", "TOPO-036@f43c", all_groups);
  all.axes = {{"stages", {"1", "2", "3", "4"}}};
  all.operations = {"topology.initialize_model_parallel"};
  suite.add(all);
  const auto add_like = [&](const char* id, const char* verifies, std::function<void(Context&)> body) {
    suite::Check other = all;
    other.id = id;
    other.verifies = {verifies};
    other.body = std::move(body);
    suite.add(std::move(other));
  };
  add_like("topology.orders.expert_groups", "TOPO-054@a09e", expert_groups);
  add_like("topology.orders.places", "TOPO-055@2148", places_in_groups);
}

}  // namespace plumbline::conformance
