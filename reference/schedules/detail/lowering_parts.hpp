// reference/schedules/detail/lowering_parts.hpp: what the lowerings share. Not for others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/schedules/lowering.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules::detail {

/// Where the actions end that happen at once with `begin`.
[[nodiscard]] inline const Action* end_of_group(const Action* begin, const Action* end) {
  while (begin->joined && begin + 1 != end) ++begin;
  return begin + 1;
}
/// The actions from `begin` on that happen at once.
[[nodiscard]] inline std::span<const Action> group_at(std::span<const Action> actions, std::size_t begin) {
  const Action* const first = actions.data() + begin;
  return {first, end_of_group(first, actions.data() + actions.size())};
}

/// How many entries a stage has in a table of stages and micro-batches: one a micro-batch, and for many of them some
/// more. All stages are at about the same micro-batch at a time, whose entries must not share a few sets of the cache,
/// as they would a power of two apart: they are an odd number of cache lines apart.
[[nodiscard]] inline std::size_t stage_stride(std::size_t micro_batches) {
  constexpr std::size_t kEntriesOfLine = 16, kMany = 64;
  if (micro_batches < kMany) return micro_batches;
  return ((micro_batches + kEntriesOfLine - 1) / kEntriesOfLine | 1) * kEntriesOfLine;
}

/// Hints that the two cache lines after an address are read, or written, soon. Many ranks take turns, and each goes on
/// elsewhere in memory, which is more than the processor foresees. Costs next to nothing where it is wrong; the memory
/// need not be there.
inline const void* address_after(const void* address, std::size_t bytes) {  // of no array: it may be null
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(address) + bytes);
}
inline void prepare_to_read(const void* address) {
  __builtin_prefetch(address_after(address, 64), 0);
  __builtin_prefetch(address_after(address, 128), 0);
}
inline void prepare_to_write(const void* address) {
  __builtin_prefetch(address_after(address, 64), 1);
  __builtin_prefetch(address_after(address, 128), 1);
}

/// Who sends what to whom in a schedule.
class Routes {
 public:
  explicit Routes(const Schedule& schedule)
      : stages_(schedule.stages),
        stride_(stage_stride(static_cast<std::size_t>(schedule.micro_batches))),
        stage_to_rank_(schedule.stage_to_rank) {}

  /// What the action makes for another stage, on whichever rank.
  [[nodiscard]] Message made_by(const Action& action) const {
    const int direction = direction_of_computation(action.kind);
    if (!is_stage(action.stage + direction)) return {};
    return {.micro_batch = action.micro_batch, .direction = direction, .receiver = action.stage + direction};
  }
  /// What the action needs of another stage, on whichever rank.
  [[nodiscard]] Message needed_by(const Action& action) const {
    const int direction = direction_of_computation(action.kind);
    if (!is_stage(action.stage - direction)) return {};
    return {.micro_batch = action.micro_batch, .direction = direction, .receiver = action.stage};
  }
  [[nodiscard]] std::size_t rank_of(std::int32_t stage) const {
    return static_cast<std::size_t>(stage_to_rank_[static_cast<std::size_t>(stage)]);
  }
  /// Whether it stays on one rank.
  [[nodiscard]] bool stays(const Message& message) const {
    return rank_of(message.sender()) == rank_of(message.receiver);
  }
  /// Of a table with an entry for each stage and micro-batch.
  [[nodiscard]] std::size_t index(const Message& message) const {
    return static_cast<std::size_t>(message.receiver) * stride_ + static_cast<std::size_t>(message.micro_batch);
  }
  [[nodiscard]] std::size_t table_size() const { return static_cast<std::size_t>(stages_) * stride_; }

 private:
  [[nodiscard]] bool is_stage(std::int32_t stage) const {
    return static_cast<std::uint32_t>(stage) < static_cast<std::uint32_t>(stages_);
  }

  int stages_;
  std::size_t stride_;  // entries of a stage in a table
  std::span<const int> stage_to_rank_;
};

/// Throws InvalidArgument unless stage_to_rank is one of schedule.stages stages and schedule.ranks ranks, and for many
/// more stages and micro-batches than actions.
void require_stages(const Schedule& schedule);
/// Throws InvalidArgument, with rank and position, unless the rank may have the action, which is in its row and not
/// idle: one of the schedule's stages and micro-batches, computed where its stage is, and no message.
void require_computation(const Schedule& schedule, std::size_t rank, const Action& action);
/// By rank, how many actions it has with its messages and without idle cells. Throws InvalidArgument like
/// require_stages(), and unless every action's stage and micro-batch are the schedule's, computations are on the rank
/// of their stage, and there are no messages.
[[nodiscard]] std::vector<std::size_t> lowered_sizes(const Schedule& schedule);

/// A rank that cannot go on, and the action that it has next.
struct Waiting {
  std::size_t rank = 0;
  Action action;
};
/// Throws InvalidArgument that says who waits for what.
[[noreturn]] void refuse_cycle(std::span<const Waiting> waiting);

/// A schedule like this one whose rows are empty.
[[nodiscard]] Schedule with_empty_rows(const Schedule& schedule);

}  // namespace plumbline::schedules::detail
