// Schedules that an adapter executes, with stages that multiply: sums of one device, in the order of the rows, on long
// messages and short ones; and what cannot be executed. Outputs of stages that it sends to the next one.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Adapter;
using suite::Context;
using suite::Door;

namespace {

constexpr const char* kExecute = "schedules.execute";
constexpr const char* kSendTensors = "schedules.send_tensors";

constexpr const char* kWeightGradients = "SCHED-050@793c";
constexpr const char* kComesToItsEnd = "SCHED-051@c08c";
constexpr const char* kMostActivations = "SCHED-052@5c4a";
constexpr const char* kMessageSizes = "SCHED-057@1739";
constexpr const char* kGradientGroup = "SCHED-058@b1db";
constexpr const char* kOwnInput = "SCHED-112@eb70";
constexpr const char* kNotReceived = "SCHED-125@5b86";
constexpr const char* kLateMessage = "SCHED-126@89ca";
constexpr const char* kCallsInOrder = "SCHED-133@c788";

// ---- questions ----

constexpr int kInputValues = 3;     // of an input, all whole: sums of products have no rounding
constexpr int kLongMessage = 2048;  // elements, more than a transport sends before its receive is posted

std::vector<double> input_values(int micro_batch) {
  std::vector<double> values;
  for (int i = 0; i < kInputValues; ++i) values.push_back(1 + (2 * micro_batch + 3 * i) % 7);
  return values;
}
double weight_of_stage(int stage) { return 1 + stage % 3; }

json question_of_execution(const Schedule& lowered, std::int64_t elements) {
  json weights = json::array(), inputs = json::array();
  for (int stage = 0; stage < lowered.stages; ++stage) weights.push_back(weight_of_stage(stage));
  for (int micro_batch = 0; micro_batch < lowered.micro_batches; ++micro_batch)
    inputs.push_back(input_values(micro_batch));
  json args{{"ranks", rows_of(lowered)},
            {"stage_to_rank", lowered.stage_to_rank},
            {"weights", std::move(weights)},
            {"inputs", std::move(inputs)}};
  if (elements != kInputValues) args["elements"] = elements;
  return args;
}

// ---- what is right ----

// The product of all weights is that of the last output by the input; half its square is the loss.
std::vector<double> gradients_of_one_device(const Schedule& schedule, std::int64_t elements) {
  double product = 1, squares = 0;
  for (int stage = 0; stage < schedule.stages; ++stage) product *= weight_of_stage(stage);
  for (int micro_batch = 0; micro_batch < schedule.micro_batches; ++micro_batch) {
    const std::vector<double> values = input_values(micro_batch);
    for (std::int64_t i = 0; i < elements; ++i) {
      const double value = values[static_cast<std::size_t>(i % kInputValues)];
      squares += value * value;
    }
  }
  std::vector<double> gradients;
  for (int stage = 0; stage < schedule.stages; ++stage)
    gradients.push_back(product * product * squares / weight_of_stage(stage));
  return gradients;
}

std::vector<std::string> called_cells(const std::vector<Action>& row) {
  std::vector<std::string> cells;
  for (Action action : row) {
    action.joined = false;
    if (action.kind != ActionKind::idle && !schedules::is_message(action.kind)) cells.push_back(to_string(action));
  }
  return cells;
}

JudgeResult judge_sums(const Schedule& schedule, std::int64_t elements) {
  return [expected = gradients_of_one_device(schedule, elements)](const json& result) {
    return first_difference({{"weight_gradients", expected}}, result);
  };
}
// Every rank came to the end of its row; in which order is asked elsewhere.
JudgeResult judge_ends(const Schedule& schedule) {
  return [&schedule](const json& result) -> std::string {
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      std::vector<std::string> expected = called_cells(schedule.ranks[rank]);
      auto got = result.at("ranks").at(rank).at("computations").get<std::vector<std::string>>();
      std::ranges::sort(expected);
      std::ranges::sort(got);
      if (got != expected)
        return fmt::format("rank {} has made {} computations, its row has {}", rank, got.size(), expected.size());
    }
    return "";
  };
}
JudgeResult judge_peaks(const Schedule& schedule) {
  return [peaks = peaks_of(schedule)](const json& result) -> std::string {
    for (std::size_t rank = 0; rank < peaks.size(); ++rank)
      if (const json& got = result.at("ranks").at(rank).at("peak_activations"); got != peaks[rank])
        return fmt::format("rank {} holds {} activations at once, by its row {}", rank, got.dump(), peaks[rank]);
    return "";
  };
}
constexpr double kClockSlack = 1e-6;  // seconds by which two differences of the same clock may be rounded apart
std::string problem_of_periods(const json& periods, const json& call_seconds, std::size_t count) {
  if (periods.size() != count || call_seconds.size() != count)
    return fmt::format("{} periods and {} calls of {} computations", periods.size(), call_seconds.size(), count);
  double last_start = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto start = periods[i].at(0).get<double>(), end = periods[i].at(1).get<double>();
    const auto called = call_seconds[i].get<double>();
    if (!(start >= 0) || !(called >= 0))
      return fmt::format("computation {} starts at {} and takes {} s", i, start, called);
    if (start < last_start)
      return fmt::format("computation {} starts at {}, the one before at {}", i, start, last_start);
    if (end - start < called - kClockSlack)
      return fmt::format("the period of computation {} lasts {} s, and its call {} s", i, end - start, called);
    last_start = start;
  }
  if (count > 0 && !(periods.back().at(1).get<double>() > 0)) return "the last computation ends when the run begins";
  return "";
}
JudgeResult judge_calls(const Schedule& schedule) {
  return [&schedule](const json& result) -> std::string {
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      const json& row = result.at("ranks").at(rank);
      const std::vector<std::string> expected = called_cells(schedule.ranks[rank]);
      if (const std::string problem = first_difference({{"computations", expected}}, row, fmt::format("rank {}", rank));
          !problem.empty())
        return problem;
      if (const std::string problem = problem_of_periods(row.at("periods"), row.at("call_seconds"), expected.size());
          !problem.empty())
        return fmt::format("rank {}: {}", rank, problem);
    }
    return "";
  };
}

// ---- schedules that run ----

Schedule lowered_schedule(const std::string& name, int ranks, int micro_batches) {
  const schedules::ScheduleKind kind = schedules::schedule_kind_of(name);
  const bool one_chunk = kind != schedules::ScheduleKind::interleaved && kind != schedules::ScheduleKind::zbv;
  return schedules::lower(schedules::generate(
      kind, {.ranks = ranks, .micro_batches = micro_batches, .stages_per_rank = one_chunk ? 1 : 2}));
}
Schedule executed_schedule(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  const auto ranks = static_cast<int>(parameters.number("ranks"));
  return lowered_schedule(parameters.text("schedule"), ranks, 2 * ranks);
}
std::string id_of_executed(const char* citation) { return std::string(suite::id_of_citation(citation)); }

void executed(Context& context) {
  const Schedule schedule = executed_schedule(context);
  const int elements = context.parameters().text("messages") == "long" ? kLongMessage : kInputValues;
  report_problems(context.adapter(), kExecute, question_of_execution(schedule, elements),
                  {{id_of_executed(kWeightGradients), judge_sums(schedule, elements)},
                   {id_of_executed(kComesToItsEnd), judge_ends(schedule)},
                   {id_of_executed(kMostActivations), judge_peaks(schedule)},
                   {id_of_executed(kCallsInOrder), judge_calls(schedule)}});
}

// Two stages on each of p ranks, two micro-batches, forwards alone. Every rank but the first takes the second
// micro-batch when it is through with the first one in both of its stages. Until then rank 0's send of it is not over;
// and the first one, which rank 0 has to compute for that, comes beside that send.
Schedule one_pair_through_before_the_next(int ranks, bool together) {
  Schedule schedule{.stages = 2 * ranks, .micro_batches = 2, .stage_to_rank = {}, .ranks = {}};
  for (int stage = 0; stage < 2 * ranks; ++stage) schedule.stage_to_rank.push_back(stage % ranks);
  const std::string posted =
      fmt::format(fmt::runtime(together ? "(0SEND_F1;{0}RECV_F0)P2P" : "0SEND_F1,{0}RECV_F0"), ranks);
  schedule.ranks.push_back(schedules::parse_row(
      fmt::format("0F0,0SEND_F0,0F1,{1},{0}F0,{0}SEND_F0,{0}RECV_F1,{0}F1,{0}SEND_F1", ranks, posted)));
  for (int rank = 1; rank < ranks; ++rank) {
    std::string row;
    for (const int micro_batch : {0, 1})
      for (const int stage : {rank, ranks + rank}) {
        row += fmt::format("{0}RECV_F{1},{0}F{1},", stage, micro_batch);
        if (stage + 1 < 2 * ranks) row += fmt::format("{}SEND_F{},", stage, micro_batch);
      }
    row.pop_back();
    schedule.ranks.push_back(schedules::parse_row(row));
  }
  return schedule;
}
void own_input_alone(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  const Schedule schedule = one_pair_through_before_the_next(static_cast<int>(parameters.number("ranks")),
                                                             parameters.text("posted") == "together");
  report_words(
      problem_of(context.adapter(), kExecute, question_of_execution(schedule, kLongMessage), [&](const json& result) {
        const std::string problem = judge_ends(schedule)(result);
        return problem.empty() ? judge_peaks(schedule)(result) : problem;
      }));
}

// All forwards come first, so that many messages are in flight.
void pieces_of_messages(Context& context) {
  constexpr std::int64_t threshold = 4096;  // bytes of a call
  const std::map<std::string, std::int64_t> lengths{{"0", 0},
                                                    {"1", 1},
                                                    {"t-8", threshold / 8 - 1},
                                                    {"t", threshold / 8},
                                                    {"t+8", threshold / 8 + 1},
                                                    {"2t", threshold / 4},
                                                    {"2t+8", threshold / 4 + 1}};
  const std::int64_t elements = lengths.at(context.parameters().text("size"));
  const Schedule schedule = lowered_schedule("gpipe", static_cast<int>(context.parameters().number("ranks")), 4);
  json args = question_of_execution(schedule, elements);
  args["most_bytes"] = threshold;
  report_words(problem_of(context.adapter(), kExecute, args, [&](const json& result) {
    const std::string problem = judge_ends(schedule)(result);
    return problem.empty() ? judge_sums(schedule, elements)(result) : problem;
  }));
}

void gradients_apart(Context& context) {
  const Schedule schedule = executed_schedule(context);
  json args = question_of_execution(schedule, kLongMessage);
  args["gradient_group"] = true;
  report_words(problem_of(context.adapter(), kExecute, args, judge_sums(schedule, kLongMessage)));
}

// ---- what cannot be executed ----

json question_of_two(const std::vector<std::string>& rows) {
  return {{"ranks", rows}, {"stage_to_rank", {0, 1}}, {"weights", {2, 3}}, {"inputs", {{1, 2}}}};
}
json right_question() { return question_of_two({"0F0,0SEND_F0,0RECV_B0,0I0,0W0", "1RECV_F0,1F0,1B0,1SEND_B0"}); }

// "" when the right question is answered, and then the other one ends with an error of that kind.
std::string problem_of_end(Adapter& adapter, const json& args, const std::string& kind,
                           const json& right = right_question()) {
  const std::string wrong = problem_of(adapter, kExecute, right, [](const json& result) {
    return first_difference({{"weight_gradients", {90, 60}}}, result);
  });
  if (!wrong.empty()) return wrong;
  const Answer answer = answer_to(adapter, kExecute, args);
  if (answer.kind == kind) return "";
  return fmt::format(
      "{} is {}, and must be rejected as '{}'", args.dump(),
      answer.is_refused() ? fmt::format("rejected as '{}': {}", answer.kind, answer.message) : "answered", kind);
}

const std::map<std::string, std::vector<std::string>>& rows_without_input() {
  static const std::map<std::string, std::vector<std::string>> rows{
      {"forward", {"0F0", "1F0"}},
      {"backward", {"0F0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0"}},
      {"late_forward", {"0F0,0SEND_F0", "1F0,1RECV_F0"}},
      {"late_input_gradient", {"0F0,0SEND_F0,0I0,0RECV_B0", "1RECV_F0,1F0,1B0,1SEND_B0"}}};
  return rows;
}
void executed_without_input(Context& context) {
  const json args = question_of_two(rows_without_input().at(context.parameters().text("of")));
  report_words(problem_of_end(context.adapter(), args, "state"));
}
void executed_without_bytes(Context& context) {
  json args = right_question();
  args["most_bytes"] = 0;
  report_words(problem_of_end(context.adapter(), args, "invalid_argument"));
}

void execution_waits_in_vain(Context& context) {
  json args = question_of_two({"0F0", "1RECV_F0,1F0"}), right = right_question();
  args["timeout"] = right["timeout"] = 1;
  report_words(problem_of_end(context.adapter(), args, "failed", right));
  const Answer answer = answer_to(context.adapter(), kExecute, args);
  report_words(missing_words(answer.message, {"1F0", "1RECV_F0"}));
  report_words(missing_numbers(answer.message, {1, 1, 0}));  // the rank, the position, and the peer
}

// A question of the size that the operation's row allows, and one beyond it.
void executed_at_the_limit(Context& context) {
  constexpr std::int64_t most = 1 << 20;  // elements of all stages and micro-batches
  json args{{"ranks", {"0F0,0B0"}}, {"stage_to_rank", {0}}, {"weights", {2}}, {"inputs", {{1}}}, {"elements", most}};
  report_words(problem_of(context.adapter(), kExecute, args, [&](const json& result) {
    return first_difference({{"weight_gradients", {2 * most}}}, result);
  }));
  args["elements"] = most + 1;
  report_words(problem_of_refusal_beside_answers(context.adapter(), kExecute, args));
}

// ---- outputs on their way ----

const std::vector<std::string>& sent_types() {
  static const std::vector<std::string> types{"float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8"};
  return types;
}
// Each element of a question is another function of its place.
json sent_tensor(const std::string& dtype, const std::vector<std::int64_t>& shape, int number) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  json values = json::array();
  for (std::int64_t i = 0; i < elements; ++i) values.push_back(1 + (37 * number + 11 * i) % 251);
  return {{"dtype", dtype}, {"shape", shape}, {"values", std::move(values)}};
}

std::string problem_of_received(Adapter& adapter, const json& args) {
  return problem_of(adapter, kSendTensors, args, [&](const json& result) {
    return first_difference(
        {{"received", args.at("outputs")}, {"errors", std::vector<json>(args.at("outputs").size())}}, result);
  });
}

void sent_dtypes(Context& context) {
  const std::string& dtype = context.parameters().text("dtype");
  report_words(problem_of_received(context.adapter(),
                                   {{"outputs", {{sent_tensor(dtype, {2, 3}, 1)}, {sent_tensor(dtype, {5}, 2)}}}}));
}

json list_of_tensors(const std::string& name, int number) {
  if (name == "none") return json::array();
  if (name == "single") return json::array({sent_tensor("float32", {5}, number)});
  if (name == "whole")
    return {sent_tensor("float32", {2, 3}, number), sent_tensor("int64", {}, number + 1),
            sent_tensor("uint8", {4, 0}, number), sent_tensor("float16", {7}, number + 2)};
  if (name == "in_pieces")
    return {sent_tensor("float32", {40}, number), sent_tensor("float64", {9, 3}, number + 1),
            sent_tensor("uint8", {200}, number + 2)};
  return {sent_tensor("float32", {2, 3}, number),      sent_tensor("float64", {9, 3}, number + 1),
          sent_tensor("int64", {}, number + 2),        sent_tensor("uint8", {4, 0}, number),
          sent_tensor("uint8", {200}, number + 3),     sent_tensor("bfloat16", {33}, number + 4),
          sent_tensor("int32", {2, 2, 2}, number + 5), sent_tensor("float16", {}, number + 6)};
}
void sent_lists(Context& context) {
  const std::string& name = context.parameters().text("list");
  json args{{"outputs", {list_of_tensors(name, 1), list_of_tensors(name, 9)}}};
  if (context.parameters().text("sent") == "in_pieces") args["most_bytes"] = 64;
  report_words(problem_of_received(context.adapter(), args));
}

void sent_shapes(Context& context) {
  const bool changing = context.parameters().text("shapes") == "changing";
  const std::vector<json> kinds{json::array({sent_tensor("float32", {3, 4}, 1)}),
                                json::array({sent_tensor("float32", {12}, 2), sent_tensor("float32", {1}, 3)}),
                                json::array({sent_tensor("float16", {2, 3, 2}, 4)}),
                                json::array({sent_tensor("float32", {}, 5)})};
  json outputs = json::array();
  for (std::size_t i = 0; i < 8; ++i) outputs.push_back(changing ? kinds[(i + 3) % kinds.size()] : kinds[0]);
  report_words(problem_of_received(context.adapter(), {{"outputs", std::move(outputs)}}));
}

// The first output is the description, the third one is another; what comes after it arrives.
std::string problem_of_other_output(Adapter& adapter, const std::string& described, const json& other,
                                    const std::vector<std::string>& words) {
  const json first = json::array({sent_tensor("int64", {3}, 1)});
  const json args{{"outputs", json::array({first, first, other, json::array({sent_tensor("int64", {3}, 2)})})},
                  {"described", described}};
  return problem_of(adapter, kSendTensors, args, [&](const json& result) -> std::string {
    json expected = args.at("outputs");
    expected[2] = nullptr;
    if (const std::string problem = first_difference({{"received", expected}}, result); !problem.empty())
      return problem;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const json& error = result.at("errors").at(i);
      if (i != 2 && !error.is_null()) return fmt::format("output {} was rejected: {}", i, error.dump());
      if (i == 2)
        if (const std::string missing = missing_words(error.at("message").get<std::string>(), words); !missing.empty())
          return fmt::format("{} is not in the error: {}", missing, error.dump());
    }
    return "";
  });
}
void broken_promises(Context& context) {
  const std::string& described = context.parameters().text("described");
  // Sizes by which a reader knows the two descriptions, whatever the names of types.
  const std::vector<std::pair<json, std::vector<std::string>>> others{
      {json::array({sent_tensor("int64", {7}, 4)}), {"3", "7"}},
      {json::array({sent_tensor("int64", {3, 19}, 4)}), {"3", "19"}},
      {json::array({sent_tensor("float64", {17}, 4)}), {"3", "17"}},
      {json::array({sent_tensor("int64", {3}, 4), sent_tensor("int64", {11}, 5)}), {"3", "11"}},
      {json::array(), {"3"}}};
  for (const auto& [other, words] : others)
    report_words(problem_of_other_output(context.adapter(), described, other, words));
}

}  // namespace

void add_execution_checks(suite::Suite& suite) {
  const auto add = [&](const char* operation, const std::string& id, std::vector<std::string> requirements,
                       std::vector<suite::Axis> axes, void (*body)(Context&), std::vector<AskedOption> options = {}) {
    suite.add({.id = "schedules." + id,
               .verifies = std::move(requirements),
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {operation},
               .options = options_of(std::move(options)),
               .body = body});
  };
  const auto field = [](const char* operation, const char* name) { return AskedOption{operation, "fields", {name}}; };
  const auto ranks = [](std::vector<std::string> counts) { return suite::Axis{"ranks", std::move(counts)}; };
  const suite::Axis schedules{"schedule", {"gpipe", "1f1b", "interleaved", "zb-h2", "zbv"}};
  add(kExecute, "execute.whole", {kWeightGradients, kComesToItsEnd, kMostActivations, kCallsInOrder},
      {schedules, {"messages", {"short", "long"}}, ranks({"2", "3", "4"})}, executed);
  add(kExecute, "execute.own_input_alone", {kOwnInput}, {{"posted", {"together", "apart"}}, ranks({"2", "3"})},
      own_input_alone);
  add(kExecute, "execute.pieces", {kMessageSizes},
      {{"size", {"0", "1", "t-8", "t", "t+8", "2t", "2t+8"}}, ranks({"2", "3"})}, pieces_of_messages,
      {field(kExecute, "most_bytes")});
  add(kExecute, "execute.gradients_apart", {kGradientGroup}, {schedules, ranks({"2", "3"})}, gradients_apart,
      {field(kExecute, "gradient_group")});
  add(kExecute, "execute.input_not_received", {kNotReceived},
      {{"of", {"forward", "backward", "late_forward", "late_input_gradient"}}}, executed_without_input);
  add(kExecute, "execute.no_bytes", {kNotReceived}, {}, executed_without_bytes, {field(kExecute, "most_bytes")});
  add(kExecute, "execute.waits_in_vain", {kLateMessage}, {}, execution_waits_in_vain, {field(kExecute, "timeout")});
  add(kExecute, "execute.at_the_limit", {"SCHED-124@50a4"}, {}, executed_at_the_limit);
  const auto described = [](const char* value) { return AskedOption{kSendTensors, "described", {value}}; };
  add(kSendTensors, "send_tensors.dtypes", {"SCHED-053@7058"}, {{"dtype", sent_types()}}, sent_dtypes,
      {described("each")});
  add(kSendTensors, "send_tensors.lists", {"SCHED-054@8e82"},
      {{"list", {"none", "single", "whole", "in_pieces", "mixed"}}, {"sent", {"whole", "in_pieces"}}}, sent_lists,
      {described("each"), {kSendTensors, "fields", {}, "sent", {{"in_pieces", {"most_bytes"}}}}});
  add(kSendTensors, "send_tensors.shapes", {"SCHED-055@8a38"}, {{"shapes", {"constant", "changing"}}}, sent_shapes,
      {described("each")});
  add(kSendTensors, "send_tensors.broken_promises", {"SCHED-056@e2a5"}, {{"described", {"once", "in_advance"}}},
      broken_promises, {{kSendTensors, "described", {}, "described"}});
}

}  // namespace plumbline::conformance
