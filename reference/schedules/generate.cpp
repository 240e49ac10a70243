#include "reference/schedules/generate.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/generate_rows.hpp"

namespace plumbline::schedules {
namespace {

constexpr std::int64_t kMostComputations = std::int64_t{1} << 26;

void require_stages_per_rank(const ScheduleTraits& traits, const Shape& shape) {
  const int needed = traits.stages_per_rank;
  if (needed != 0 && shape.stages_per_rank != needed)
    throw InvalidArgument(fmt::format("{}: a rank has exactly {} stage{}, got {}", traits.name, needed,
                                      needed == 1 ? "" : "s", shape.stages_per_rank));
}

}  // namespace

Schedule generate(ScheduleKind schedule_kind, const Shape& shape) {
  detail::require_shape(shape);
  require_stages_per_rank(traits_of(schedule_kind), shape);
  return detail::generator_of(schedule_kind)(shape);
}

Schedule generate_as_torch(ScheduleKind schedule_kind, const Shape& shape) {
  if (traits_of(schedule_kind).torch.empty())
    throw Unsupported(fmt::format("{}: PyTorch has no such schedule", name_of(schedule_kind)));
  if (schedule_kind == ScheduleKind::one_f_one_b && shape.micro_batches < shape.ranks)
    throw InvalidArgument(fmt::format("1f1b: PyTorch needs at least as many micro-batches as ranks, got {} and {}",
                                      shape.micro_batches, shape.ranks));
  // PyTorch's ranks run ahead twice as far, be it for one stage.
  if (schedule_kind == ScheduleKind::interleaved) {
    detail::require_shape(shape);
    return detail::interleaved(shape, detail::micro_batches_of_round(schedule_kind, shape));
  }
  return generate(schedule_kind, shape);
}

Schedule interleaved_in_groups(const Shape& shape, int group) {
  detail::require_shape(shape);
  detail::require_groups(shape, group);
  return without_idle(detail::interleaved(shape, group));
}

Schedule without_idle(Schedule schedule) {
  for (std::vector<Action>& actions : schedule.ranks)
    std::erase_if(actions, [](const Action& action) { return action.kind == ActionKind::idle; });
  return schedule;
}

namespace detail {

void require_shape(const Shape& shape) {
  const auto& [ranks, micro_batches, stages_per_rank] = shape;
  if (ranks < 1 || micro_batches < 1 || stages_per_rank < 1)
    throw InvalidArgument(
        fmt::format("schedule: ranks, micro-batches and stages per rank are at least 1, got {}, {} and {}", ranks,
                    micro_batches, stages_per_rank));
  const std::int64_t stages = std::int64_t{ranks} * stages_per_rank;
  if (stages > kMostStages)
    throw InvalidArgument(
        fmt::format("schedule: {} ranks of {} stages make more than {} stages", ranks, stages_per_rank, kMostStages));
  if (stages * micro_batches > kMostComputations)
    throw InvalidArgument(
        fmt::format("schedule: {} ranks of {} stages and {} micro-batches make more than {} computations of a kind",
                    ranks, stages_per_rank, micro_batches, kMostComputations));
}

void require_groups(const Shape& shape, int group) {
  if (group < shape.ranks || group > shape.micro_batches)
    throw InvalidArgument(
        fmt::format("interleaved: a group has at least as many micro-batches as there are ranks ({}) and at most all "
                    "({}), got {}",
                    shape.ranks, shape.micro_batches, group));
  const int rest = shape.micro_batches % group;
  if (rest != 0 && rest < shape.ranks)
    throw InvalidArgument(fmt::format(
        "interleaved: the last group is full or has at least as many micro-batches as there are ranks ({}), but "
        "{} micro-batches in groups of {} leave {}",
        shape.ranks, shape.micro_batches, group, rest));
}

void require_multiple_of_ranks(const Shape& shape) {
  if (shape.micro_batches % shape.ranks != 0)
    throw InvalidArgument(
        fmt::format("interleaved: ColossalAI's micro-batches are a multiple of the ranks, got {} and {}",
                    shape.micro_batches, shape.ranks));
}

Schedule empty_schedule(const Shape& shape, Placement placement) {
  const int stages = shape.ranks * shape.stages_per_rank;
  Schedule schedule{.stages = stages,
                    .micro_batches = shape.micro_batches,
                    .stage_to_rank = stage_to_rank(shape.ranks, stages, placement),
                    .ranks = std::vector<std::vector<Action>>(static_cast<std::size_t>(shape.ranks))};
  return schedule;
}

int micro_batches_of_round(ScheduleKind schedule_kind, const Shape& shape) {
  const int rounds = std::max(1, shape.micro_batches / shape.ranks);
  if (shape.micro_batches % rounds != 0)
    throw InvalidArgument(
        fmt::format("{}: the micro-batches are a multiple of the rounds, max(1, micro-batches / ranks), but "
                    "{} micro-batches on {} ranks make {} rounds",
                    name_of(schedule_kind), shape.micro_batches, shape.ranks, rounds));
  return shape.micro_batches / rounds;
}

Schedule gpipe(const Shape& shape) {
  Schedule schedule = empty_schedule(shape, Placement::loop);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    Row row(schedule.ranks[static_cast<std::size_t>(rank)]);
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward})
      for (int i = 0; i < shape.micro_batches; ++i) row.add(kind, rank, i);
  }
  return schedule;
}

// Idle cells: until the first micro-batch arrives, and while it goes to the last rank and back.
Schedule looped_breadth_first(const Shape& shape) {
  Schedule schedule = empty_schedule(shape, Placement::loop);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    Row row(schedule.ranks[static_cast<std::size_t>(rank)]);
    row.idle(rank);
    for (int chunk = 0; chunk < shape.stages_per_rank; ++chunk)
      for (int i = 0; i < shape.micro_batches; ++i) row.add(ActionKind::forward, chunk * shape.ranks + rank, i);
    row.idle(2 * (shape.ranks - 1 - rank));
    for (int chunk = shape.stages_per_rank; chunk-- > 0;)
      for (int i = shape.micro_batches; i-- > 0;) row.add(ActionKind::backward, chunk * shape.ranks + rank, i);
  }
  return schedule;
}

Schedule forward_only(const Shape& shape) {
  Schedule schedule = empty_schedule(shape, Placement::loop);
  const std::vector<Virtual> order = depth_first_order(shape, shape.ranks);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    Row row(schedule.ranks[static_cast<std::size_t>(rank)]);
    for (const auto& [chunk, micro_batch] : order)
      row.add(ActionKind::forward, chunk * shape.ranks + rank, micro_batch);
  }
  return schedule;
}

// Of one stage a rank nothing is interleaved, and no rounds are needed.
Schedule interleaved_in_rounds(const Shape& shape) {
  return shape.stages_per_rank == 1 ? one_f_one_b(shape)
                                    : interleaved(shape, micro_batches_of_round(ScheduleKind::interleaved, shape));
}

}  // namespace detail
}  // namespace plumbline::schedules
