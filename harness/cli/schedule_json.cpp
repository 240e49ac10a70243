// `plumbline schedule --format json`: the rows, when each action starts, and the figures of each rank.
#include <nlohmann/json.hpp>

#include "harness/cli/schedule_view.hpp"

namespace plumbline::cli {
namespace {

using Json = nlohmann::ordered_json;

Json rank_json(const ScheduleView& view, std::size_t rank) {
  const schedules::RankTimes& times = view.timeline.ranks[rank];
  Json idle = Json::object();
  for (const schedules::IdleCause& cause : schedules::kSimulatedIdleCauses)
    idle[cause.name] = view.idle[rank].*cause.seconds;
  Json starts = Json::array();
  for (const schedules::Period& period : view.timeline.of_rank(static_cast<int>(rank))) starts.push_back(period.start);
  return {{"work", times.work},
          {"barrier_bubble", times.barrier_bubble},
          {"span_bubble", times.span_bubble},
          {"peak_activations", times.peak_activations},
          {"idle", std::move(idle)},
          {"start_times", std::move(starts)}};
}

}  // namespace

std::string schedule_json(const ScheduleView& view) {
  const schedules::ActivationSlots slots =
      schedules::activation_slots(view.schedule, view.request.options.forward_only);
  Json rows = Json::array(), figures = Json::array();
  for (std::size_t rank = 0; rank < view.schedule.ranks.size(); ++rank) {
    rows.push_back(schedules::to_csv(view.schedule.ranks[rank]));
    figures.push_back(rank_json(view, rank));
    figures.back()["slots"] = slots.slots[rank];
  }
  const Json all{{"title", view.title()},
                 {"num_stages", view.schedule.stages},
                 {"microbatches", view.schedule.micro_batches},
                 {"stage_to_rank", view.schedule.stage_to_rank},
                 {"ranks", std::move(rows)},
                 {"makespan", view.timeline.makespan},
                 {"barrier_bubble", view.timeline.barrier_bubble()},
                 {"figures", std::move(figures)}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::cli
