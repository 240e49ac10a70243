// What is refused, under which kind, and with which words.
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/support/words.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

// A question that must be refused, and what the message has to hold.
struct Bad {
  std::string fault;
  std::string op;
  json args;
  std::vector<std::string> words = {};  // none where what is wrong has no name and no number
};

json query(const std::string& call, const json& kwargs) {
  return {{"axes", {"pipe", "data", "model"}}, {"dims", {2, 3, 4}}, {"call", call}, {"kwargs", kwargs}};
}

json map_of(const json& axes, const json& dims) {
  return {{"axes", axes}, {"dims", dims}, {"filter_match", json::array()}, {"rank_repr", json::array()}};
}

json grid_of(int world, const json& axes, const json& dims) {
  return {{"world_size", world}, {"axes", axes}, {"dims", dims}};
}

// Places that are not there.
const std::vector<Bad>& bad_places() {
  static const std::vector<Bad> list{
      {"rank_past_the_last", "topology.query", query("get_coord", {{"rank", 24}}), {"24"}},
      {"negative_rank", "topology.query", query("get_coord", {{"rank", -1}}), {"-1"}},
      {"position_past_the_last",
       "topology.query",
       query("get_rank", {{"pipe", 0}, {"data", 3}, {"model", 1}}),
       {"data", "3"}},
      {"negative_position",
       "topology.query",
       query("get_rank", {{"pipe", 0}, {"data", 1}, {"model", -7}}),
       {"model", "-7"}},
      {"other_axis", "topology.query", query("get_rank", {{"pipe", 0}, {"data", 1}, {"tensor", 2}}), {"tensor"}},
      {"axis_too_many",
       "topology.query",
       query("get_rank", {{"pipe", 0}, {"data", 1}, {"model", 2}, {"tensor", 3}}),
       {"tensor"}},
      {"filter_of_no_axis", "topology.query", query("filter_match", {{"tensor", 0}}), {"tensor"}},
      {"name_of_no_rank", "topology.query", query("get_rank_repr", {{"rank", 24}}), {"24"}},
      {"list_past_the_end", "topology.query", query("get_axis_list", {{"axis", "data"}, {"idx", 3}}), {"data", "3"}},
      {"list_before_the_first",
       "topology.query",
       query("get_axis_list", {{"axis", "pipe"}, {"idx", -4}}),
       {"pipe", "-4"}},
      {"filter_past_the_end", "topology.query", query("filter_match", {{"pipe", 1}, {"data", 9}}), {"data", "9"}},
      {"filter_before_the_first", "topology.query", query("filter_match", {{"model", -6}}), {"model", "-6"}},
      {"stage_past_the_last",
       "topology.query",
       query("stage_to_global", {{"rank", 0}, {"stage_id", 2}}),
       {"pipe", "2"}},
      {"negative_stage", "topology.query", query("stage_to_global", {{"rank", 0}, {"stage_id", -5}}), {"pipe", "-5"}},
      {"stage_of_no_rank", "topology.query", query("stage_to_global", {{"rank", 24}, {"stage_id", 0}}), {"24"}},
      {"override_past_the_end",
       "topology.query",
       query("stage_to_global", {{"rank", 0}, {"stage_id", 0}, {"model", 8}}),
       {"model", "8"}},
      {"override_of_no_axis",
       "topology.query",
       query("stage_to_global", {{"rank", 0}, {"stage_id", 0}, {"tensor", 1}}),
       {"tensor"}},
      // One beyond each end.
      {"position_minus_one",
       "topology.query",
       query("get_rank", {{"pipe", -1}, {"data", 1}, {"model", 2}}),
       {"pipe", "-1"}},
      {"name_of_rank_minus_one", "topology.query", query("get_rank_repr", {{"rank", -1}}), {"-1"}},
      {"list_at_minus_one", "topology.query", query("get_axis_list", {{"axis", "pipe"}, {"idx", -1}}), {"pipe", "-1"}},
      {"filter_at_the_end", "topology.query", query("filter_match", {{"model", 4}}), {"model", "4"}},
      {"filter_at_minus_one", "topology.query", query("filter_match", {{"data", -1}}), {"data", "-1"}},
      {"stage_minus_one", "topology.query", query("stage_to_global", {{"rank", 0}, {"stage_id", -1}}), {"pipe", "-1"}},
      {"stage_of_rank_minus_one", "topology.query", query("stage_to_global", {{"rank", -1}, {"stage_id", 0}}), {"-1"}},
      {"override_at_the_end",
       "topology.query",
       query("stage_to_global", {{"rank", 0}, {"stage_id", 0}, {"model", 4}}),
       {"model", "4"}},
      {"override_minus_one",
       "topology.query",
       query("stage_to_global", {{"rank", 0}, {"stage_id", 0}, {"data", -1}}),
       {"data", "-1"}},
      {"override_of_pipe",
       "topology.query",
       query("stage_to_global", {{"rank", 0}, {"stage_id", 0}, {"pipe", 1}}),
       {"pipe", "1"}},
  };
  return list;
}

// The operations that make a world of sizes, each asked for one of two or three axes.
std::vector<Bad> asked_of_all(const std::string& fault, const std::vector<int>& sizes,
                              const std::vector<std::string>& words) {
  const std::vector<std::string> all{"pipe", "data", "model"}, orders{"pp", "dp", "tp"};
  const auto count = static_cast<std::ptrdiff_t>(sizes.size());
  const std::vector<std::string> axes(all.begin(), all.begin() + count), names(orders.begin(), orders.begin() + count);
  json generator{{"order", fmt::format("{}", fmt::join(names, "-"))}, {"tokens", {"dp"}}};
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) generator["sizes"][names[axis]] = sizes[axis];
  std::vector<Bad> list{
      {fault + "_of_map", "topology.process_topology", map_of(axes, sizes), {}},
      {fault + "_of_query",
       "topology.query",
       {{"axes", axes}, {"dims", sizes}, {"call", "world_size"}, {"kwargs", json::object()}},
       {}},
      {fault + "_of_grid", "topology.grid", grid_of(6, axes, sizes), {}},
      {fault + "_of_generator", "topology.rank_generator", generator, {}},
      {fault + "_of_span", "topology.hyper_comm_grid", {{"shape", sizes}, {"dim_names", names}}, {}},
      {fault + "_of_mesh",
       "topology.device_mesh",
       {{"shape", sizes}, {"dim_names", names}, {"slices", json::array()}},
       {}},
      {fault + "_of_nodes",
       "topology.placement",
       {{"axes", axes}, {"dims", sizes}, {"ranks_per_node", 2}, {"bytes", json::object()}},
       {}},
  };
  for (Bad& bad : list) bad.words = words;
  return list;
}

json run_of(int world, const json& args) { return {{"world_size", world}, {"args", args}}; }

// Worlds that cannot be, each in one operation.
const std::vector<Bad>& single_bad_worlds() {
  static const std::vector<Bad> list{
      {"no_axes", "topology.process_topology", map_of(json::array(), json::array()), {}},
      {"empty_name", "topology.process_topology", map_of({"pipe", ""}, {2, 3}), {}},
      {"axis_twice", "topology.process_topology", map_of({"pipe", "data", "pipe"}, {2, 3, 2}), {"pipe"}},
      {"size_zero", "topology.process_topology", map_of({"pipe", "data"}, {7, 0}), {"data", "0"}},
      {"negative_size", "topology.process_topology", map_of({"pipe", "data"}, {-5, 3}), {"pipe", "-5"}},
      {"more_axes_than_sizes", "topology.process_topology", map_of({"pipe", "data", "model"}, {2, 3}), {"3", "2"}},
      {"more_sizes_than_axes", "topology.process_topology", map_of({"pipe"}, {2, 3}), {"1", "2"}},
      {"product_overflow",
       "topology.process_topology",
       map_of({"pipe", "data", "model"}, {65536, 65536, 3}),
       {"65536"}},
      {"one_rank_beyond_an_int",
       "topology.query",
       {{"axes", {"pipe", "data"}}, {"dims", {65536, 32768}}, {"call", "world_size"}, {"kwargs", json::object()}},
       {"65536", "32768"}},
      {"last_rank_beyond_an_int",
       "topology.rank_generator",
       {{"sizes", {{"tp", 2}, {"dp", 3}}}, {"order", "tp-dp"}, {"rank_offset", 2147483643}, {"tokens", {"dp"}}},
       {"2147483643"}},
      {"offset_minus_one",
       "topology.hyper_comm_grid",
       {{"shape", {2, 2}}, {"dim_names", {"tp", "dp"}}, {"world_size", 4}, {"rank_offset", -1}},
       {"-1"}},
      {"span_of_one_more",
       "topology.hyper_comm_grid",
       {{"shape", {4, 5}}, {"dim_names", {"tp", "dp"}}, {"world_size", 25}, {"rank_offset", 6}},
       {"25", "6"}},
      {"prime_factors_of_zero", "topology.prime_factors", {{"n", 0}}, {"0"}},
      {"prime_factors_of_less", "topology.prime_factors", {{"n", -3}}, {"-3"}},
      {"empty_grid", "topology.grid", grid_of(0, nullptr, nullptr), {"0"}},
      {"grid_of_fewer", "topology.grid", grid_of(8, {"pipe", "data"}, {2, 3}), {"6", "8"}},
      {"grid_of_more", "topology.grid", grid_of(5, {"pipe", "data"}, {2, 3}), {"6", "5"}},
      {"grid_without_pipe", "topology.grid", grid_of(6, {"data", "model"}, {2, 3}), {"pipe"}},
      {"grid_without_data", "topology.grid", grid_of(6, {"pipe", "model"}, {2, 3}), {"data"}},
      {"order_without_an_axis",
       "topology.rank_generator",
       {{"sizes", {{"tp", 3}, {"ep", 1}, {"dp", 2}, {"pp", 5}, {"cp", 1}, {"gtp_remat", 1}}},
        {"order", "dp-pp"},
        {"tokens", {"dp"}}},
       {"tp", "3"}},
      {"order_with_no_axis",
       "topology.rank_generator",
       {{"sizes", {{"tp", 2}, {"ep", 1}, {"dp", 2}, {"pp", 1}, {"cp", 1}, {"gtp_remat", 1}}},
        {"order", "tp-dp-xx"},
        {"tokens", {"dp"}}},
       {"xx"}},
      {"experts_and_context",
       "topology.rank_generator",
       {{"sizes", {{"tp", 1}, {"ep", 5}, {"dp", 2}, {"pp", 1}, {"cp", 3}, {"gtp_remat", 1}}},
        {"order", "tp-cp-ep-dp"},
        {"tokens", {"dp"}}},
       {"3", "5"}},
      {"span_of_more",
       "topology.hyper_comm_grid",
       {{"shape", {4, 5}}, {"dim_names", {"tp", "dp"}}, {"world_size", 24}, {"rank_offset", 6}},
       {"24", "6"}},
      {"negative_offset",
       "topology.hyper_comm_grid",
       {{"shape", {2, 2}}, {"dim_names", {"tp", "dp"}}, {"world_size", 4}, {"rank_offset", -3}},
       {"-3"}},
      {"mesh_with_a_name_twice",
       "topology.device_mesh",
       {{"shape", {2, 3}}, {"dim_names", {"dp", "dp"}}, {"slices", json::array()}},
       {"dp"}},
      {"mesh_with_fewer_names",
       "topology.device_mesh",
       {{"shape", {2, 3}}, {"dim_names", {"dp"}}, {"slices", json::array()}},
       {"1", "2"}},
      {"slice_of_no_axis",
       "topology.device_mesh",
       {{"shape", {2, 3}}, {"dim_names", {"dp", "tp"}}, {"slices", {"pp"}}},
       {"pp"}},
      {"no_ranks_per_node",
       "topology.placement",
       {{"axes", {"pipe", "data"}}, {"dims", {2, 3}}, {"ranks_per_node", 0}, {"bytes", {{"data", 1}}}},
       {"0"}},
      {"bytes_of_no_axis",
       "topology.placement",
       {{"axes", {"pipe", "data"}}, {"dims", {2, 3}}, {"ranks_per_node", 2}, {"bytes", {{"tensor", 1}}}},
       {"tensor"}},
      {"negative_bytes",
       "topology.placement",
       {{"axes", {"pipe", "data"}}, {"dims", {2, 3}}, {"ranks_per_node", 2}, {"bytes", {{"data", -9}}}},
       {"data", "-9"}},
      {"one_byte_less_than_none",
       "topology.placement",
       {{"axes", {"pipe", "data"}}, {"dims", {2, 3}}, {"ranks_per_node", 2}, {"bytes", {{"pipe", -1}}}},
       {"pipe", "-1"}},
      {"nodes_of_one_more",
       "topology.placement",
       {{"axes", {"pipe", "data"}}, {"dims", {2, 3}}, {"ranks_per_node", {4, 3}}, {"bytes", {{"data", 1}}}},
       {"6", "7"}},
      {"no_nodes",
       "topology.placement",
       {{"axes", {"pipe", "data"}}, {"dims", {2, 3}}, {"ranks_per_node", json::array()}, {"bytes", {{"data", 1}}}},
       {"6"}},
      {"nodes_beyond_an_int",
       "topology.placement",
       {{"axes", {"pipe", "data"}},
        {"dims", {2, 3}},
        {"ranks_per_node", {2147483647, 2147483647, 8}},
        {"bytes", {{"data", 1}}}},
       {"2147483647"}},
      {"nodes_of_fewer",
       "topology.placement",
       {{"axes", {"pipe", "data"}}, {"dims", {2, 3}}, {"ranks_per_node", {1, 3}}, {"bytes", {{"data", 1}}}},
       {"6", "4"}},
      {"node_without_ranks",
       "topology.placement",
       {{"axes", {"pipe", "data"}}, {"dims", {2, 3}}, {"ranks_per_node", {6, 0}}, {"bytes", {{"data", 1}}}},
       {"0"}},
      {"mesh_of_another_world",
       "topology.device_mesh",
       {{"shape", {2, 3}}, {"dim_names", {"dp", "tp"}}, {"slices", json::array()}, {"world_size", 5}},
       {"6", "5"}},
      {"no_such_token",
       "topology.rank_generator",
       {{"sizes", {{"tp", 2}, {"dp", 3}}}, {"order", "tp-dp"}, {"tokens", {"dp", "tp-xx"}}},
       {"xx"}},
      {"run_not_divisible",
       "topology.initialize_model_parallel",
       run_of(18, {{"tensor_model_parallel_size", 4}}),
       {"18", "4"}},
      {"run_not_divisible_by_stages",
       "topology.initialize_model_parallel",
       run_of(26, {{"tensor_model_parallel_size", 2}, {"pipeline_model_parallel_size", 5}}),
       {"26", "5"}},
      {"run_not_divisible_by_context",
       "topology.initialize_model_parallel",
       run_of(10, {{"context_parallel_size", 3}}),
       {"10", "3"}},
      {"run_not_divisible_by_experts",
       "topology.initialize_model_parallel",
       run_of(8, {{"tensor_model_parallel_size", 2}, {"expert_model_parallel_size", 3}}),
       {"8", "3"}},
      {"run_of_no_tensor", "topology.initialize_model_parallel", run_of(7, {{"tensor_model_parallel_size", 0}}), {"0"}},
      {"run_of_negative_stages",
       "topology.initialize_model_parallel",
       run_of(7, {{"pipeline_model_parallel_size", -2}}),
       {"-2"}},
      {"empty_run", "topology.initialize_model_parallel", run_of(0, json::object()), {"0"}},
  };
  return list;
}

const std::vector<Bad>& bad_worlds() {
  static const std::vector<Bad> list = [] {
    std::vector<Bad> all = single_bad_worlds();
    for (const auto& [fault, sizes, words] :
         std::vector<std::tuple<std::string, std::vector<int>, std::vector<std::string>>>{
             {"zero", {6, 0}, {"0"}},
             {"below_zero", {-2, 3}, {"-2"}},
             {"wraps_small", {65536, 65537}, {"65536", "65537"}},
             {"wraps_negative", {46341, 46341}, {"46341"}},
             {"wraps_thrice", {50000, 50000, 5}, {"50000", "5"}}})
      std::ranges::move(asked_of_all(fault, sizes, words), std::back_inserter(all));
    return all;
  }();
  return list;
}

const Bad& asked(const std::vector<Bad>& list, const Context& context) {
  return *std::ranges::find(list, context.parameters().text("fault"), &Bad::fault);
}

void refused(Context& context, const Bad& bad) {
  report_words(problem_of_control(context.adapter(), bad.op, bad.args));
  const Answer answer = answer_to(context.adapter(), bad.op, bad.args);
  if (!answer.is_refused())
    report_words(fmt::format("{} {} is answered: {}", bad.op, bad.args.dump(), answer.result.dump().substr(0, 120)));
  else if (!refuses_bad_value(answer, bad.args))
    report_words(fmt::format("{} {} is refused as '{}', which says nothing of the argument: {}", bad.op,
                             bad.args.dump(), answer.kind, answer.message));
}

void told(Context& context, const Bad& bad) {
  report_words(problem_of_control(context.adapter(), bad.op, bad.args));
  const Answer answer = answer_to(context.adapter(), bad.op, bad.args);
  if (const std::string missing = missing_words(answer.message, bad.words); !missing.empty())
    report_words(
        fmt::format("{} {}: expected {} in the message '{}'", bad.op, bad.args.dump(), missing, answer.message));
}

void refused_places(Context& context) { refused(context, asked(bad_places(), context)); }
void worlds(Context& context) { refused(context, asked(bad_worlds(), context)); }
void places_told(Context& context) { told(context, asked(bad_places(), context)); }
void worlds_told(Context& context) { told(context, asked(bad_worlds(), context)); }

// Full coordinates alone have a rank: each axis is left out once, and all but one.
void partial_coordinates(Context& context) {
  const json full{{"pipe", 1}, {"data", 2}, {"model", 3}};
  std::map<std::string, std::string> told;  // the coordinate of each message: one for all would name all axes
  for (const auto& [axis, position] : full.items()) {
    json coordinate = full;
    coordinate.erase(axis);
    if (context.parameters().text("given") == "one") coordinate = {{axis, position}};
    const Bad bad{"", "topology.query", query("get_rank", coordinate), {}};
    refused(context, bad);
    const Answer answer = answer_to(context.adapter(), bad.op, bad.args);
    for (const auto& [other, unused] : full.items())
      if (!coordinate.contains(other) && !has_word(answer.message, other))
        report_words(fmt::format("get_rank({}): the message does not name the missing axis {}: {}", coordinate.dump(),
                                 other, answer.message));
    if (const auto [same, is_new] = told.emplace(answer.message, coordinate.dump()); !is_new)
      report_words(fmt::format("get_rank({}) and get_rank({}) lack other axes, and are told the same: {}",
                               coordinate.dump(), same->second, answer.message));
  }
}

void unknown_axis(Context& context) {
  const std::string& call = context.parameters().text("call");
  json kwargs{{"axis", "tensor"}};
  if (call == "get_axis_list") kwargs["idx"] = 0;
  refused(context, {"", "topology.query", query(call, kwargs), {}});
}

void unknown_axis_of_deepspeed(Context& context) {
  const std::string& call = context.parameters().text("call");
  json args = query(call, {{"axis", "tensor"}});
  args["convention"] = "deepspeed";
  const json expected = call == "get_dim" ? json(0) : json::array();
  report_words(problem_of(context.adapter(), "topology.query", args, [&](const json& result) {
    return first_difference(expected, result.at("result"), call + "(tensor)");
  }));
}

suite::Axis faults(const std::vector<Bad>& list) {
  suite::Axis axis{"fault", {}};
  for (const Bad& bad : list) axis.values.push_back(bad.fault);
  return axis;
}

suite::Axis faults_with_words(const std::vector<Bad>& list) {
  std::vector<Bad> some = list;
  std::erase_if(some, [](const Bad& bad) { return bad.words.empty(); });
  return faults(some);
}

std::vector<std::string> operations_of(const std::vector<Bad>& list) {
  std::vector<std::string> operations;
  for (const Bad& bad : list)
    if (std::ranges::count(operations, bad.op) == 0) operations.push_back(bad.op);
  return operations;
}

suite::Check refusal_check(std::string id, std::string verifies, suite::Axis axis, std::function<void(Context&)> body,
                           std::vector<std::string> operations = {"topology.query"}, OperationsOfCase asks = {}) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {std::move(axis)},
          .operations = std::move(operations),
          .asks = std::move(asks),
          .body = std::move(body)};
}

}  // namespace

void add_topology_refusal_checks(suite::Suite& suite) {
  std::map<std::string, std::vector<std::string>> by_fault;
  for (const Bad& bad : bad_worlds()) by_fault[bad.fault] = {bad.op};
  const OperationsOfCase asks_world = operations_by("fault", by_fault);
  suite.add(refusal_check("topology.refusals.partial_coordinates", "TOPO-012@6b55", {"given", {"all_but_one", "one"}},
                          partial_coordinates));
  suite.add(refusal_check("topology.refusals.places", "TOPO-013@f506", faults(bad_places()), refused_places));
  suite.add(refusal_check("topology.refusals.places_told", "TOPO-014@edde", faults(bad_places()), places_told));
  suite.add(refusal_check("topology.refusals.worlds", "TOPO-015@501f", faults(bad_worlds()), worlds,
                          operations_of(bad_worlds()), asks_world));
  suite.add(refusal_check("topology.refusals.worlds_told", "TOPO-016@8683", faults_with_words(bad_worlds()),
                          worlds_told, operations_of(bad_worlds()), asks_world));
  suite.add(refusal_check("topology.refusals.unknown_axis", "TOPO-017@304f",
                          {"call", {"get_dim", "get_axis_comm_lists", "get_axis_list"}}, unknown_axis));
  suite::Check lenient = refusal_check("topology.deepspeed.unknown_axis", "TOPO-018@c4b2",
                                       {"call", {"get_dim", "get_axis_comm_lists"}}, unknown_axis_of_deepspeed);
  lenient.convention = "deepspeed";
  suite.add(std::move(lenient));
}

}  // namespace plumbline::conformance
