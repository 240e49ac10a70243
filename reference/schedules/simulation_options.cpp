#include "reference/schedules/detail/simulation_options.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/well_formed.hpp"

namespace plumbline::schedules {

using Kind = ActionKind;

namespace detail {
namespace {

void refuse_length(std::size_t length, std::size_t wanted, std::string_view what, bool one_for_all) {
  if (length != wanted && !(one_for_all && length == 1))
    throw InvalidArgument(fmt::format("simulate: {} has {} entries for {}", what, length, wanted));
}

}  // namespace

void refuse_unless_number(double value, double low, std::string_view what) {
  if (!(value >= low) || std::isinf(value))
    throw InvalidArgument(fmt::format("simulate: {} must be a number from {} on, got {}", what, low, value));
}

void refuse_unless_options(const Schedule& schedule, const SimulationOptions& options) {
  const auto stages = static_cast<std::size_t>(schedule.stages);
  refuse_length(options.stages.size(), stages, "stages", true);
  for (const StageTimes& times : options.stages)
    for (const Kind kind : {Kind::forward, Kind::backward, Kind::input_gradient, Kind::weight_gradient})
      refuse_unless_number(times.of(kind), 0, fmt::format("the time of {}", name_of(kind)));
  refuse_unless_number(options.overlap, 0, "overlap");
  refuse_unless_number(options.links.latency, 0, "latency");
  if (!(options.links.bandwidth > 0))
    throw InvalidArgument(fmt::format("simulate: bandwidth must be above 0, got {}", options.links.bandwidth));
  refuse_length(options.message_bytes.size(), std::max<std::size_t>(stages, 1) - 1, "message_bytes", true);
  for (const double bytes : options.message_bytes) refuse_unless_number(bytes, 0, "message_bytes");
  refuse_length(options.activation_bytes.size(), stages, "activation_bytes", true);
  for (const double bytes : options.activation_bytes) refuse_unless_number(bytes, 0, "activation_bytes");
  if (!options.rank_slowdown.empty())
    refuse_length(options.rank_slowdown.size(), schedule.ranks.size(), "straggling", false);
  for (const double factor : options.rank_slowdown) refuse_unless_number(factor, 0, "straggling");
  refuse_unless_number(options.jitter, 0, "jitter");
}

void refuse_unless_schedule(const Schedule& schedule) {
  if (flaw_of(schedule) != Flaw::none)
    throw InvalidArgument(
        fmt::format("simulate: {} stages, {} micro-batches and a rank in [0, {}) for each stage make no schedule",
                    schedule.stages, schedule.micro_batches, schedule.ranks.size()));
  if (has_too_many_pairs(schedule))
    throw InvalidArgument(fmt::format("simulate: {} stages x {} micro-batches are more than {} pairs", schedule.stages,
                                      schedule.micro_batches, kMostPairs));
}

}  // namespace detail

double StageTimes::of(ActionKind kind) const {
  switch (kind) {
    case Kind::forward:
      return forward;
    case Kind::backward:
      return backward.value_or(input_gradient + weight_gradient);
    case Kind::input_gradient:
      return input_gradient;
    case Kind::weight_gradient:
      return weight_gradient;
    default:
      return 0;
  }
}

}  // namespace plumbline::schedules
