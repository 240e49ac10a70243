#include "harness/cli/schedule_view.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {

using schedules::Action;
using schedules::Schedule;
using schedules::ScheduleKind;

Lowering lowering_of(const std::string& name) {
  if (name == "none") return Lowering::none;
  if (name == "torch") return Lowering::torch;
  if (name == "plumbline") return Lowering::plumbline;
  throw InvalidArgument(fmt::format("--lower '{}'; it must be none, torch or plumbline", name));
}

ScheduleKind schedule_kind_named(const std::string& name, const std::string& option) {
  if (const auto schedule_kind = schedules::find_schedule_kind(name)) return *schedule_kind;
  // A misspelt name of PyTorch's is nearest to PyTorch's.
  std::vector<std::string> names;
  for (const auto& [known, schedule_kind] : schedules::schedule_kind_names()) names.push_back(known);
  const std::optional<std::string> nearest = meant_name(name, names);
  throw NotFound(fmt::format(
      "{} '{}': no such schedule; plumbline schedule --list names all{}", option, name,
      nearest ? fmt::format("; did you mean {}?", schedules::name_of(*schedules::find_schedule_kind(*nearest))) : ""));
}

namespace {

// What every formula supposes: equal stages, messages that take no time.
bool is_ideal(const schedules::SimulationOptions& options) {
  const schedules::StageTimes& first = options.stages.front();
  const bool alike = std::ranges::all_of(options.stages, [&](const schedules::StageTimes& stage) {
    return stage.forward == first.forward && stage.input_gradient == first.input_gradient &&
           stage.weight_gradient == first.weight_gradient && stage.backward == first.backward;
  });
  const bool free = options.links.latency == 0 &&
                    (std::isinf(options.links.bandwidth) ||
                     std::ranges::all_of(options.message_bytes, [](double bytes) { return bytes == 0; }));
  return alike && free && !options.rendezvous && options.overlap == 1 && options.jitter == 0 &&
         std::ranges::all_of(options.rank_slowdown, [](double factor) { return factor == 1; });
}

}  // namespace

std::optional<ClosedForm> closed_form(const ScheduleRequest& request) {
  if (request.given || !is_ideal(request.options)) return std::nullopt;
  const auto& [ranks, micro_batches, chunks] = request.shape;
  const schedules::StageTimes& stage = request.options.stages.front();
  const double v = chunks, hops = ranks - 1;
  const double f = v * stage.forward, i = v * stage.input_gradient, w = v * stage.weight_gradient;
  const double b = v * stage.of(schedules::ActionKind::backward);
  const bool whole_rounds = micro_batches % ranks == 0, equal = f == i && i == w && b == i + w;
  using Form = std::optional<ClosedForm>;
  switch (request.schedule_kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::one_f_one_b:
      return ClosedForm{"(p-1)(tF+tB)", hops * (f + b)};
    case ScheduleKind::interleaved:
      return whole_rounds ? Form({"(p-1)(tF+tB)/v", hops * (f + b) / v}) : std::nullopt;
    case ScheduleKind::looped_breadth_first:
      return micro_batches >= ranks ? Form({"(p-1)(tF+tB)/v", hops * (f + b) / v}) : std::nullopt;
    case ScheduleKind::zb_h1:
      return micro_batches >= ranks ? Form({"(p-1)max(tF,tI,tF+tI-tW)", hops * std::max({f, i, f + i - w})})
                                    : std::nullopt;
    case ScheduleKind::zb_h2:
      return equal && micro_batches >= 2 * ranks ? Form({"(p-1)(tF+tI-2tW)", hops * (f + i - 2 * w), true})
                                                 : std::nullopt;
    case ScheduleKind::interleaved_zero_bubble:
      return equal && chunks == 2 && whole_rounds && micro_batches >= 2 * ranks
                 ? Form({"(p-1)(tF+tI-tW)/v", hops * (f + i - w) / v})
                 : std::nullopt;
    case ScheduleKind::zbv:
      return equal && whole_rounds && micro_batches >= 2 * ranks ? Form({"(p-1)tF/2", hops * f / 2}) : std::nullopt;
    case ScheduleKind::v_half:
      return equal && micro_batches > ranks / 2
                 ? Form({"(3(p-1)-p%2)tF/2, of one rank 0", ranks == 1 ? 0 : (3 * hops - ranks % 2) * f / 2})
                 : std::nullopt;
    case ScheduleKind::v_min:
      return equal && micro_batches > 1 ? Form({"(4p-5)tF/2, (4p-3)tF/2 where 3 divides p, of one rank 0",
                                                ranks == 1 ? 0 : (4 * hops - (ranks % 3 == 0 ? -1 : 1)) * f / 2})
                                        : std::nullopt;
    case ScheduleKind::dualpipev:
      return equal && whole_rounds ? Form({"(p-1)(tF+2tB-3tW)/2", hops * (f + 2 * b - 3 * w) / 2}) : std::nullopt;
    default:  // none is known
      return std::nullopt;
  }
}

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

std::string ScheduleView::title() const {
  return fmt::format(
      "{}: {} on {}, {}", request.given ? request.given->name : std::string(schedules::name_of(request.schedule_kind)),
      counted(static_cast<std::size_t>(schedule.stages), "stage"), counted(schedule.ranks.size(), "rank"),
      counted(static_cast<std::size_t>(schedule.micro_batches), "micro-batch"));
}

double ScheduleView::simulated_bubble() const {
  if (!formula || !formula->of_span) return timeline.barrier_bubble();
  return std::ranges::max_element(timeline.ranks, {}, &schedules::RankTimes::span_bubble)->span_bubble;
}

namespace {

Schedule lowered(Schedule schedule, Lowering lowering) {
  if (lowering == Lowering::none) return schedule;
  return lowering == Lowering::torch ? schedules::lower_as_torch(schedule) : schedules::lower(schedule);
}

schedules::AutomaticSchedule automatic_of(const ScheduleRequest& request) {
  return schedules::automatic(request.shape,
                              {.costs = request.options, .activation_limits = request.activation_limits});
}

}  // namespace

Schedule schedule_of(const ScheduleRequest& request) {
  if (request.given) return lowered(request.given->schedule, request.lowering);
  return lowered(request.schedule_kind == ScheduleKind::automatic
                     ? automatic_of(request).schedule
                     : schedules::generate(request.schedule_kind, request.shape),
                 request.lowering);
}

ScheduleView view_of(const ScheduleRequest& request) {
  ScheduleView view{.request = request};
  if (!request.given && request.schedule_kind == ScheduleKind::automatic) {
    schedules::AutomaticSchedule found = automatic_of(request);
    view.schedule = lowered(std::move(found.schedule), request.lowering);
    view.found = {.made_by = found.made_by, .lower_bound = found.lower_bound};
  } else {
    view.schedule = schedule_of(request);
  }
  view.request.options.forward_only =
      request.given ? request.given->forward_only : request.schedule_kind == ScheduleKind::forward_only;
  view.timeline = schedules::simulate(view.schedule, view.request.options);
  view.idle = schedules::attribute_idle_time(view.schedule, view.request.options, view.timeline);
  view.formula = closed_form(request);
  for (const auto& actions : view.schedule.ranks)
    view.computations +=
        std::ranges::count_if(actions, [](const Action& action) { return schedules::is_compute(action.kind); });
  return view;
}

std::string options_of(const ScheduleRequest& request) {
  if (request.given) return fmt::format("--file '{}'", request.given->name);
  const auto& [ranks, micro_batches, chunks] = request.shape;
  const std::string limits = request.activation_limits.empty()
                                 ? ""
                                 : fmt::format(", --memory-limit {}", fmt::join(request.activation_limits, ","));
  return fmt::format("--name '{}' with --stages {}, --micro-batches {}, --chunks {}{}",
                     schedules::name_of(request.schedule_kind), ranks, micro_batches, chunks, limits);
}

std::vector<Cell> cells_of(const ScheduleView& view, int rank) {
  const std::span<const Action> actions = view.schedule.ranks[static_cast<std::size_t>(rank)];
  const std::span<const schedules::Period> periods = view.timeline.of_rank(rank);
  std::vector<Cell> cells;
  for (std::size_t first = 0, next = 0; first < actions.size(); first = next) {
    next = first + 1;
    if (!schedules::is_compute(actions[first].kind)) continue;
    while (actions[next - 1].joined && next < actions.size()) ++next;
    if (periods[first].end > periods[first].start)
      cells.push_back({.period = periods[first], .actions = actions.subspan(first, next - first)});
  }
  return cells;
}

std::vector<int> chunks_of(const Schedule& schedule) {
  std::vector<int> seen(schedule.ranks.size()), chunks;
  for (const int rank : schedule.stage_to_rank) chunks.push_back(seen[static_cast<std::size_t>(rank)]++);
  return chunks;
}

double mean_cell(const ScheduleView& view) {
  double seconds = 0;
  std::size_t count = 0;
  for (int rank = 0; rank < static_cast<int>(view.schedule.ranks.size()); ++rank)
    for (const Cell& cell : cells_of(view, rank)) {
      seconds += cell.period.end - cell.period.start;
      ++count;
    }
  return count == 0 ? 0 : seconds / static_cast<double>(count);
}

double tick_of(double makespan, double most) {
  const double least = makespan / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * power >= least) return step * power;
  return 10 * power;
}

}  // namespace plumbline::cli
