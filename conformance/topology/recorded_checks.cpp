// What DeepSpeed, Megatron-LM and torch answered, as recorded. Numbers and lists exactly, refusals by their kind.
#include <map>

#include <fmt/format.h>

#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

json fields_of(const json& one, std::initializer_list<const char*> names) {
  json fields = json::object();
  for (const char* name : names) fields[name] = one.at(name);
  return fields;
}

json without(json fields, const char* name) {
  fields.erase(name);
  return fields;
}

// One question of a recorded case. Nothing expected: a refusal.
struct Recorded {
  std::string op;
  json args;
  json expected;
};

void ask(suite::Adapter& adapter, const std::string& convention, Recorded question) {
  question.args["convention"] = convention;
  const std::string words = question.op + " " + question.args.dump().substr(0, 240);
  if (!question.expected.is_null()) {
    const std::string problem = problem_of(adapter, question.op, question.args, [&](const json& result) {
      return first_difference(question.expected, result);
    });
    if (!problem.empty()) report_words(words + ": " + problem);
    return;
  }
  const Answer answer = answer_to(adapter, question.op, question.args);
  if (!answer.is_refused())
    report_words(
        fmt::format("{} is refused in the record, here answered: {}", words, answer.result.dump().substr(0, 120)));
  else if (!refuses_bad_value(answer, question.args))
    report_words(fmt::format("{} is refused as '{}', which says nothing of the argument: {}", words, answer.kind,
                             answer.message));
}

bool is_refused(const json& one) { return one.contains("error"); }

// ---- DeepSpeed ----

Recorded topology_question(const json& one) {
  json args = fields_of(one, {"axes", "dims"});
  for (const json& query : one.at("filter_match")) args["filter_match"].push_back(without(query, "ranks"));
  for (const json& query : one.at("rank_repr")) args["rank_repr"].push_back(without(query, "repr"));
  return {"topology.process_topology", args,
          fields_of(one, {"world_size", "coords", "rank_of_coord", "get_dim", "axis_comm_lists", "axis_list",
                          "filter_match", "rank_repr"})};
}

Recorded grid_question(const json& one) {
  json args = fields_of(one, {"world_size", "axes", "dims"});
  if (one.at("topology").is_null()) args["axes"] = args["dims"] = nullptr;
  return {"topology.grid", args,
          fields_of(one, {"pipe_parallel_size", "data_parallel_size", "model_parallel_size", "slice_parallel_size",
                          "p2p_groups", "new_group_calls", "ranks"})};
}

json on(const json& axes, const json& dims, const char* call, const json& kwargs = json::object()) {
  return {{"axes", axes}, {"dims", dims}, {"call", call}, {"kwargs", kwargs}};
}

// The questions of the cases that are recorded as calls.
const std::map<std::string, Recorded>& corners() {
  static const json axes{"pipe", "data", "model"}, dims{2, 3, 4};
  static const std::string query = "topology.query", grid = "topology.grid";
  static const auto grid_args = [](int world, const json& names, const json& sizes) -> json {
    return {{"world_size", world}, {"axes", names}, {"dims", sizes}};
  };
  static const std::map<std::string, Recorded> table{
      {"get_rank missing axis", {query, on(axes, dims, "get_rank", {{"pipe", 0}, {"data", 1}}), {}}},
      {"get_rank no axes", {query, on(axes, dims, "get_rank"), {}}},
      {"get_rank out of range", {query, on(axes, dims, "get_rank", {{"pipe", 2}, {"data", 0}, {"model", 0}}), {}}},
      {"get_rank negative", {query, on(axes, dims, "get_rank", {{"pipe", -1}, {"data", 0}, {"model", 0}}), {}}},
      {"get_rank wrong axis name, right count",
       {query, on(axes, dims, "get_rank", {{"pipe", 0}, {"data", 0}, {"tensor", 0}}), {}}},
      {"get_rank too many axes",
       {query, on(axes, dims, "get_rank", {{"pipe", 0}, {"data", 0}, {"model", 0}, {"x", 0}}), {}}},
      {"get_coord out of range", {query, on(axes, dims, "get_coord", {{"rank", 24}}), {}}},
      {"get_coord negative", {query, on(axes, dims, "get_coord", {{"rank", -1}}), {}}},
      {"get_axis_list bad axis", {query, on(axes, dims, "get_axis_list", {{"axis", "x"}, {"idx", 0}}), {}}},
      {"get_axis_list index out of range is empty",
       {query, on(axes, dims, "get_axis_list", {{"axis", "data"}, {"idx", 3}}), {}}},
      {"get_axis_comm_lists bad axis is empty", {query, on(axes, dims, "get_axis_comm_lists", {{"axis", "x"}}), {}}},
      {"get_dim bad axis is 0", {query, on(axes, dims, "get_dim", {{"axis", "x"}}), {}}},
      {"filter_match bad axis", {query, on(axes, dims, "filter_match", {{"x", 0}}), {}}},
      {"filter_match no criteria is all", {query, on(axes, dims, "filter_match"), {}}},
      {"get_rank_repr bad rank", {query, on(axes, dims, "get_rank_repr", {{"rank", 24}}), {}}},
      {"get_rank_repr all omitted is empty",
       {query, on(axes, dims, "get_rank_repr", {{"rank", 99}, {"omit_axes", axes}}), {}}},
      {"duplicate axes", {query, on({"a", "a"}, {2, 2}, "world_size"), {}}},
      {"axis name not an identifier", {query, on(json::array({"1x"}), json::array({2}), "world_size"), {}}},
      {"more axes than dims", {query, on({"a", "b"}, json::array({2}), "world_size"), {}}},
      {"more dims than axes", {query, on(json::array({"a"}), {2, 3}, "world_size"), {}}},
      {"zero dim", {query, on({"a", "b"}, {2, 0}, "world_size"), {}}},
      {"negative dim", {query, on({"a", "b"}, {2, -1}, "world_size"), {}}},
      {"no axes", {query, on(json::array(), json::array(), "world_size"), {}}},
      {"grid: world smaller than topology", {grid, grid_args(3, {"pipe", "data"}, {2, 2}), {}}},
      {"grid: world larger than topology", {grid, grid_args(8, {"pipe", "data"}, {2, 2}), {}}},
      {"grid: no data axis", {grid, grid_args(4, json::array({"pipe"}), json::array({4})), {}}},
      {"grid: no pipe axis", {grid, grid_args(4, {"data", "model"}, {2, 2}), {}}},
      {"grid: stage_to_global out of range",
       {query, on({"pipe", "data"}, {2, 2}, "stage_to_global", {{"rank", 0}, {"stage_id", 2}}), {}}},
      {"grid: stage_to_global override of an absent axis",
       {query, on({"pipe", "data"}, {2, 2}, "stage_to_global", {{"rank", 0}, {"stage_id", 0}, {"model", 0}}), {}}},
      {"grid: stage_to_global override of pipe",
       {query, on({"pipe", "data"}, {2, 2}, "stage_to_global", {{"rank", 0}, {"stage_id", 0}, {"pipe", 1}}), {}}},
      {"prime_factors(0)", {"topology.prime_factors", {{"n", 0}}, {}}},
      {"prime_factors(-3)", {"topology.prime_factors", {{"n", -3}}, {}}},
  };
  return table;
}

void deepspeed(Context& context) {
  const std::string& kind = context.parameters().text("kind");
  const json record = recorded("topology", "deepspeed");
  for (const json& one : record.at("cases")) {
    if (one.at("kind") != kind) continue;
    if (kind == "prime_factors")
      for (const json& asked : one.at("factors"))
        ask(context.adapter(), "deepspeed",
            {"topology.prime_factors", fields_of(asked, {"n"}), fields_of(asked, {"factors"})});
    else
      ask(context.adapter(), "deepspeed", kind == "process_topology" ? topology_question(one) : grid_question(one));
  }
}

void deepspeed_corners(Context& context) {
  const json record = recorded("topology", "deepspeed");
  for (const json& one : record.at("cases")) {
    const auto corner = corners().find(one.value("name", ""));
    if (corner == corners().end()) continue;  // another kind, or several getters in one expression
    Recorded question = corner->second;
    if (!is_refused(one)) question.expected = fields_of(one, {"result"});
    ask(context.adapter(), "deepspeed", question);
  }
}

// ---- Megatron-LM ----

void megatron_orders(Context& context) {
  const json record = recorded("topology", "megatron_core");
  for (const json& one : record.at("cases")) {
    if (one.at("kind") != "rank_generator") continue;
    json args = fields_of(one, {"sizes", "order", "rank_offset"});
    args["tokens"] = json::array({"tp"});
    if (is_refused(one)) {
      ask(context.adapter(), "megatron", {"topology.rank_generator", args, {}});
      continue;
    }
    args["tokens"] = json::array();
    for (const auto& [tokens, groups] : one.at("groups").items()) args["tokens"].push_back(tokens);
    ask(context.adapter(), "megatron",
        {"topology.rank_generator", args,
         fields_of(one, {"normalized_order", "ordered_size", "world_size", "groups"})});
  }
}

void megatron(Context& context, const char* kind, const std::string& op, std::initializer_list<const char*> inputs,
              std::initializer_list<const char*> outputs) {
  const json record = recorded("topology", "megatron_core");
  for (const json& one : record.at("cases"))
    if (one.at("kind") == kind)
      ask(context.adapter(), "megatron",
          {op, fields_of(one, inputs), is_refused(one) ? json() : fields_of(one, outputs)});
}

void megatron_groups(Context& context) {
  megatron(context, "initialize_model_parallel", "topology.initialize_model_parallel", {"world_size", "args"},
           {"new_group_calls", "ranks"});
}

void megatron_spans(Context& context) {
  megatron(context, "hyper_comm_grid", "topology.hyper_comm_grid", {"shape", "dim_names", "world_size", "rank_offset"},
           {"groups"});
}

// ---- torch ----

// The meshes of the cases that are recorded by their names.
const std::map<std::string, json>& refused_meshes() {
  static const auto mesh = [](const json& shape, const json& names, const json& slices) -> json {
    return {{"shape", shape}, {"dim_names", names}, {"slices", slices}};
  };
  static const std::map<std::string, json> table{
      {"duplicate names", mesh({2, 2}, {"a", "a"}, json::array())},
      {"names shorter than shape", mesh({2, 2}, json::array({"a"}), json::array())},
      {"slice by unknown name", mesh({2, 2}, {"a", "b"}, json::array({"c"}))},
      {"slice out of order", mesh({2, 2, 2}, {"a", "b", "c"}, json::array({"c-a"}))},
  };
  return table;
}

void torch_meshes(Context& context) {
  const json record = recorded("topology", "torch_device_mesh");
  for (const json& one : record.at("cases")) {
    if (one.at("kind") == "device_mesh") {
      json args = fields_of(one, {"shape", "dim_names"});
      args["slices"] = json::array();
      for (const auto& [slice, ranks] : one.at("ranks").at(0).at("slices").items()) args["slices"].push_back(slice);
      ask(context.adapter(), "torch", {"topology.device_mesh", args, fields_of(one, {"mesh", "groups", "ranks"})});
    } else if (const auto found = refused_meshes().find(one.at("name")); found != refused_meshes().end()) {
      ask(context.adapter(), "torch", {"topology.device_mesh", found->second, {}});
    }
  }
}

suite::Check recorded_check(std::string convention, std::string id, std::string verifies,
                            std::vector<std::string> operations, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {},
          .operations = std::move(operations),
          .convention = std::move(convention),
          .body = std::move(body)};
}

}  // namespace

void add_recorded_checks(suite::Suite& suite) {
  suite::Check deepspeed_check =
      recorded_check("deepspeed", "topology.deepspeed.recorded", "TOPO-045@1993",
                     {"topology.process_topology", "topology.prime_factors", "topology.grid"}, deepspeed);
  deepspeed_check.axes = {{"kind", {"process_topology", "prime_factors", "pipeline_parallel_grid"}}};
  deepspeed_check.asks = operations_by("kind", {{"process_topology", {"topology.process_topology"}},
                                                {"prime_factors", {"topology.prime_factors"}},
                                                {"pipeline_parallel_grid", {"topology.grid"}}});
  suite.add(std::move(deepspeed_check));
  suite.add(recorded_check("deepspeed", "topology.deepspeed.corners", "TOPO-046@ca17",
                           {"topology.query", "topology.prime_factors", "topology.grid"}, deepspeed_corners));
  suite.add(recorded_check("megatron", "topology.megatron.orders", "TOPO-047@aaa3", {"topology.rank_generator"},
                           megatron_orders));
  suite.add(recorded_check("megatron", "topology.megatron.all_groups", "TOPO-048@db3c",
                           {"topology.initialize_model_parallel"}, megatron_groups));
  suite.add(recorded_check("megatron", "topology.megatron.spans", "TOPO-049@59de", {"topology.hyper_comm_grid"},
                           megatron_spans));
  suite.add(recorded_check("torch", "topology.torch.meshes", "TOPO-050@7d1c", {"topology.device_mesh"}, torch_meshes));
}

}  // namespace plumbline::conformance
