// reference/schedules/lowering_parts.hpp: what the lowerings share. Not for others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules::detail {

/// The actions from `begin` on that happen at once.
[[nodiscard]] inline std::span<const Action> group_at(std::span<const Action> actions, std::size_t begin) {
  std::size_t count = 1;
  while (actions[begin + count - 1].joined && begin + count < actions.size()) ++count;
  return actions.subspan(begin, count);
}

/// Two stages and a micro-batch: the stage that makes a message and the one that needs it, which is the next stage
/// forward, or the one before it backward.
struct Message {
  // Not in the order of Action: as neighbours in both, the two numbers are copied as one, which waits for both to be
  // stored.
  std::int32_t micro_batch = 0;
  bool forward = true;
  std::int32_t receiver = 0;  // stage
  [[nodiscard]] std::int32_t sender() const { return forward ? receiver - 1 : receiver + 1; }
  [[nodiscard]] Action send() const {
    return {.kind = forward ? ActionKind::send_forward : ActionKind::send_backward,
            .stage = sender(),
            .micro_batch = micro_batch};
  }
  [[nodiscard]] Action recv() const {
    return {.kind = forward ? ActionKind::recv_forward : ActionKind::recv_backward,
            .stage = receiver,
            .micro_batch = micro_batch};
  }
};

/// Who sends what to whom in a schedule.
class Routes {
 public:
  explicit Routes(const Schedule& schedule)
      : stages_(schedule.stages),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batches)),
        stage_to_rank_(schedule.stage_to_rank) {}

  /// What the action makes for another stage, on whichever rank.
  [[nodiscard]] std::optional<Message> made_by(const Action& action) const {
    if (action.kind == ActionKind::forward && action.stage + 1 < stages_)
      return Message{.micro_batch = action.micro_batch, .forward = true, .receiver = action.stage + 1};
    if (goes_back(action) && action.stage > 0)
      return Message{.micro_batch = action.micro_batch, .forward = false, .receiver = action.stage - 1};
    return std::nullopt;
  }
  /// What the action needs of another stage, on whichever rank.
  [[nodiscard]] std::optional<Message> needed_by(const Action& action) const {
    if (action.kind == ActionKind::forward && action.stage > 0)
      return Message{.micro_batch = action.micro_batch, .forward = true, .receiver = action.stage};
    if (goes_back(action) && action.stage + 1 < stages_)
      return Message{.micro_batch = action.micro_batch, .forward = false, .receiver = action.stage};
    return std::nullopt;
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
    return static_cast<std::size_t>(message.receiver) * micro_batches_ + static_cast<std::size_t>(message.micro_batch);
  }
  [[nodiscard]] std::size_t table_size() const { return static_cast<std::size_t>(stages_) * micro_batches_; }

 private:
  static bool goes_back(const Action& action) {
    return action.kind == ActionKind::backward || action.kind == ActionKind::input_gradient;
  }

  int stages_;
  std::size_t micro_batches_;
  std::span<const int> stage_to_rank_;
};

/// Throws InvalidArgument unless stage_to_rank is one of schedule.stages stages and schedule.ranks ranks, and for many
/// more stages and micro-batches than actions.
void require_stages(const Schedule& schedule);
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
[[noreturn]] void refuse_circle(std::span<const Waiting> waiting);

/// A schedule like this one whose rows are empty.
[[nodiscard]] Schedule with_empty_rows(const Schedule& schedule);

}  // namespace plumbline::schedules::detail
