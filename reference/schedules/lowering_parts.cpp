#include "reference/schedules/detail/lowering_parts.hpp"

#include <algorithm>
#include <array>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/well_formed.hpp"

namespace plumbline::schedules::detail {
namespace {

[[noreturn]] void refuse(const Schedule& schedule, std::size_t rank, const Action& action, std::string_view why) {
  const auto position = &action - schedule.ranks[rank].data();
  throw InvalidArgument(fmt::format("lowering: rank {}, position {}: {} {}", rank, position, to_string(action), why));
}

}  // namespace

void require_computation(const Schedule& schedule, std::size_t rank, const Action& action) {
  if (is_message(action.kind) || is_send_wait(action.kind))
    refuse(schedule, rank, action, "is a message; messages are what is put in");
  if (action.stage < 0 || action.stage >= schedule.stages)
    refuse(schedule, rank, action, fmt::format("has a stage that is not of 0 to {}", schedule.stages - 1));
  if (!is_compute(action.kind)) return;
  if (action.micro_batch < 0 || action.micro_batch >= schedule.micro_batches)
    refuse(schedule, rank, action, fmt::format("has a micro-batch that is not of 0 to {}", schedule.micro_batches - 1));
  const int owner = schedule.stage_to_rank[static_cast<std::size_t>(action.stage)];
  if (static_cast<std::size_t>(owner) != rank)
    refuse(schedule, rank, action, fmt::format("is computed here, but its stage is on rank {}", owner));
}

void require_stages(const Schedule& schedule) {
  const Flaw flaw = flaw_of(schedule);
  if (flaw == Flaw::rank)
    throw InvalidArgument(fmt::format("lowering: a stage is on rank {}, but the schedule has {} ranks",
                                      schedule.stage_to_rank[misplaced_stage(schedule)], schedule.ranks.size()));
  if (flaw != Flaw::none)
    throw InvalidArgument(fmt::format("lowering: {} stages, {} micro-batches, and a rank for {} stages",
                                      schedule.stages, schedule.micro_batches, schedule.stage_to_rank.size()));
  // A table has a place for each stage and micro-batch; a few numbers in a row must not make it larger than the rows.
  constexpr std::int64_t kAlwaysAllowed = std::int64_t{1} << 22;
  std::int64_t actions = 0;
  for (const auto& row : schedule.ranks) actions += static_cast<std::int64_t>(row.size());
  if (std::int64_t{schedule.stages} * schedule.micro_batches > std::max(actions, kAlwaysAllowed))
    throw InvalidArgument(
        fmt::format("lowering: {} stages and {} micro-batches need more than the {} actions that exist",
                    schedule.stages, schedule.micro_batches, actions));
}

std::vector<std::size_t> lowered_sizes(const Schedule& schedule) {
  require_stages(schedule);
  std::vector<std::size_t> sizes;
  sizes.reserve(schedule.ranks.size());
  struct Counts {
    std::array<std::size_t, 5> computations{};  // by kind
    [[nodiscard]] std::size_t of(ActionKind kind) const { return computations[static_cast<std::size_t>(kind)]; }
  };
  std::vector<Counts> stages(static_cast<std::size_t>(schedule.stages));
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::size_t idle = 0;
    for (const Action& action : schedule.ranks[rank]) {
      if (action.kind == ActionKind::idle) {
        ++idle;
        continue;
      }
      require_computation(schedule, rank, action);
      if (is_compute(action.kind))
        ++stages[static_cast<std::size_t>(action.stage)].computations[static_cast<std::size_t>(action.kind)];
    }
    sizes.push_back(schedule.ranks[rank].size() - idle);
  }
  for (std::size_t stage = 1; stage < stages.size(); ++stage) {
    const auto rank = static_cast<std::size_t>(schedule.stage_to_rank[stage]);
    const auto before = static_cast<std::size_t>(schedule.stage_to_rank[stage - 1]);
    if (rank == before) continue;
    const std::size_t messages = stages[stage - 1].of(ActionKind::forward) + stages[stage].of(ActionKind::backward) +
                                 stages[stage].of(ActionKind::input_gradient);
    sizes[rank] += messages;
    sizes[before] += messages;
  }
  return sizes;
}

void refuse_cycle(std::span<const Waiting> waiting) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> who;
  for (const auto& [rank, action] : waiting)
    who.push_back(fmt::format("rank {} for what {} needs", rank, to_string(action)));
  throw InvalidArgument(fmt::format("lowering: the computations of {} ranks wait for each other: {}", who.size(),
                                    fmt::join(who | std::views::take(kNamed), ", ")));
}

Schedule with_empty_rows(const Schedule& schedule) {
  return {.stages = schedule.stages,
          .micro_batches = schedule.micro_batches,
          .stage_to_rank = schedule.stage_to_rank,
          .ranks = std::vector<std::vector<Action>>(schedule.ranks.size())};
}

}  // namespace plumbline::schedules::detail
