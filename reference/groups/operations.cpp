#include "reference/adapter/operations.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/groups/colossalai.hpp"
#include "reference/groups/conventions.hpp"
#include "reference/groups/detail/create_operations.hpp"
#include "reference/groups/lint.hpp"
#include "reference/groups/megatron.hpp"

namespace plumbline::adapter {
using groups::Plan;
using nlohmann::json;

namespace {

constexpr int kLargestWorld = 1 << 20;

int read_world_size(const Arguments& arguments) {
  return static_cast<int>(arguments.integer_in("world_size", 1, kLargestWorld));
}

// ColossalAI looks up the fields that it knows, and leaves all others unread.
void leave_others_unread(const Arguments& fields, const json& given) {
  for (const auto& [name, value] : given.items()) (void)fields.has(name);
}

// A size that is a number, or {size}.
int read_size(const Arguments& fields, const char* name, Convention convention) {
  const auto value = fields.find<json>(name);
  if (!value) return 1;
  if (!value->is_object()) return fields.get<int>(name);
  const auto size = fields.get<Arguments>(name);
  if (convention == Convention::colossalai) leave_others_unread(size, *value);
  return size.get<int>("size");
}

// A tensor size, with its mode and depth. ColossalAI takes no plain number, and the word "none" for no mode neither.
void read_tensor(const Arguments& fields, Convention convention, groups::ParallelConfiguration& configuration) {
  const auto value = fields.find<json>("tensor");
  if (!value) return;
  if (convention == Convention::plumbline && value->is_number()) {
    configuration.tensor = fields.get<int>("tensor");
    return;
  }
  const auto tensor = fields.get<Arguments>("tensor");
  configuration.tensor = tensor.get<int>("size");
  const auto mode = tensor.find<std::string>("mode");
  if (convention == Convention::colossalai) {
    if (!mode) return leave_others_unread(tensor, *value);  // it hands the others to the mode's initializer
    if (*mode == "none") fields.refuse("parallel.tensor.mode must be null, 1d, 2d, 2.5d, 3d or sequence, got 'none'");
    if (*mode != "2.5d" && value->contains("depth"))
      fields.refuse(fmt::format("parallel.tensor.depth is of mode 2.5d alone; the mode is {}", *mode));
  }
  configuration.depth = tensor.find<int>("depth");
  if (mode) configuration.mode = groups::parse_tensor_mode(*mode);
}

// A size that is left out is 1. ColossalAI takes null for a size of a type that it does not know.
void refuse_null_sizes(const Arguments& fields, const json& given) {
  for (const char* name : {"pipeline", "tensor"})
    if (const auto size = given.find(name); size != given.end() && size->is_null())
      fields.refuse(fmt::format("parallel.{} must be a number or an object with a size, got null", name));
}

groups::ParallelConfiguration read_parallel(const Arguments& arguments, Convention convention) {
  groups::ParallelConfiguration configuration;
  if (const auto fields = arguments.find<Arguments>("parallel")) {
    if (convention == Convention::colossalai) {
      const auto given = arguments.get<json>("parallel");
      refuse_null_sizes(*fields, given);
      leave_others_unread(*fields, given);
    }
    configuration.pipeline = read_size(*fields, "pipeline", convention);
    read_tensor(*fields, convention, configuration);
  }
  return configuration;
}

json calls_of(const Plan& plan) {
  json calls = json::array();
  for (const groups::Creation& creation : plan.creations) calls.push_back(creation.ranks);
  return calls;
}

// Modes as ColossalAI counts them up, which is not the order in which it makes them.
json counted_modes(std::vector<std::string> modes) {
  const auto row = std::ranges::find(modes, "PARALLEL_2P5D_ROW");
  const auto column = std::ranges::find(modes, "PARALLEL_2P5D_COL");
  if (row != modes.end() && column != modes.end()) std::iter_swap(row, column);
  return modes;
}

json sorted_groups(const Plan& plan) {
  json modes = json::object();
  for (const std::string& mode : groups::modes_of(plan)) {
    auto lists = groups::groups_of(plan, mode);
    std::ranges::sort(lists);
    modes[mode] = std::move(lists);
  }
  return modes;
}

// Each rank is told the whole list of each of its groups.
void check_length(const Arguments& arguments, const Plan& plan) {
  constexpr std::int64_t kMost = 1 << 24;
  std::int64_t told = 0;
  for (const groups::Creation& creation : plan.creations) {
    const auto size = static_cast<std::int64_t>(creation.ranks.size());
    told += size * size;
    if (told > kMost)
      arguments.refuse(
          fmt::format("world_size {} has groups of {} ranks, {} x {} numbers to tell them; at most {} in all",
                      plan.world_size, size, size, size, kMost));
  }
}

json row_of(const Plan& plan, int rank, const std::vector<groups::Membership>& parts) {
  json row = {{"rank", rank}};
  for (const groups::Membership& part : parts)
    row[part.mode] = {{"local_rank", part.local_rank},
                      {"world_size", part.size},
                      {"ranks", plan.creations[static_cast<std::size_t>(part.creation)].ranks},
                      {"new_group_index", part.creation},
                      {"next", part.next},
                      {"prev", part.previous}};
  return row;
}

json parallel_groups(const Arguments& arguments) {
  const Convention convention = arguments.convention();
  const int world_size = read_world_size(arguments);
  const auto configuration = read_parallel(arguments, convention);
  arguments.expect_no_others();
  const Plan plan = groups::colossalai_plan(world_size, configuration);
  check_length(arguments, plan);
  const auto parts = groups::memberships_of(plan);
  json ranks = json::array();
  for (int rank = 0; rank < world_size; ++rank)
    ranks.push_back(row_of(plan, rank, parts[static_cast<std::size_t>(rank)]));
  return {{"data_parallel_size", groups::data_parallel_size(world_size, configuration)},
          {"pipeline_parallel_size", configuration.pipeline},
          {"tensor_parallel_size", configuration.tensor},
          {"initialized_modes", counted_modes(groups::modes_of(plan))},
          {"groups", sorted_groups(plan)},
          {"new_group_calls", calls_of(plan)},
          {"ranks", std::move(ranks)}};
}

json error_row(const Error& error) { return {{"error", {{"kind", error.kind()}, {"message", error.what()}}}}; }

// What a rank gets when it registers a shared module.
json registration(const std::vector<int>& members, const std::vector<int>& stages, Convention convention) {
  const auto rule = convention == Convention::colossalai ? groups::BroadcastSource::stage_as_index
                                                         : groups::BroadcastSource::first_member;
  try {
    return {{"broadcast_src", groups::broadcast_source(members, stages, rule)}};
  } catch (const Error& error) {
    return error_row(error);
  }
}

json shared_module(const Arguments& arguments) {
  const Convention convention = arguments.convention();
  const int world_size = read_world_size(arguments);
  const auto configuration = read_parallel(arguments, convention);
  const auto stages = arguments.get<std::vector<int>>("pipeline_ranks");
  arguments.expect_no_others();
  const Plan plan = groups::shared_module_plan(world_size, configuration, stages);
  check_length(arguments, plan);
  const auto memberships = groups::memberships_of(plan);
  json ranks = json::array();
  for (int rank = 0; rank < world_size; ++rank) {
    const auto& parts = memberships[static_cast<std::size_t>(rank)];
    json row = {{"rank", rank}, {"ranks_in_group", nullptr}, {"new_group_index", nullptr}};
    if (parts.empty()) {
      const int stage = rank / configuration.tensor % configuration.pipeline;
      row["register_module"] =
          error_row(StateError(fmt::format("stage {} is not in pipeline_ranks [{}]", stage, fmt::join(stages, ", "))));
    } else {
      const auto& members = plan.creations[static_cast<std::size_t>(parts.front().creation)].ranks;
      row["ranks_in_group"] = members;
      row["new_group_index"] = parts.front().creation;
      row["register_module"] = registration(members, stages, convention);
    }
    ranks.push_back(std::move(row));
  }
  return {{"new_group_calls", calls_of(plan)}, {"ranks", std::move(ranks)}};
}

// Arguments of Megatron's that decide about other things than groups, or in ways that no value can tell.
void refuse_unsupported(const Arguments& fields) {
  for (const char* name : {"pipeline_model_parallel_comm_backend", "use_sharp", "nccl_communicator_config_path",
                           "distributed_timeout_minutes", "get_embedding_ranks", "get_position_embedding_ranks",
                           "high_priority_stream_groups", "sharp_enabled_group"})
    if (const auto value = fields.find<json>(name); value && *value != json(false))
      throw Unsupported(fmt::format("topology.initialize_model_parallel: argument {} is not supported", name));
}

groups::MegatronArguments read_megatron(const Arguments& fields) {
  groups::MegatronArguments read;
  for (const auto& [name, size] : std::initializer_list<std::pair<const char*, int*>>{
           {"tensor_model_parallel_size", &read.tensor_model_parallel_size},
           {"pipeline_model_parallel_size", &read.pipeline_model_parallel_size},
           {"context_parallel_size", &read.context_parallel_size},
           {"expert_model_parallel_size", &read.expert_model_parallel_size},
           {"gtp_remat_size", &read.gtp_remat_size},
           {"expert_gtp_remat_size", &read.expert_gtp_remat_size},
           {"num_distributed_optimizer_instances", &read.num_distributed_optimizer_instances},
           {"rank_offset", &read.rank_offset}})
    *size = fields.get<int>(name, *size);
  read.virtual_pipeline_model_parallel_size = fields.find<int>("virtual_pipeline_model_parallel_size");
  read.expert_tensor_parallel_size = fields.find<int>("expert_tensor_parallel_size");
  read.hierarchical_context_parallel_sizes =
      fields.get<std::vector<int>>("hierarchical_context_parallel_sizes", std::vector<int>{});
  read.hybrid_context_parallel = fields.get<bool>("hybrid_context_parallel", false);
  read.create_gloo_process_groups = fields.get<bool>("create_gloo_process_groups", false);
  read.order = fields.get<std::string>("order", read.order);
  refuse_unsupported(fields);
  return read;
}

json getters_of(const groups::MegatronRank& rank) {
  return {{"rank", rank.rank},
          {"get_tensor_model_parallel_rank", rank.tensor_rank},
          {"get_tensor_model_parallel_world_size", rank.tensor_size},
          {"get_pipeline_model_parallel_rank", rank.pipeline_rank},
          {"get_pipeline_model_parallel_world_size", rank.pipeline_size},
          {"get_data_parallel_rank", rank.data_rank},
          {"get_data_parallel_world_size", rank.data_size},
          {"get_context_parallel_rank", rank.context_rank},
          {"get_context_parallel_world_size", rank.context_size},
          {"get_expert_model_parallel_rank", rank.expert_rank},
          {"get_expert_model_parallel_world_size", rank.expert_size},
          {"get_expert_tensor_parallel_rank", rank.expert_tensor_rank},
          {"get_tensor_model_parallel_src_rank", rank.tensor_source},
          {"get_model_parallel_src_rank", rank.model_source},
          {"get_data_parallel_src_rank", rank.data_source},
          {"get_pipeline_model_parallel_first_rank", rank.pipeline_first},
          {"get_pipeline_model_parallel_last_rank", rank.pipeline_last},
          {"get_pipeline_model_parallel_next_rank", rank.pipeline_next},
          {"get_pipeline_model_parallel_prev_rank", rank.pipeline_previous},
          {"is_pipeline_first_stage", rank.first_stage},
          {"is_pipeline_last_stage", rank.last_stage},
          {"is_rank_in_embedding_group", rank.in_embedding_group},
          {"is_rank_in_position_embedding_group", rank.in_position_embedding_group}};
}

json named_calls_of(const Plan& plan) {
  json calls = json::array();
  for (const groups::Creation& creation : plan.creations) calls.push_back(json::array({creation.mode, creation.ranks}));
  return calls;
}

json initialize_model_parallel(const Arguments& arguments) {
  int world_size = read_world_size(arguments);
  groups::MegatronArguments read;
  if (const auto fields = arguments.find<Arguments>("args")) {
    read = read_megatron(*fields);
    world_size = fields->get<int>("local_world_size", world_size);
    if (std::int64_t{world_size} + read.rank_offset > kLargestWorld)
      arguments.refuse(fmt::format("local_world_size {} + rank_offset {} is more than {} ranks", world_size,
                                   read.rank_offset, kLargestWorld));
  }
  arguments.expect_no_others();
  const Plan plan = groups::megatron_plan(world_size, read);
  json ranks = json::array();
  for (const groups::MegatronRank& rank : groups::megatron_ranks(plan)) ranks.push_back(getters_of(rank));
  return {{"new_group_calls", named_calls_of(plan)}, {"ranks", std::move(ranks)}};
}

groups::CreationLog read_creations(const Arguments& arguments) {
  if (const auto log = arguments.find<std::string>("log")) {
    if (arguments.has("creations")) arguments.refuse("log and creations exclude each other");
    return groups::parse_creation_log(
        *log, arguments.has("world_size") ? std::optional(read_world_size(arguments)) : std::nullopt);
  }
  const auto creations = arguments.get<std::vector<Arguments>>("creations");
  int world_size = arguments.has("world_size") ? read_world_size(arguments) : 0;
  const int largest = (world_size > 0 ? world_size : kLargestWorld) - 1;
  const bool is_open = world_size == 0;
  std::vector<groups::LoggedCreation> lines;
  for (const Arguments& fields : creations) {
    groups::LoggedCreation line{.line = lines.size() + 1, .rank = 0, .sequence = {}, .creation = {}};
    line.rank = static_cast<int>(fields.integer_in("rank", 0, largest));
    if (fields.has("sequence"))
      line.sequence = fields.integer_in("sequence", 0, std::numeric_limits<std::int64_t>::max());
    line.creation = {.mode = fields.get<std::string>("mode", ""), .ranks = fields.get<std::vector<int>>("ranks")};
    if (is_open)
      for (const int member : line.creation.ranks) world_size = std::max(world_size, std::min(member, largest) + 1);
    lines.push_back(std::move(line));
  }
  return groups::in_order(std::move(lines), world_size);
}

json lint(const Arguments& arguments) {
  groups::LintOptions options;
  options.rule = arguments.choice<groups::CreationRule>(
      "rule", {{"all_ranks", groups::CreationRule::all_ranks}, {"members_only", groups::CreationRule::members_only}},
      groups::CreationRule::all_ranks);
  for (auto& mode : arguments.get<std::vector<std::string>>("partial_modes", std::vector<std::string>{}))
    options.partial_modes.insert(std::move(mode));
  const groups::CreationLog log = read_creations(arguments);
  arguments.expect_no_others();
  const groups::LintReport report = groups::lint(log, options);
  json findings = json::array();
  for (const groups::Finding& finding : report.findings)
    findings.push_back({{"severity", groups::name_of(finding.severity)},
                        {"kind", finding.kind},
                        {"rank", finding.rank},
                        {"sequence", finding.sequence < 0 ? json() : json(finding.sequence)},
                        {"message", finding.message}});
  return {{"valid", report.valid()}, {"findings", std::move(findings)}};
}

json conventions(const Arguments& arguments) {
  const auto fields = arguments.get<Arguments>("sizes");
  const groups::Sizes sizes{.pipeline = fields.get<int>("pipeline", 1),
                            .data = fields.get<int>("data", 1),
                            .tensor = fields.get<int>("tensor", 1),
                            .world = fields.find<int>("world")};
  std::int64_t ranks = 1;
  for (const int size : {sizes.pipeline, sizes.data, sizes.tensor})
    ranks = std::min(ranks * std::max(size, 1), std::int64_t{kLargestWorld} + 1);
  if (ranks > kLargestWorld)
    arguments.refuse(fmt::format("pipeline {} x data {} x tensor {} is more than {} ranks", sizes.pipeline, sizes.data,
                                 sizes.tensor, kLargestWorld));
  const auto names = arguments.get<std::vector<std::string>>("conventions", std::vector<std::string>{});
  arguments.expect_no_others();
  const std::vector<std::string_view> asked(names.begin(), names.end());
  const groups::Comparison comparison = groups::compare_conventions(sizes, asked);
  json modes = json::array();
  for (const groups::ModeComparison& mode : comparison.modes) {
    json agreements = json::array();
    for (const groups::Agreement& agreement : mode.agreements)
      agreements.push_back({{"conventions", agreement.conventions}, {"groups", agreement.groups}});
    modes.push_back({{"mode", mode.mode}, {"differs", mode.differs()}, {"agreements", std::move(agreements)}});
  }
  json plans = json::array();
  for (const Plan& plan : comparison.plans)
    plans.push_back({{"convention", plan.convention}, {"new_group_calls", named_calls_of(plan)}});
  return {{"modes", std::move(modes)}, {"plans", std::move(plans)}, {"same_order", comparison.same_order}};
}

}  // namespace

void add_group_operations(AdapterService& service) {
  add_create_operations(service);
  const Words colossalai{"plumbline", "colossalai"};
  const ArgumentRow world{"world_size", "integer", "number of ranks, 1 to 2^20"};
  const ArgumentRow parallel = with_fields(
      {"parallel", "object", "sizes of the parallelisms; what is left out has size 1", kOptional},
      {{"pipeline", "any", "pipeline stages: an integer, or an object with size", kOptional},
       {"pipeline.size", "integer", "pipeline stages"},
       {"pipeline.*", "any", "ignored", kOptional, {}, {"colossalai"}},
       {"tensor", "any", "tensor parallelism: an object; in convention plumbline also an integer", kOptional},
       {"tensor.size", "integer", "tensor-parallel ranks"},
       {"tensor.mode", "text", "1d, 2d, 2.5d, 3d or sequence; in convention plumbline also none", kOptional},
       {"tensor.depth", "integer", "depth of mode 2.5d", kOptional},
       {"tensor.*", "any", "ignored where mode is null", kOptional, {}, {"colossalai"}},
       {"*", "any", "ignored", kOptional, {}, {"colossalai"}}});
  const ResultRow calls{"new_group_calls", "list of list of integer", "groups in creation order"};
  const ResultRow named_calls{"new_group_calls", "list of any", "pairs of description and ranks, in creation order"};
  const RefusalRow bad_sizes{"invalid_argument",
                             "the parallelisms do not divide world_size, or the tensor size does not suit its mode"},
      no_mode{"not_found", "a tensor mode has another name"};
  service.add(
      {"groups.conventions",
       "compares the groups that several conventions make of the same sizes",
       {"plumbline"},
       {with_fields({"sizes", "object", "sizes of the parallelisms"},
                    {{"pipeline", "integer", "pipeline stages", "1"},
                     {"data", "integer", "data-parallel replicas", "1"},
                     {"tensor", "integer", "tensor-parallel ranks", "1"},
                     {"world", "integer", "ranks of the world; null: their product", kOptional}}),
        {"conventions", "list of text", "conventions to compare; null: all", kOptional}},
       {{"modes",
         "list of object",
         "each parallel mode",
         {{"mode", "text", "its name"},
          {"differs", "boolean", "conventions disagree about its groups"},
          {"agreements",
           "list of object",
           "conventions that agree, and their groups",
           {{"conventions", "list of text", "that agree"}, {"groups", "list of list of integer", "their groups"}}}}},
        {"plans",
         "list of object",
         "each convention's creations",
         {{"convention", "text", "its name"},
          {"new_group_calls", "list of any", "pairs of mode and ranks, in creation order"}}},
        {"same_order", "boolean", "all create their groups in the same order"}},
       R"({"sizes": {"pipeline": 2, "data": 2}, "conventions": ["megatron", "colossalai"]})",
       {{"invalid_argument", "a size is below 1, or their product is not world or exceeds 2^20"},
        {"unsupported", "conventions names one that the operation does not have"}}},
      conventions);
  service.add(
      {"groups.lint",
       "checks logged group creations for hangs",
       {"plumbline"},
       {with_fields({"creations", "list of object", "the creations, in order; required without log", kOptional},
                    {{"rank", "integer", "rank that makes the call"},
                     {"ranks", "list of integer", "ranks of the new group"},
                     {"mode", "text", "what the group is for", R"("")"},
                     {"sequence", "integer", "position in the calls of its rank; null: order of the list", kOptional}}),
        {"log", "text", "the creations as JSON Lines, in place of creations", kOptional},
        {"rule", "text", "who must call: all_ranks or members_only", R"("all_ranks")"},
        {"world_size", "integer", "number of ranks, 1 to 2^20; null: the largest rank + 1", kOptional},
        {"partial_modes", "list of text", "modes that may leave ranks out", kOptional}},
       {{"valid", "boolean", "no finding is an error"},
        {"findings",
         "list of object",
         "what is wrong",
         {{"severity", "text", "error or warning"},
          {"kind", "text", "the rule that is broken"},
          {"rank", "integer or null", "rank concerned"},
          {"sequence", "integer or null", "position in its calls"},
          {"message", "text", "the finding in words"}}}},
       R"({"world_size": 2, "creations": [{"rank": 0, "ranks": [0, 1], "mode": "data"}]})",
       {{"invalid_argument",
         "a rank or sequence does not exist, a rank has a sequence twice, or a line of log is bad"}},
       {{"creations", "creations"}, {"log", "log"}}},
      lint);
  service.add({"groups.parallel_groups",
               "the process groups of a parallel configuration",
               colossalai,
               {world, parallel},
               {{"data_parallel_size", "integer", "data-parallel replicas"},
                {"pipeline_parallel_size", "integer", "pipeline stages"},
                {"tensor_parallel_size", "integer", "tensor-parallel ranks"},
                {"initialized_modes", "list of text", "modes that have groups"},
                {"groups", "map of list of list of integer", "groups by mode, sorted"},
                calls,
                {"ranks",
                 "list of object [world_size]",
                 "each rank's groups by mode",
                 {{"rank", "integer", "the rank"},
                  {"*", "object", "its group of the mode of that name"},
                  {"*.local_rank", "integer", "its position in the group"},
                  {"*.world_size", "integer", "size of the group"},
                  {"*.ranks", "list of integer", "ranks of the group"},
                  {"*.new_group_index", "integer", "index in new_group_calls"},
                  {"*.next", "integer", "rank after it, cyclically"},
                  {"*.prev", "integer", "rank before it, cyclically"}}}},
               R"({"world_size": 4, "parallel": {"pipeline": 2}})",
               {bad_sizes, {"invalid_argument", "the groups have more than 2^24 entries in all"}, no_mode}},
              parallel_groups);
  service.add({"groups.shared_module",
               "the groups of pipeline stages that share a module",
               colossalai,
               {world, parallel, {"pipeline_ranks", "list of integer", "stages that share it, at least 2"}},
               {calls,
                {"ranks",
                 "list of object [world_size]",
                 "each rank's part",
                 {{"rank", "integer", "the rank"},
                  {"ranks_in_group", "any", "ranks of its group, or null"},
                  {"new_group_index", "any", "index in new_group_calls, or null"},
                  {"register_module", "object",
                   "broadcast_src, the rank whose values are broadcast; or error, with kind and message"}}}},
               R"({"world_size": 4, "parallel": {"pipeline": 4}, "pipeline_ranks": [0, 3]})",
               {bad_sizes,
                {"invalid_argument", "fewer than 2 stages share the module, or one is named twice"},
                {"out_of_range", "a stage does not exist"},
                no_mode}},
              shared_module);
  const auto number = [](const char* name, const char* what) { return ArgumentRow{name, "integer", what, "1"}; };
  const auto never = [](const char* name) {
    return ArgumentRow{name, "any", "not supported: must be null or false", kOptional};
  };
  service.add(
      {"topology.initialize_model_parallel",
       "the groups that Megatron-core's initialize_model_parallel creates",
       {"plumbline", "megatron"},
       {world,
        with_fields({"args", "object", "its arguments by name", kOptional},
                    {number("tensor_model_parallel_size", "tensor-parallel ranks"),
                     number("pipeline_model_parallel_size", "pipeline stages"),
                     {"virtual_pipeline_model_parallel_size", "integer", "stages of each pipeline rank", kOptional},
                     number("context_parallel_size", "context-parallel ranks"),
                     {"hierarchical_context_parallel_sizes", "list of integer",
                      "sizes of the levels of context parallelism", kOptional},
                     {"hybrid_context_parallel", "boolean", "make the groups of hybrid context parallelism", "false"},
                     number("expert_model_parallel_size", "expert-parallel ranks"),
                     {"expert_tensor_parallel_size", "integer",
                      "tensor-parallel ranks of experts; null: tensor_model_parallel_size", kOptional},
                     number("gtp_remat_size", "ranks that share recomputation"),
                     number("expert_gtp_remat_size", "the same, of experts"),
                     number("num_distributed_optimizer_instances", "instances of the distributed optimizer"),
                     {"create_gloo_process_groups", "boolean", "make groups of gloo as well", "false"},
                     {"order", "text", "parallelisms joined by -, the fastest-varying first", R"("tp-cp-ep-dp-pp")"},
                     {"rank_offset", "integer", "the first rank", "0"},
                     {"local_world_size", "integer", "ranks from rank_offset on; null: world_size", kOptional},
                     never("pipeline_model_parallel_comm_backend"),
                     never("use_sharp"),
                     never("nccl_communicator_config_path"),
                     never("distributed_timeout_minutes"),
                     never("get_embedding_ranks"),
                     never("get_position_embedding_ranks"),
                     never("high_priority_stream_groups"),
                     never("sharp_enabled_group")})},
       {named_calls,
        {"ranks",
         "list of object",
         "each rank's getters of parallel_state by name",
         {{"rank", "integer", "the rank"}, {"*", "any", "return value of the getter of that name"}}}},
       R"({"world_size": 2, "args": {"tensor_model_parallel_size": 2}})",
       {{"invalid_argument",
         "the parallelisms do not divide the world, an order repeats or lacks a name, or there are more than 2^20 "
         "ranks"},
        {"not_found", "the order names another parallelism"},
        {"unsupported", "an argument is given that does not decide about groups"}}},
      initialize_model_parallel);
}

}  // namespace plumbline::adapter
