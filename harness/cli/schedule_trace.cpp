// `plumbline schedule --format trace`: trace events in JSON, as chrome://tracing and Perfetto read them.
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/cli/schedule_view.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using schedules::Action;
using schedules::Period;

constexpr double kMicroseconds = 1e6;  // in a second
// Perfetto takes process and thread 0 for Linux' idle ones, which it shows otherwise or not at all.
constexpr int kProcess = 1;
int thread_of(int rank) { return rank + 1; }

// A file may have any name.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class Trace {
 public:
  Trace(std::string title, const schedules::Schedule& schedule, const schedules::Timeline& timeline, TextOutput& output)
      : title_(std::move(title)), schedule_(schedule), timeline_(timeline), output_(output) {}

  void write() {
    output_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":{}}})", kProcess, json_text(title_)));
    for (int rank = 0; rank < static_cast<int>(schedule_.ranks.size()); ++rank) write_rank(rank);
    output_.write("\n]}\n");
  }

 private:
  void event(const std::string& fields) {
    output_.write(first_ ? "{" : ",\n{");
    output_.write(fields);
    output_.write("}");
    first_ = false;
  }

  void write_rank(int rank) {
    const std::string thread = fmt::format(R"("pid":{},"tid":{})", kProcess, thread_of(rank));
    event(fmt::format(R"("ph":"M","name":"thread_name",{},"args":{{"name":"rank {}"}})", thread, rank));
    event(fmt::format(R"("ph":"M","name":"thread_sort_index",{},"args":{{"sort_index":{}}})", thread, rank));
    const auto& actions = schedule_.ranks[static_cast<std::size_t>(rank)];
    const auto periods = timeline_.of_rank(rank);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (schedules::is_compute(actions[i].kind)) write_computation(rank, actions[i], periods[i]);
      if (schedules::is_send(actions[i].kind)) write_message(rank, actions[i], periods[i]);
    }
  }

  void write_computation(int rank, const Action& action, const Period& period) {
    event(fmt::format(
        R"("ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"stage":{},"micro_batch":{}}})",
        to_string(action), schedules::name_of(action.kind), kProcess, thread_of(rank), period.start * kMicroseconds,
        (period.end - period.start) * kMicroseconds, action.stage, action.micro_batch));
  }

  // Messages of a link may overlap, which only asynchronous events may.
  void write_message(int rank, const Action& action, const Period& period) {
    const int to_stage = action.kind == schedules::ActionKind::send_backward ? action.stage - 1 : action.stage + 1;
    const int to = schedule_.stage_to_rank[static_cast<std::size_t>(to_stage)];
    const std::string shared = fmt::format(
        R"("name":"{} rank {} to {}","cat":"message","id":{},"pid":{},"tid":{},"args":{{"action":"{}","to":{}}})",
        schedules::name_of(action.kind), rank, to, messages_++, kProcess, thread_of(rank), to_string(action), to);
    event(fmt::format(R"("ph":"b","ts":{},)", period.start * kMicroseconds) + shared);
    event(fmt::format(R"("ph":"e","ts":{},)", period.end * kMicroseconds) + shared);
  }

  const std::string title_;
  const schedules::Schedule& schedule_;
  const schedules::Timeline& timeline_;
  TextOutput& output_;
  bool first_ = true;
  std::int64_t messages_ = 0;
};

}  // namespace

void write_trace(const std::string& title, const schedules::Schedule& schedule, const schedules::Timeline& timeline,
                 TextOutput& output) {
  Trace(title, schedule, timeline, output).write();
}

void write_trace(const ScheduleView& view, TextOutput& output) {
  if (!std::isfinite(view.timeline.makespan * kMicroseconds))
    throw InvalidArgument(
        fmt::format("--format trace: {} seconds are more microseconds than a number holds", view.timeline.makespan));
  write_trace(view.title(), view.schedule, view.timeline, output);
}

}  // namespace plumbline::cli
