#include "reference/schedules/detail/simulated_stages.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/lowering_parts.hpp"
#include "reference/schedules/detail/simulation_options.hpp"
#include "reference/schedules/detail/timeline_parts.hpp"

namespace plumbline::schedules::detail {

using Kind = ActionKind;

SimulatedStages::SimulatedStages(const Schedule& schedule, const SimulationOptions& options)
    : schedule_(schedule),
      options_(options),
      has_messages_(detail::has_messages(schedule)),
      stage_count_(static_cast<unsigned>(schedule.stages)),
      micro_batch_count_(static_cast<unsigned>(schedule.micro_batches)),
      stages_(stage_count_),
      first_stage_(stages_.data()) {
  lay_out_stages();
  lay_links();
}

void SimulatedStages::refuse_outside(const Action& action) const {
  throw InvalidArgument(fmt::format("simulate: {} is not one of {} stages and {} micro-batches", to_string(action),
                                    schedule_.stages, schedule_.micro_batches));
}

void SimulatedStages::lay_out_stages() {
  const std::size_t stride = stage_stride(static_cast<std::size_t>(schedule_.micro_batches));
  const std::size_t all = stages_.size() * stride;
  there_.assign(2 * all, kNotThere);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    stage.activation_bytes = of_each(options_.activation_bytes, static_cast<int>(i));
    set_times(i);
    double *const inputs = &there_[i * stride], *const gradients = &there_[all + i * stride];
    Computation& forward = computation(stage, Kind::forward);
    const auto set_backward = [&](auto member, auto value) {
      computation(stage, Kind::backward).*member = computation(stage, Kind::input_gradient).*member = value;
    };
    set_backward(&Computation::needed, gradients);
    if (i + 1 == stages_.size()) forward.kept = gradients;  // at the model's end the gradient follows from the output
    if (i == 0) continue;                                   // at its begin there is nothing to wait for
    forward.needed = inputs;
    Stage& before = stages_[i - 1];
    Computation& forward_before = computation(before, Kind::forward);
    double* const gradients_before = gradients - stride;
    if (owner(i) == owner(i - 1)) {
      forward_before.kept = inputs;
      set_backward(&Computation::kept, gradients_before);
      continue;
    }
    before.onward = {.receiver = owner(i), .there = inputs};
    stage.back = {.receiver = owner(i - 1), .there = gradients_before};
    for (Way* const way : {&before.onward, &stage.back}) {
      way->bytes = of_each(options_.message_bytes, static_cast<int>(i) - 1);
      way->occupies = way->bytes / options_.links.bandwidth;
    }
    if (has_messages_) continue;
    forward_before.sent = &before.onward;
    set_backward(&Computation::sent, &stage.back);
  }
}

void SimulatedStages::set_times(std::size_t stage) {
  const double slow =
      options_.rank_slowdown.empty() ? 1 : options_.rank_slowdown[static_cast<std::size_t>(owner(stage))];
  const StageTimes& times = of_each(options_.stages, static_cast<int>(stage));
  for (const Kind kind : {Kind::forward, Kind::backward, Kind::input_gradient, Kind::weight_gradient})
    computation(stages_[stage], kind).time = times.of(kind) * slow;
}

// A link for each pair of ranks that any way connects.
void SimulatedStages::lay_links() {
  const auto for_ways = [&](const auto& visit) {
    for (std::size_t i = 0; i < stages_.size(); ++i)
      for (Way* const way : {&stages_[i].onward, &stages_[i].back})
        if (way->there != nullptr) visit(LinkTraffic{.from = owner(i), .to = way->receiver}, *way);
  };
  const auto ends = [](const LinkTraffic& link) { return std::pair(link.from, link.to); };
  for_ways([&](const LinkTraffic& link, const Way&) { links_.push_back(link); });
  std::ranges::sort(links_, {}, ends);
  const auto rest = std::ranges::unique(links_, {}, ends);
  links_.erase(rest.begin(), rest.end());
  link_free_.assign(links_.size(), 0);
  for_ways([&](const LinkTraffic& link, Way& way) {
    way.link = static_cast<std::size_t>(std::ranges::lower_bound(links_, ends(link), {}, ends) - links_.begin());
    way.link_free = &link_free_[way.link];
  });
}

std::vector<LinkTraffic> SimulatedStages::traffic() const {
  std::vector<LinkTraffic> links = links_;
  for (const Stage& stage : stages_)
    for (const Way& way : {stage.onward, stage.back}) {
      if (way.messages == 0) continue;
      links[way.link].messages += way.messages;
      links[way.link].bytes += static_cast<double>(way.messages) * way.bytes;
    }
  std::erase_if(links, [](const LinkTraffic& link) { return link.messages == 0; });
  return links;
}

}  // namespace plumbline::schedules::detail
