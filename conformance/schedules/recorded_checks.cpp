// What torch, DeepSpeed, ColossalAI and Megatron-LM planned, as recorded. Cell for cell, refusals by refusals.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

json fields_of(const json& one, std::initializer_list<const char*> names) {
  json fields = json::object();
  for (const char* name : names)
    if (one.contains(name) && !one[name].is_null()) fields[name] = one[name];
  return fields;
}

// Nothing expected: a refusal that says something of the argument.
void ask(Context& context, const char* convention, const std::string& op, json args, const json& expected) {
  args["convention"] = convention;
  const std::string words = op + " " + args.dump().substr(0, 240);
  if (!expected.is_null()) {
    const std::string problem =
        problem_of(context.adapter(), op, args, [&](const json& result) { return first_difference(expected, result); });
    if (!problem.empty()) report_words(words + ": " + problem);
    return;
  }
  const Answer answer = answer_to(context.adapter(), op, args);
  if (!answer.is_refused())
    report_words(words + " is refused in the record, here answered: " + answer.result.dump().substr(0, 120));
  else if (!refuses_bad_value(answer, args))
    report_words(fmt::format("{} is refused as '{}': {}", words, answer.kind, answer.message));
}

// The recorded cases of a kind, with the values that the case of the check names.
std::vector<json> cases_of_kind(Context& context, const char* file, const char* kind) {
  const json record = recorded("schedules", file);
  std::vector<json> cases;
  for (const json& one : record.at("cases")) {
    bool is_meant = one.at("kind") == kind;
    for (const char* field : {"schedule", "style"})
      if (context.parameters().has(field))
        is_meant = is_meant && one.value(field, "") == context.parameters().text(field);
    if (is_meant) cases.push_back(one);
  }
  if (cases.empty()) report_words(fmt::format("no recorded {} in {}", kind, file));
  return cases;
}

// ---- torch ----

void torch_order(Context& context) {
  for (const json& one : cases_of_kind(context, "torch", "schedule"))
    ask(context, "torch", "schedules.generate", fields_of(one, {"schedule", "pp", "microbatches", "stages_per_rank"}),
        fields_of(one, {"compute_only", "stage_to_rank"}));
}
void torch_lowering(Context& context) {
  for (const json& one : cases_of_kind(context, "torch", "schedule"))
    if (one.contains("with_comms"))
      ask(context, "torch", "schedules.lower", fields_of(one, {"compute_only", "stage_to_rank", "num_stages"}),
          fields_of(one, {"with_comms", "send_recv"}));
}
// Of the recorded fields, what one pass makes of the computations.
void torch_passes(Context& context) {
  const char* const field =
      context.parameters().text("pass") == "defer_receives" ? "with_comms_defer_recv" : "merge_bw";
  for (const json& one : cases_of_kind(context, "torch_passes", "schedule"))
    if (one.contains(field))
      ask(context, "torch", "schedules.lower", fields_of(one, {"compute_only", "stage_to_rank", "num_stages"}),
          fields_of(one, {field}));
}
void torch_construction(Context& context) {
  for (const json& one : cases_of_kind(context, "torch", "construct")) {
    json args = fields_of(one, {"schedule", "pp", "microbatches", "stages_per_rank"});
    if (one.contains("error")) {
      ask(context, "torch", "schedules.generate", args, json());
      continue;
    }
    args["convention"] = "torch";
    report_words(problem_of(context.adapter(), "schedules.generate", args, [&](const json& result) -> std::string {
      const auto rows = result.at("compute_only").get<std::vector<std::string>>();
      if (rows.size() != one.at("pp")) return fmt::format("{}: {} rows", args.dump(), rows.size());
      try {
        for (const std::string& row : rows) (void)schedules::parse_row(row);
      } catch (const InvalidArgument& error) {
        return args.dump() + ": " + error.what();
      }
      return {};
    }));
  }
}
void torch_csv(Context& context) {
  const bool is_accepted = context.parameters().text("answer") == "accepted";
  for (const json& one : cases_of_kind(context, "torch", "load_csv"))
    if (one.contains("error") != is_accepted)
      ask(context, "torch", "schedules.load_csv",
          fields_of(one, {"pp", "stages_per_rank", "microbatches", "format", "csv"}),
          is_accepted ? json{{"accepted", true}, {"result", one.at("result")}} : json());
}
// Loaded as computations they are lowered; loaded as what they were lowered to, they stay as they are.
void torch_loading(Context& context) {
  const std::string& format = context.parameters().text("format");
  for (const json& one : cases_of_kind(context, "torch", "schedule")) {
    if (!one.contains("with_comms")) continue;
    json args = fields_of(one, {"pp", "stages_per_rank", "microbatches"});
    args["format"] = format;
    args["csv"] = one.at(format == "compute_only" ? "compute_only" : "with_comms");
    ask(context, "torch", "schedules.load_csv", args,
        {{"accepted", true}, {"result", fields_of(one, {"with_comms", "stage_to_rank"})}});
  }
}
void torch_placement(Context& context) {
  for (const json& one : cases_of_kind(context, "torch", "stage_to_rank"))
    if (one.contains("error") || one.at("result").is_array())
      ask(context, "torch", "schedules.stage_to_rank", fields_of(one, {"pp", "num_stages", "style"}),
          one.contains("error") ? json() : fields_of(one, {"result"}));
}

// ---- DeepSpeed ----

void deepspeed_stream(Context& context, const char* convention, const char* implementation) {
  for (const json& one : cases_of_kind(context, "deepspeed", "instruction_stream"))
    if (one.at("impl").dump().find(implementation) != std::string::npos)
      ask(context, convention, "schedules.instruction_stream", fields_of(one, {"schedule", "pp", "microbatches"}),
          fields_of(one, {"stages"}));
}
void deepspeed_pipelines(Context& context) { deepspeed_stream(context, "deepspeed", "0.19"); }
void deepspeed_06(Context& context) { deepspeed_stream(context, "deepspeed-0.6", "0.6"); }

// ---- ColossalAI and Megatron-LM ----

void traces(Context& context, const char* convention) {
  for (const json& one : cases_of_kind(context, convention, "schedule"))
    ask(context, convention, "schedules.trace",
        fields_of(one, {"schedule", "pp", "microbatches", "stages_per_rank", "tensor_shape_given",
                        "microbatch_group_size", "forward_only"}),
        one.contains("error") ? json() : fields_of(one, {"trace"}));
}
void colossalai_pipelines(Context& context) { traces(context, "colossalai"); }
void megatron(Context& context) { traces(context, "megatron"); }

// A row of _get_1f1b_rank_ops: idle cells for the ranks before it; where it has warmed up, until the first backward can
// come; and before each backward of the end. A rank without a warm-up begins its backwards at once.
std::string interleaved_cells(int ranks, int micro_batches, int chunks, int rank) {
  const int rounds = std::max(1, micro_batches / ranks), of_round = micro_batches / rounds;
  const int all = micro_batches * chunks, first = chunks * ranks + 2 * (ranks - 1 - rank);
  const int before = std::min(all, (chunks - 1) * of_round + 2 * (ranks - 1 - rank));
  std::vector<std::string> cells(static_cast<std::size_t>(rank));
  std::vector<int> forwards(static_cast<std::size_t>(chunks)), backwards = forwards;
  const auto add = [&](char kind, int chunk, std::vector<int>& next) {
    cells.push_back(fmt::format("{}{}{}", chunk * ranks + rank, kind, next[static_cast<std::size_t>(chunk)]++));
  };
  for (int step = 0; step < all + before; ++step) {
    if (step < all)
      add('F', step / of_round % chunks, forwards);
    else
      cells.emplace_back();
    if (step >= before) add('B', chunks - 1 - (step - before) / of_round % chunks, backwards);
    if (step + 1 == before) cells.resize(cells.size() + static_cast<std::size_t>(std::max(0, first - before - rank)));
  }
  return fmt::format("{}", fmt::join(cells, ","));
}

void interleaved_by_rule(Context& context) {
  for (const int chunks : {1, 2, 3})
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (int micro_batches = 1; micro_batches <= 13; ++micro_batches) {
        if (micro_batches % std::max(1, micro_batches / ranks) != 0) continue;
        json rows = json::array();
        for (int rank = 0; rank < ranks; ++rank) rows.push_back(interleaved_cells(ranks, micro_batches, chunks, rank));
        ask(context, "torch", "schedules.generate",
            {{"schedule", context.parameters().text("schedule")},
             {"pp", ranks},
             {"microbatches", micro_batches},
             {"stages_per_rank", chunks}},
            {{"compute_only", rows}});
      }
}

}  // namespace

void add_recorded_schedule_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, const char* operation, const char* convention,
                       suite::Axis axis, void (*body)(Context&)) {
    // What the axis is called is also an option of some operations; torch_lowering is given rows.
    const std::string option =
        (axis.name == "schedule" && operation != std::string_view("lower")) || axis.name == "style" ? axis.name : "";
    suite.add({.id = std::string("schedules.recorded.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {std::move(axis)},
               .operations = {std::string("schedules.") + operation},
               .convention = convention,
               .options = option.empty() ? OptionsOfCase()
                                         : options_of({{std::string("schedules.") + operation, option, {}, option}}),
               .body = body});
  };
  add("torch_order", "SCHED-024@167a", "generate", "torch",
      {"schedule",
       {"ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS",
        "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV"}},
      torch_order);
  add("torch_interleaved", "SCHED-024@167a", "generate", "torch", {"schedule", {"ScheduleInterleaved1F1B"}},
      interleaved_by_rule);
  add("torch_lowering", "SCHED-025@87a7", "lower", "torch",
      {"schedule",
       {"ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble",
        "ScheduleDualPipeV"}},
      torch_lowering);
  add("torch_passes", "SCHED-117@a52d", "lower", "torch", {"pass", {"defer_receives", "merge_backward"}}, torch_passes);
  add("torch_construction", "SCHED-026@07ff", "generate", "torch",
      {"schedule",
       {"ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS",
        "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV"}},
      torch_construction);
  add("torch_csv", "SCHED-027@b847", "load_csv", "torch", {"answer", {"accepted", "refused"}}, torch_csv);
  add("torch_loading", "SCHED-066@a2a7", "load_csv", "torch", {"format", {"compute_only", "compute_comms"}},
      torch_loading);
  add("torch_placement", "SCHED-028@7b41", "stage_to_rank", "torch", {"style", {"loop", "v"}}, torch_placement);
  const suite::Axis streams{"schedule", {"TrainSchedule", "InferenceSchedule"}};
  add("deepspeed", "SCHED-029@6af7", "instruction_stream", "deepspeed", streams, deepspeed_pipelines);
  add("deepspeed_data_parallel", "SCHED-029@6af7", "instruction_stream", "deepspeed",
      {"schedule", {"DataParallelSchedule"}}, deepspeed_pipelines);
  add("deepspeed_06", "SCHED-030@40dd", "instruction_stream", "deepspeed-0.6", streams, deepspeed_06);
  add("colossalai", "SCHED-031@5401", "trace", "colossalai",
      {"schedule", {"PipelineSchedule", "InterleavedPipelineSchedule"}}, colossalai_pipelines);
  add("megatron", "SCHED-032@f804", "trace", "megatron", {"schedule", {"1F1B", "interleaved"}}, megatron);
}

}  // namespace plumbline::conformance
