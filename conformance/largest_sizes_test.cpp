// How large the largest question of each sized check is, as counted in the question itself. An operation of the adapter
// door without such a check, a check without a row and a row whose number is no longer asked fail.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/suite.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "harness/subject/adapter/declared.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const std::unique_ptr<suite::Suite> suite = make_suite();
  return *suite;
}

namespace {

using nlohmann::json;
using testing::IsEmpty;

// ---- the table ----

struct Largest {
  const char* check;    // after "<component>.sizes."
  const char* counted;  // a name of counts()
  std::int64_t size;
};

const std::map<std::string, std::vector<Largest>>& largest() {
  static const std::map<std::string, std::vector<Largest>> table{
      {"topology",
       {
           {"device_mesh", "ranks", 720},
           {"device_mesh_torch", "ranks", 720},
           {"mesh_of_ranks", "ranks", 720},
           {"mesh_of_ranks_torch", "ranks", 720},
           {"grid", "ranks", 4096},
           {"grid_deepspeed", "ranks", 720},
           {"hyper_comm_grid", "ranks", 65'536},
           {"hyper_comm_grid_megatron", "ranks", 65'536},
           {"initialize_model_parallel", "ranks", 4096},
           {"initialize_model_parallel_megatron", "ranks", 4096},
           {"placement", "ranks", 65'536},
           {"prime_factors", "the number", 2'147'483'647},
           {"prime_factors_deepspeed", "the number", 2'147'395'600},
           {"process_topology", "ranks", 65'536},
           {"process_topology_deepspeed", "ranks", 65'536},
           {"query", "ranks", 65'536},
           {"query_deepspeed", "ranks", 4096},
           {"rank_generator", "ranks", 65'536},
           {"rank_generator_megatron", "ranks", 65'536},
       }},
      {"groups",
       {
           {"conventions", "ranks", 65'536},
           {"lint", "creations", 32'768},
           {"lint_fault", "creations", 32'768},
           {"expert_groups", "ranks", 65'536},
           {"expert_groups_deepspeed", "ranks", 65'536},
           {"parallel_groups", "ranks", 2744},
           {"parallel_groups_colossalai", "ranks", 2744},
           {"shared_module", "ranks", 2744},
           {"shared_module_colossalai", "ranks", 2744},
       }},
      {"schedules",
       {
           {"check", "actions", 131'072},
           {"check_early", "actions", 65'536},
           {"check_lost", "actions", 65'535},
           {"count_layer_params", "layers", 10'000},
           {"defer_receives_torch", "actions", 194'560},
           {"generate", "ranks x micro-batches x chunks", 262'144},
           {"generate_kept", "ranks x micro-batches x chunks", 98'304},
           {"generate_others", "ranks x micro-batches x chunks", 10'952},
           {"generate_others_torch", "ranks x micro-batches x chunks", 10'952},
           {"generate_torch", "ranks x micro-batches x chunks", 32'768},
           {"instruction_stream", "ranks x micro-batches x chunks", 32'768},
           {"instruction_stream_deepspeed", "ranks x micro-batches x chunks", 32'768},
           {"instruction_stream_deepspeed_0_6", "ranks x micro-batches x chunks", 32'768},
           {"load_csv", "actions", 65'536},
           {"load_csv_torch", "actions", 65'536},
           {"lower", "actions", 131'072},
           {"lower_torch", "actions", 131'072},
           {"partition_balanced", "items", 10'007},
           {"partition_balanced_colossalai", "items", 10'007},
           {"partition_balanced_deepspeed", "items", 512},
           {"partition_balanced_deepspeed_0_6", "items", 10'007},
           {"partition_costs", "ranks x micro-batches x chunks", 32'768},
           {"partition_counted", "layers", 12'286},
           {"partition_counted_megatron", "layers", 12'286},
           {"partition_measured", "layers", 10'007},
           {"partition_method_colossalai", "layers", 10'007},
           {"partition_method_deepspeed", "layers", 512},
           {"partition_method_deepspeed_0_6", "layers", 10'007},
           {"partition_optimal", "items", 10'007},
           {"partition_uniform", "items", 100'003},
           {"partition_uniform_colossalai", "items", 100'002},
           {"partition_uniform_deepspeed", "items", 100'003},
           {"partition_uniform_deepspeed_0_6", "items", 100'003},
           {"pipeline_layout_megatron", "layers", 8189},
           {"simulate", "actions", 131'072},
           {"slots", "actions", 65'536},
           {"stage_to_rank", "stages", 4096},
           {"stage_to_rank_torch", "stages", 4096},
           {"table", "micro-batches x chunks", 65'536},
           {"table_megatron", "micro-batches x chunks", 65'536},
           {"trace", "ranks x micro-batches x chunks", 32'768},
           {"trace_chunks", "ranks x micro-batches x chunks", 10'952},
           {"trace_chunks_colossalai", "ranks x micro-batches x chunks", 10'952},
           {"trace_chunks_megatron", "ranks x micro-batches x chunks", 10'952},
           {"trace_colossalai", "ranks x micro-batches x chunks", 32'768},
           {"trace_megatron", "ranks x micro-batches x chunks", 32'768},
           {"warmup", "ranks", 16'384},
           {"warmup_megatron", "ranks", 16'384},
       }},
      {"bucketing",
       {
           {"agree", "gradients of all ranks", 9134},
           {"assign", "gradients", 100'000},
           {"assign_torch", "gradients", 100'000},
           {"capacity_config", "caps", 10'000},
           {"capacity_config_torch", "caps", 10'000},
           {"check", "gradients", 100'000},
           {"check_overlap", "gradients", 20'000},
           {"ddp_runs", "gradients", 100'000},
           {"ddp_runs_torch", "gradients", 20'000},
           {"equal_buckets", "buckets", 100'000},
           {"exposed", "buckets", 20'000},
           {"flatten", "gradients", 100'000},
           {"flatten_colossalai", "gradients", 100'000},
           {"buffers", "gradients", 100'000},
           {"buffers_megatron", "gradients", 100'000},
           {"layout", "gradients", 100'000},
           {"layout_megatron", "gradients", 100'000},
           {"read", "gradients", 20'000},
           {"read_megatron", "gradients", 20'000},
           {"read_paddle", "gradients", 20'000},
           {"read_torch", "gradients", 20'000},
           {"reduce", "gradients", 5000},
       }},
      {"pass",
       {
           {"dp_pass", "ops", 10'003},
           {"dp_pass_paddle", "ops", 4003},
           {"race_check", "ops", 10'004},
           {"race_check_one", "ops", 10'000},
       }},
      {"gossip",
       {
           {"blocking", "nodes", 1024},
           {"blocking_fairscale", "nodes", 1024},
           {"graph", "nodes", 1'000'002},
           {"graph_fairscale", "nodes", 334},
           {"simulate", "nodes", 65'536},
           {"spectrum", "nodes", 1024},
           {"topology", "nodes", 1024},
           {"topology_bluefog", "nodes", 1024},
           {"trace", "nodes", 64},
           {"trace_fairscale", "nodes", 64},
           {"turns_bluefog", "nodes", 1024},
       }},
      {"scaler",
       {
           {"clip_grad_norm", "elements", 100'000},
           {"clip_grad_norm_ranks", "elements", 80'016},
           {"clip_grad_norm_ranks_colossalai", "elements", 80'016},
           {"clip_grad_norm_torch", "elements", 100'000},
           {"found_inf", "ranks", 65'536},
           {"found_inf_colossalai", "ranks", 65'536},
           {"fp16_optimizer", "ranks x steps", 9600},
           {"fp16_optimizer_colossalai", "ranks x steps", 9600},
           {"overflow", "ranks", 65'536},
           {"overflow_deepspeed", "ranks", 4096},
           {"total_norm", "elements", 100'000},
           {"total_norm_torch", "elements", 100'000},
           {"trace", "steps or operations", 30'001},
           {"trace_colossalai", "steps or operations", 30'000},
           {"trace_deepspeed", "steps or operations", 30'000},
           {"trace_megatron", "steps or operations", 30'000},
           {"trace_torch", "steps or operations", 30'001},
       }},
      {"slowmo",
       {
           {"trace", "ranks x steps", 3968},
           {"trace_averages", "ranks x steps", 3968},
           {"trace_fairscale", "ranks x steps", 3968},
       }},
      {"collectives",
       {
           {"calls", "calls x elements of all ranks", 640'000},
           {"calls_many", "calls x elements of all ranks", 75'000},
           {"ring_sum_gloo", "ranks x elements", 1'200'000},
       }},
  };
  return table;
}

// ---- what is counted ----

std::int64_t product(const json& numbers) {
  std::int64_t all = 1;
  for (const json& number : numbers) all *= number.get<std::int64_t>();
  return all;
}
std::int64_t length(const json& list) { return static_cast<std::int64_t>(list.size()); }
std::int64_t cells(const json& rows) {
  std::int64_t count = 0;
  for (const json& row : rows) {
    const auto& text = row.get_ref<const std::string&>();
    count += 1 + std::ranges::count(text, ',');
  }
  return count;
}
std::int64_t sum_of(const json& list, const std::function<std::int64_t(const json&)>& of) {
  std::int64_t count = 0;
  for (const json& one : list) count += of(one);
  return count;
}

using Count = std::function<std::int64_t(const json& args)>;
Count field(const char* name) {
  return [name](const json& args) { return args.at(name).get<std::int64_t>(); };
}
Count length_of(const char* name) {
  return [name](const json& args) { return length(args.at(name)); };
}
Count product_of(const char* name) {
  return [name](const json& args) { return product(args.at(name)); };
}
Count cells_of(const char* name) {
  return [name](const json& args) { return cells(args.at(name)); };
}
std::int64_t computations(const json& args) {
  return args.at("pp").get<std::int64_t>() * args.at("microbatches").get<std::int64_t>() *
         args.value("stages_per_rank", 1);
}
std::int64_t program_ops(const json& args) { return length(args.at("program").at("ops")); }

// By operation; what a row of the table calls it.
const std::map<std::string, std::pair<std::string, Count>>& counts() {
  static const std::map<std::string, std::pair<std::string, Count>> table{
      {"topology.process_topology", {"ranks", product_of("dims")}},
      {"topology.query", {"ranks", product_of("dims")}},
      {"topology.prime_factors", {"the number", field("n")}},
      {"topology.grid", {"ranks", field("world_size")}},
      {"topology.rank_generator", {"ranks", product_of("sizes")}},
      {"topology.hyper_comm_grid", {"ranks", product_of("shape")}},
      {"topology.device_mesh", {"ranks", product_of("shape")}},
      {"topology.mesh_of_ranks", {"ranks", product_of("shape")}},
      {"topology.placement", {"ranks", product_of("dims")}},
      {"topology.initialize_model_parallel", {"ranks", field("world_size")}},
      {"groups.expert_groups", {"ranks", field("world_size")}},
      {"groups.parallel_groups", {"ranks", field("world_size")}},
      {"groups.shared_module", {"ranks", field("world_size")}},
      {"groups.conventions", {"ranks", product_of("sizes")}},
      {"groups.lint", {"creations", length_of("creations")}},
      {"schedules.partition_uniform", {"items", field("num_items")}},
      {"schedules.partition_balanced", {"items", length_of("weights")}},
      {"schedules.partition_optimal", {"items", length_of("weights")}},
      {"schedules.partition_method", {"layers", length_of("layers")}},
      {"schedules.pipeline_layout", {"layers", field("num_layers")}},
      {"schedules.partition_counted", {"layers", field("num_layers")}},
      {"schedules.partition_measured", {"layers", length_of("layers")}},
      {"schedules.partition_costs", {"ranks x micro-batches x chunks", computations}},
      {"schedules.count_layer_params", {"layers", length_of("layers")}},
      {"schedules.stage_to_rank", {"stages", field("num_stages")}},
      {"schedules.generate", {"ranks x micro-batches x chunks", computations}},
      {"schedules.lower", {"actions", cells_of("compute_only")}},
      {"schedules.load_csv", {"actions", cells_of("csv")}},
      {"schedules.instruction_stream", {"ranks x micro-batches x chunks", computations}},
      {"schedules.trace", {"ranks x micro-batches x chunks", computations}},
      {"schedules.table",
       {"micro-batches x chunks",
        [](const json& args) { return field("microbatches")(args) * field("stages_per_rank")(args); }}},
      {"schedules.warmup", {"ranks", field("pp")}},
      {"schedules.slots", {"actions", cells_of("ranks")}},
      {"schedules.defer_receives", {"actions", cells_of("ranks")}},
      {"schedules.check", {"actions", cells_of("ranks")}},
      {"schedules.simulate", {"actions", cells_of("ranks")}},
      {"bucketing.assign", {"gradients", length_of("numel")}},
      {"bucketing.capacity_config", {"caps", length_of("bucket_cap_mb_list")}},
      {"bucketing.ddp_runs", {"gradients", length_of("numel")}},
      {"bucketing.layout", {"gradients", length_of("numel")}},
      {"bucketing.buffers", {"gradients", length_of("numel")}},
      {"bucketing.flatten", {"gradients", length_of("numel")}},
      {"bucketing.check", {"gradients", length_of("gradients")}},
      {"bucketing.reduce", {"gradients", length_of("numel")}},
      {"bucketing.read", {"gradients", length_of("gradients")}},
      {"bucketing.exposed", {"buckets", [](const json& args) { return length(args.at("plan").at("buckets")); }}},
      {"bucketing.equal_buckets",
       {"buckets", [](const json& args) { return args.at("buckets").back().get<std::int64_t>(); }}},
      {"bucketing.agree",
       {"gradients of all ranks",
        [](const json& args) {
          return sum_of(args.at("ranks"), [](const json& rank) { return length(rank.at("gradients")); });
        }}},
      {"bucketing.dp_pass", {"ops", program_ops}},
      {"bucketing.race_check", {"ops", program_ops}},
      {"gossip.graph", {"nodes", field("world_size")}},
      {"gossip.blocking", {"nodes", field("world_size")}},
      {"gossip.trace", {"nodes", field("world_size")}},
      {"gossip.topology", {"nodes", [](const json& args) { return args.at("args").at("size").get<std::int64_t>(); }}},
      {"gossip.turns", {"nodes", field("size")}},
      {"gossip.spectrum", {"nodes", field("world_size")}},
      {"gossip.simulate", {"nodes", field("world_size")}},
      {"scaler.trace",
       {"steps or operations",
        [](const json& args) {
          for (const char* name : {"ops", "found_inf", "overflow"})
            if (args.contains(name)) return length(args.at(name));
          return std::int64_t{0};
        }}},
      {"scaler.found_inf", {"ranks", field("world_size")}},
      {"scaler.fp16_optimizer",
       {"ranks x steps", [](const json& args) { return field("world_size")(args) * length(args.at("steps")); }}},
      {"scaler.clip_grad_norm",
       {"elements",
        [](const json& args) {
          if (args.contains("grads")) return sum_of(args.at("grads"), length);
          return sum_of(args.at("ranks"), [](const json& rank) { return sum_of(rank.at("grads"), length); });
        }}},
      {"scaler.overflow", {"ranks", length_of("ranks")}},
      {"scaler.total_norm",
       {"elements",
        [](const json& args) {
          return sum_of(args.at("parts"), [](const json& part) { return sum_of(part, length); });
        }}},
      {"slowmo.trace",
       {"ranks x steps", [](const json& args) { return field("world_size")(args) * length(args.at("steps")); }}},
      {"comm.ring_sum",
       {"ranks x elements", [](const json& args) { return field("world_size")(args) * field("elements")(args); }}},
      {"comm.calls",
       {"calls x elements of all ranks",
        [](const json& args) { return length(args.at("calls")) * sum_of(args.at("memory"), length); }}},
  };
  return table;
}

// Asks the reference, and keeps the largest size of each operation.
class Measuring final : public suite::Adapter {
 public:
  json ask(const std::string& op, const json& args) override {
    std::int64_t& size = sizes[op];
    size = std::max(size, counts().at(op).second(args));
    return reference_adapter().ask(op, args);
  }
  [[nodiscard]] const std::set<std::string>& operations() const override { return reference_adapter().operations(); }
  std::map<std::string, std::int64_t> sizes;
};

std::vector<const suite::Check*> sized_checks() {
  std::vector<const suite::Check*> checks;
  for (const suite::Check& check : suite_under_test().checks())
    if (check.id.find(".sizes.") != std::string::npos) checks.push_back(&check);
  return checks;
}

// Their rows bound what is asked, and have no checks of growing sizes yet: for each, a question that is too large, its
// bound in the error, and in the row.
struct Beyond {
  json args;
  std::string bound, in_row;
};
const std::map<std::string, Beyond>& bounded_by_their_rows() {
  const auto repeated = [](int count, const json& one) {
    return json(std::vector<json>(static_cast<std::size_t>(count), one));
  };
  json groups = json::array();
  for (int i = 0; i <= 256; ++i) groups.push_back({{"mode", std::to_string(i)}, {"ranks", {0}}});
  static const std::map<std::string, Beyond> all{
      {"gossip.rounds",
       {{{"world_size", 2},
         {"phone_book", {{1}, {0}}},
         {"rounds", 1000},
         {"dtypes", repeated(525, "float64")},
         {"values", repeated(2, repeated(525, json::array()))}},
        "1048576",
        "2^20"}},
      {"groups.create", {{{"world_size", 1}, {"plans", json::array({groups})}}, "256", "256"}},
      {"schedules.execute",
       {{{"ranks", {""}},
         {"stage_to_rank", {0}},
         {"weights", {1}},
         {"inputs", {{1}, {1}}},
         {"elements", (1 << 19) + 1}},
        "1048576",
        "2^20"}},
      {"schedules.send_tensors", {{{"outputs", repeated(65, json::array())}}, "64", "64"}},
      {"scaler.unscale",
       {{{"grads", repeated(2, json::array())}, {"inverse", 1}, {"elements", {(1 << 22) - 1, 2}}}, "4194304", "2^22"}},
      {"slowmo.average",
       {{{"world_size", 1},
         {"levels", repeated(1, {{"period", 1}, {"group_size", 1}})},
         {"values", json::array({json::array()})},
         {"calls", (1 << 20) + 1}},
        "1048576",
        "2^20"}}};
  return all;
}

TEST(LargestSizes, AreBoundedByRowsThatSaySo) {
  for (const auto& [operation, beyond] : bounded_by_their_rows()) {
    const Answer answer = answer_to(reference_adapter(), operation, beyond.args);
    EXPECT_EQ(answer.kind, "invalid_argument") << operation;
    EXPECT_THAT(answer.message, testing::HasSubstr(beyond.bound)) << operation;
    const auto& arguments = subject::operation_table().operations().at(operation).row.arguments;
    EXPECT_TRUE(std::ranges::any_of(arguments,
                                    [&](const auto& one) { return one.what.find(beyond.in_row) != std::string::npos; }))
        << operation << " states no limit of " << beyond.in_row;
  }
}

TEST(LargestSizes, EveryOperationHasACheck) {
  std::set<std::string> missing = reference_adapter().operations();
  for (const auto& [operation, beyond] : bounded_by_their_rows()) EXPECT_EQ(missing.erase(operation), 1u) << operation;
  for (const suite::Check* check : sized_checks())
    for (const std::string& operation : check->operations) missing.erase(operation);
  EXPECT_THAT(missing, IsEmpty());
}

// The sizes of a check's cases, by what else the cases are told apart by: "schedule=1f1b", or nothing.
std::map<std::string, std::vector<std::int64_t>> sizes_of(const suite::Check& check) {
  std::map<std::string, std::vector<std::int64_t>> sizes;
  for (const suite::Case& one : suite::cases_of(check)) {
    std::string choice;
    for (const auto& [name, value] : one.parameters.all())
      if (name != "size") choice += fmt::format("{}={}", name, value);
    sizes[choice].push_back(one.parameters.number("size"));
  }
  return sizes;
}

// A lie may begin anywhere between a toy and real use.
TEST(LargestSizes, AreReachedInSteps) {
  for (const suite::Check* check : sized_checks())
    for (const auto& [choice, sizes] : sizes_of(*check)) {
      ASSERT_GE(sizes.size(), 3u) << check->id << ' ' << choice;
      for (std::size_t i = 1; i < sizes.size(); ++i) EXPECT_GT(sizes[i], sizes[i - 1]) << check->id << ' ' << choice;
      EXPECT_LE(8 * sizes.front(), sizes.back()) << check->id << ' ' << choice;
    }
}

TEST(LargestSizes, AreThoseOfTheTable) {
  std::map<std::string, Largest> rows;
  for (const auto& [component, list] : largest())
    for (const Largest& row : list)
      EXPECT_TRUE(rows.emplace(component + ".sizes." + row.check, row).second) << row.check;
  for (const suite::Check* check : sized_checks()) {
    Measuring adapter;
    const std::vector<suite::Case> cases = suite::cases_of(*check);
    for (const suite::Case& one : cases)
      if (one.parameters.number("size") == cases.back().parameters.number("size")) {
        EXPECT_THAT(run_in_process(one, adapter), IsEmpty()) << one.id();
      }
    const std::string& operation = check->operations.front();
    const auto row = rows.find(check->id);
    const std::string measured = fmt::format("\"{}\", {}", counts().at(operation).first, adapter.sizes[operation]);
    if (row == rows.end()) {
      ADD_FAILURE() << check->id << " has no row: {" << measured << "}";
      continue;
    }
    EXPECT_EQ(fmt::format("\"{}\", {}", row->second.counted, row->second.size), measured) << check->id;
    rows.erase(row);
  }
  for (const auto& [id, row] : rows) ADD_FAILURE() << id << " is no check";
}

}  // namespace
}  // namespace plumbline::conformance
