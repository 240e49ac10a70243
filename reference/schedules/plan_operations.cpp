// schedules.stage_to_rank, generate, load_csv, lower, defer_receives, instruction_stream, trace.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/adapter/operations.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/deepspeed_stream.hpp"
#include "reference/schedules/detail/operation_costs.hpp"
#include "reference/schedules/detail/torch_csv.hpp"
#include "reference/schedules/detail/traces.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::adapter {

using nlohmann::json;
using schedules::Schedule;
using schedules::ScheduleKind;
using schedules::Shape;

namespace {

constexpr std::int64_t kMostStages = 1 << 20;  // whose times are read one by one
Shape read_shape(const Arguments& arguments) {
  return {.ranks = arguments.get<int>("pp"),
          .micro_batches = arguments.get<int>("microbatches"),
          .stages_per_rank = arguments.get<int>("stages_per_rank", 1)};
}

json rows_of(const Schedule& schedule) {
  json rows = json::array();
  for (const auto& actions : schedule.ranks) rows.push_back(schedules::to_csv(actions));
  return rows;
}

json stage_to_rank(const Arguments& arguments) {
  const auto style = arguments.choice<schedules::Placement>(
      "style", {{"loop", schedules::Placement::loop}, {"v", schedules::Placement::v}});
  return {{"result", schedules::stage_to_rank(arguments.get<int>("pp"), arguments.get<int>("num_stages"), style)}};
}

ScheduleKind read_schedule_kind(const Arguments& arguments) {
  return schedules::schedule_kind_of(arguments.get<std::string>("schedule"));
}

// What it is made for: equal times, free messages and any memory unless told.
json automatic(const Arguments& arguments) {
  const Shape shape = read_shape(arguments);
  schedules::AutomaticOptions options;
  if (arguments.has("durations")) {
    const std::int64_t stages = std::int64_t{shape.ranks} * shape.stages_per_rank;
    options.costs.stages.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(stages, 1, kMostStages)));
    read_durations(arguments, options.costs.stages, [](schedules::ActionKind) { return false; });
  }
  read_messages(arguments, options.costs);
  if (arguments.has("memory_limit"))
    options.activation_limits = arguments.get<json>("memory_limit").is_array()
                                    ? arguments.get<std::vector<int>>("memory_limit")
                                    : std::vector<int>{arguments.get<int>("memory_limit")};
  arguments.expect_no_others();
  const schedules::AutomaticSchedule found = schedules::automatic(shape, options);
  return {{"compute_only", rows_of(found.schedule)},
          {"stage_to_rank", found.schedule.stage_to_rank},
          {"makespan", found.makespan},
          {"lower_bound", found.lower_bound},
          {"made_by", found.made_by}};
}

json generate(const Arguments& arguments) {
  const ScheduleKind schedule_kind = read_schedule_kind(arguments);
  if (schedule_kind == ScheduleKind::automatic && arguments.convention() == Convention::plumbline)
    return automatic(arguments);
  const Schedule schedule = arguments.convention() == Convention::torch
                                ? schedules::generate_as_torch(schedule_kind, read_shape(arguments))
                                : schedules::generate(schedule_kind, read_shape(arguments));
  return {{"compute_only", rows_of(schedule)}, {"stage_to_rank", schedule.stage_to_rank}};
}

json load_csv(const Arguments& arguments) {
  const bool computations_only =
      arguments.choice<bool>("format", {{"compute_only", true}, {"compute_comms", false}}, true);
  const Schedule schedule = schedules::load_torch_csv(arguments.get<std::vector<std::string>>("csv"),
                                                      read_shape(arguments), computations_only);
  const Schedule lowered = computations_only ? schedules::lower_as_torch(schedule) : schedule;
  return {{"accepted", true},
          {"result", {{"with_comms", rows_of(lowered)}, {"stage_to_rank", schedule.stage_to_rank}}}};
}

// A schedule of computations, whose micro-batches are counted.
Schedule read_schedule(const Arguments& arguments) {
  Schedule schedule{.stages = arguments.get<int>("num_stages"),
                    .micro_batches = 1,
                    .stage_to_rank = arguments.get<std::vector<int>>("stage_to_rank"),
                    .ranks = {}};
  for (const std::string& row : arguments.get<std::vector<std::string>>("compute_only"))
    schedule.ranks.push_back(schedules::parse_row(row, static_cast<int>(schedule.ranks.size()) + 1));
  std::int64_t computations = 0, last = 0;
  for (const auto& actions : schedule.ranks)
    for (const schedules::Action& action : actions) {
      computations += schedules::is_compute(action.kind) ? 1 : 0;
      last = std::max<std::int64_t>(last, action.micro_batch);
    }
  if (last >= std::max<std::int64_t>(computations, 1))
    arguments.refuse(fmt::format("compute_only has a micro-batch {}, but {} computations", last, computations));
  schedule.micro_batches = static_cast<int>(last) + 1;
  return schedule;
}

bool is_idle(const schedules::Action& action) { return action.kind == schedules::ActionKind::idle; }

// PyTorch lowers no rank that computes nothing.
void require_computations(const Arguments& arguments, const Schedule& schedule) {
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    if (std::ranges::all_of(schedule.ranks[rank], is_idle))
      arguments.refuse(fmt::format("compute_only[{}] has no computation", rank));
}

// Whether the rows, idle cells included, are those of one of PyTorch's schedules of several stages a rank.
bool are_rows_of_torch(const Schedule& schedule) {
  const auto ranks = static_cast<int>(schedule.ranks.size());
  if (ranks == 0 || schedule.stages <= ranks || schedule.stages % ranks != 0) return false;
  const schedules::Shape shape{
      .ranks = ranks, .micro_batches = schedule.micro_batches, .stages_per_rank = schedule.stages / ranks};
  const auto is_of = [&](schedules::ScheduleKind schedule_kind) {
    const schedules::ScheduleTraits& traits = schedules::traits_of(schedule_kind);
    if (traits.torch.empty() || traits.usual_stages_per_rank == 1) return false;
    try {
      const Schedule own = schedules::generate_as_torch(schedule_kind, shape);
      return own.stage_to_rank == schedule.stage_to_rank && own.ranks == schedule.ranks;
    } catch (const InvalidArgument&) {  // it does not have the shape
      return false;
    }
  };
  return std::ranges::any_of(schedules::schedule_kinds(), is_of);
}

// What the operation means by default is what the caller would get from PyTorch 2.13, which has two ways: a schedule
// of its own goes through its runtime, whose UNSHARD pass drops idle cells before _add_send_recv; rows of one's own
// are given to _add_send_recv itself, to which an idle cell is a step. The rows alone do not tell the two apart, so
// the choice is this operation's and no rule of the lowering.
bool drops_idle_cells(const Arguments& arguments, const Schedule& schedule) {
  enum class Idle { steps, dropped };
  const auto asked =
      arguments.has("idle")
          ? std::optional(arguments.choice<Idle>("idle", {{"steps", Idle::steps}, {"dropped", Idle::dropped}}))
          : std::nullopt;
  if (asked) return *asked == Idle::dropped;
  const bool has_idle =
      std::ranges::any_of(schedule.ranks, [](const auto& row) { return std::ranges::any_of(row, is_idle); });
  return has_idle && are_rows_of_torch(schedule);
}

json lower(const Arguments& arguments) {
  using schedules::Metadata;
  const Schedule schedule = read_schedule(arguments);
  const int active = arguments.get<int>("max_active_stages", 3);
  if (active < 1) arguments.refuse(fmt::format("max_active_stages is {}; it must be at least 1", active));
  if (arguments.convention() == Convention::torch) {
    require_computations(arguments, schedule);
    const bool drops_idle = drops_idle_cells(arguments, schedule);
    const Schedule lowered = schedules::lower_as_torch(schedule, active);
    return {{"with_comms", rows_of(lowered)},
            {"with_comms_defer_recv", rows_of(schedules::defer_receives(lowered))},
            {"send_recv", rows_of(schedules::add_send_recv(drops_idle ? schedules::without_idle(schedule) : schedule))},
            {"merge_bw", rows_of(schedules::merge_backward_halves(schedule))}};
  }
  const auto metadata = arguments.choice<Metadata>(
      "metadata", {{"none", Metadata::none}, {"once", Metadata::once}, {"each", Metadata::each}}, Metadata::none);
  const auto most = arguments.find<int>("max_outstanding_sends");
  const auto lowered = [&](const Schedule& computations) {
    const Schedule messages = schedules::lower(computations, metadata);
    return rows_of(most ? schedules::add_send_waits(messages, *most) : messages);
  };
  json send_recv = lowered(schedule);  // first: its errors name positions in the rows that were given
  const Schedule sharded = schedules::add_reduce_gradients(schedules::add_unshard_reshard(schedule, active));
  return {{"with_comms", lowered(sharded)}, {"send_recv", std::move(send_recv)}};
}

json defer_receives(const Arguments& arguments) {
  Schedule schedule;
  schedule.stages = arguments.get<int>("num_stages");
  schedule.stage_to_rank = arguments.get<std::vector<int>>("stage_to_rank");
  for (const std::string& row : arguments.get<std::vector<std::string>>("ranks")) {
    schedule.ranks.push_back(schedules::parse_row(row, static_cast<int>(schedule.ranks.size()) + 1));
    for (const schedules::Action& action : schedule.ranks.back())
      schedule.micro_batches = std::max(schedule.micro_batches, action.micro_batch + 1);
  }
  return {{"ranks", rows_of(schedules::defer_receives(schedule))}};
}

json instruction_stream(const Arguments& arguments) {
  using schedules::StreamKind, schedules::StreamOrder;
  const auto order =
      arguments.convention() == Convention::deepspeed_0_6 ? StreamOrder::deepspeed06 : StreamOrder::deepspeed;
  const auto kind = arguments.choice<StreamKind>("schedule", {{"TrainSchedule", StreamKind::train},
                                                              {"InferenceSchedule", StreamKind::inference},
                                                              {"DataParallelSchedule", StreamKind::data_parallel}});
  json stages = json::array();
  for (const schedules::InstructionStream& stream :
       schedules::deepspeed_streams(kind, arguments.get<int>("pp"), arguments.get<int>("microbatches"), order))
    stages.push_back({{"stage", stream.stage},
                      {"num_pipe_buffers", stream.num_pipe_buffers},
                      {"is_first_stage", stream.is_first_stage},
                      {"is_last_stage", stream.is_last_stage},
                      {"steps", stream.steps}});
  return {{"stages", std::move(stages)}};
}

// Each framework has a name for one stage a rank and one for several.
void require_name(const Arguments& arguments, const Shape& shape, std::string_view single, std::string_view several) {
  const auto name = arguments.get<std::string>("schedule");
  if (name != (shape.stages_per_rank == 1 ? single : several))
    arguments.refuse(fmt::format("schedule is {} for one stage a rank and {} for several, got '{}' with {}", single,
                                 several, name, shape.stages_per_rank));
}

json trace(const Arguments& arguments) {
  const Shape shape = read_shape(arguments);
  const bool forward_only = arguments.get<bool>("forward_only", false);
  schedules::Trace rows;
  if (arguments.convention() == Convention::colossalai) {
    require_name(arguments, shape, "PipelineSchedule", "InterleavedPipelineSchedule");
    rows = schedules::colossalai_trace(shape, forward_only, arguments.get<bool>("tensor_shape_given", true));
  } else {
    require_name(arguments, shape, "1F1B", "interleaved");
    rows = schedules::megatron_trace(shape, forward_only, arguments.get<int>("microbatch_group_size", shape.ranks));
  }
  json joined = json::array();
  for (const auto& cells : rows) joined.push_back(fmt::format("{}", fmt::join(cells, ",")));
  return {{"trace", std::move(joined)}};
}

}  // namespace

Words own_schedules() {
  Words names;
  for (const ScheduleKind schedule_kind : schedules::schedule_kinds()) names.emplace_back(name_of(schedule_kind));
  return names;
}

void add_schedule_plan_operations(AdapterService& service) {
  const Words both{"plumbline", "torch"}, ours{"plumbline"};
  Words generated = own_schedules();
  std::ranges::move(schedules::torch_class_names(), std::back_inserter(generated));
  const ArgumentRow pp{"pp", "integer", "pipeline ranks"},
      micro_batches{"microbatches", "integer", "micro-batches of a step"},
      chunks{"stages_per_rank", "integer", "stages of each rank", "1"}, stages{"num_stages", "integer", "stages"},
      computations{"compute_only", "list of text [ranks]", "CSV row of each rank's computations, as 0F0,0B0"},
      durations = with_fields(
          {"durations", "object", "of auto: times of the kinds of computation", kOptional, {}, ours}, duration_rows());
  const ResultRow places{"stage_to_rank", "list of integer [stages]", "rank of each stage"};
  const RefusalRow bad_shape{"invalid_argument", "the schedule does not have the shape, or a size is below 1"},
      bad_row{"invalid_argument", "a row is malformed; the message names line and column"},
      bad_places{"invalid_argument", "stage_to_rank does not place num_stages stages on the ranks"};
  service.add({"schedules.stage_to_rank",
               "places stages on ranks",
               both,
               {pp, stages, {"style", "text", "order of ranks along the stages", kRequired, {"loop", "v"}}},
               {{"result", "list of integer [num_stages]", "rank of each stage"}},
               R"({"pp": 2, "num_stages": 4, "style": "v"})",
               {{"invalid_argument", "num_stages is no multiple of pp, or a size is below 1"}}},
              stage_to_rank);
  service.add({"schedules.generate",
               "generates the computations of a schedule",
               both,
               {{"schedule", "text", "its name, or PyTorch's class", kRequired, generated},
                pp,
                micro_batches,
                chunks,
                durations,
                {"latency", "number [s]", "of auto: of a message", kOptional, {}, ours},
                {"bandwidth", "number [bytes/s]", "of auto: of a link", kOptional, {}, ours},
                {"message_bytes",
                 "number or list of number [bytes]",
                 "of auto: of every message, or of each stage boundary",
                 kOptional,
                 {},
                 ours},
                {"memory_limit",
                 "integer or list of integer",
                 "of auto: activations that every rank, or each, may keep",
                 kOptional,
                 {},
                 ours}},
               {{"compute_only", "list of text [pp]", "CSV row of each rank's computations"},
                places,
                {"makespan", "number [s]", "of auto: time of a step"},
                {"lower_bound", "number [s]", "of auto: no schedule is shorter"},
                {"made_by", "text", "of auto: the rule that found it"}},
               R"({"schedule": "1f1b", "pp": 2, "microbatches": 3})",
               {bad_shape,
                {"not_found", "the schedule does not exist"},
                {"unsupported", "PyTorch has no such schedule (convention torch)"}}},
              generate);
  service.add({"schedules.load_csv",
               "reads a schedule from CSV as PyTorch does",
               both,
               {{"csv", "list of text [ranks]", "row of each rank"},
                {"format", "text", "compute_only, or compute_comms for rows with communication", R"("compute_only")"},
                pp,
                micro_batches,
                chunks},
               {{"accepted", "boolean", "true; a rejected schedule is an error"},
                {"result",
                 "object",
                 "the schedule",
                 {{"with_comms", "list of text [pp]", "CSV row of each rank with communication"}, places}}},
               R"({"csv": ["0F0,0B0"], "pp": 1, "microbatches": 1})",
               {bad_row, bad_shape, {"invalid_argument", "the rows are not a schedule of that shape"}}},
              load_csv);
  service.add(
      {"schedules.lower",
       "adds communication to the computations of a schedule",
       both,
       {computations,
        {"stage_to_rank", "list of integer [num_stages]", "rank of each stage"},
        stages,
        {"idle",
         "text",
         "of send_recv: steps counts idle cells as steps, dropped removes them first; null: dropped of "
         "PyTorch's own schedules",
         kOptional,
         {},
         {"torch"}},
        {"metadata", "text", "shape messages before tensors: none, once or each", R"("none")", {}, ours},
        {"max_outstanding_sends", "integer", "sends in flight before a wait; null: unlimited", kOptional, {}, ours},
        {"max_active_stages", "integer", "of with_comms: stages of a rank that are unsharded at a time", "3"}},
       {{"send_recv", "list of text [ranks]", "rows with sends and receives"},
        {"with_comms", "list of text [ranks]", "rows with unshard, reshard and gradient reduction as well"},
        {"with_comms_defer_recv", "list of text [ranks]", "of torch: with_comms with receives as late as possible"},
        {"merge_bw", "list of text [ranks]", "of torch: adjacent I and W of a backward merged"}},
       R"({"compute_only": ["0F0,0B0", "1F0,1B0"], "stage_to_rank": [0, 1], "num_stages": 2})",
       {bad_row,
        bad_places,
        {"invalid_argument",
         "the computations are incomplete, repeated or cannot be ordered, or max_outstanding_sends or "
         "max_active_stages is below 1"}}},
      lower);
  service.add(
      {"schedules.defer_receives",
       "moves the receives of a schedule that has messages to where PyTorch's ranks must post them",
       {"torch"},
       {{"ranks", "list of text [ranks]", "CSV row of each rank, with sends and receives"},
        {"stage_to_rank", "list of integer [num_stages]", "rank of each stage"},
        stages},
       {{"ranks", "list of text [ranks]", "the rows with receives as late as possible"}},
       R"({"convention": "torch", "ranks": ["0F0,0SEND_F0", "1RECV_F0,1UNSHARD,1F0"], "stage_to_rank": [0, 1], "num_stages": 2})",
       {bad_row, bad_places, {"invalid_argument", "no computation uses what is received"}}},
      defer_receives);
  service.add({"schedules.instruction_stream",
               "DeepSpeed's instructions of each stage",
               {"plumbline", "deepspeed", "deepspeed-0.6"},
               {{"schedule",
                 "text",
                 "DeepSpeed's class",
                 kRequired,
                 {"TrainSchedule", "InferenceSchedule", "DataParallelSchedule"}},
                pp,
                micro_batches},
               {{"stages",
                 "list of object [pp]",
                 "each stage's stream",
                 {{"stage", "integer", "the stage"},
                  {"num_pipe_buffers", "integer", "buffers it needs"},
                  {"is_first_stage", "boolean", "it is the first stage"},
                  {"is_last_stage", "boolean", "it is the last stage"},
                  {"steps", "list of any", "instructions of each step"}}}},
               R"({"schedule": "TrainSchedule", "pp": 2, "microbatches": 1})",
               {{"invalid_argument", "a size is below 1, or too large to answer"}}},
              instruction_stream);
  service.add({"schedules.trace",
               "the computations and messages of each rank as a framework issues them",
               {"plumbline", "colossalai", "megatron"},
               {{"schedule",
                 "text",
                 "1F1B, or PipelineSchedule in convention colossalai; of several stages a rank interleaved, or "
                 "InterleavedPipelineSchedule",
                 kRequired,
                 {"1F1B", "interleaved", "PipelineSchedule", "InterleavedPipelineSchedule"}},
                pp,
                micro_batches,
                chunks,
                {"forward_only", "boolean", "without backward passes", "false"},
                {"tensor_shape_given", "boolean", "shapes are known, so that none is sent", "true", {}, {"colossalai"}},
                {"microbatch_group_size",
                 "integer",
                 "micro-batches of a virtual pipeline group; null: pp",
                 kOptional,
                 {},
                 {"plumbline", "megatron"}}},
               {{"trace", "list of text [pp]", "row of each rank, cells separated by commas"}},
               R"({"schedule": "1F1B", "pp": 2, "microbatches": 2})",
               {bad_shape, {"invalid_argument", "the name does not suit stages_per_rank"}}},
              trace);
}

}  // namespace plumbline::adapter
