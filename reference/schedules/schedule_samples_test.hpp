// reference/schedules/schedule_samples_test.hpp: schedules for tests, from rows of text or at random and valid;
// refusals as words.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "reference/comm/errors.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules::samples {

/// With what words a call is refused as an InvalidArgument; "" when it is not.
template <class Call>
std::string refusal(const Call& call) {
  try {
    (void)call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

/// Stages in turn on the ranks unless told where they are.
inline Schedule from_rows(const std::vector<std::string>& rows, int micro_batches,
                          std::vector<int> stage_to_rank = {}) {
  Schedule schedule;
  for (const std::string& row : rows) schedule.ranks.push_back(parse_row(row));
  if (stage_to_rank.empty())
    for (int rank = 0; rank < static_cast<int>(rows.size()); ++rank) stage_to_rank.push_back(rank);
  schedule.stages = static_cast<int>(stage_to_rank.size());
  schedule.micro_batches = micro_batches;
  schedule.stage_to_rank = std::move(stage_to_rank);
  return schedule;
}

/// Writes down a run in which whatever may happen next happens at random: computations of the stages, whole or split
/// backwards, and messages, which both ranks of it write down at the same moment.
class RandomRun {
 public:
  RandomRun(int ranks, int stages, int micro_batches, bool messages, std::uint64_t seed)
      : messages_(messages), random_(seed) {
    schedule_.stages = stages;
    schedule_.micro_batches = micro_batches;
    schedule_.ranks.resize(static_cast<std::size_t>(ranks));
    for (int stage = 0; stage < stages; ++stage) schedule_.stage_to_rank.push_back(pick(ranks));
    for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) offer(ActionKind::forward, 0, micro_batch);
  }

  Schedule write() {
    while (!open_.empty()) {
      const auto chosen = static_cast<std::size_t>(pick(static_cast<int>(open_.size())));
      const Action action = open_[chosen];
      open_[chosen] = open_.back();
      open_.pop_back();
      take(action);
    }
    return schedule_;
  }

 private:
  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(random_); }
  void offer(ActionKind kind, int stage, int micro_batch) {
    open_.push_back({.kind = kind, .stage = stage, .micro_batch = micro_batch});
  }
  [[nodiscard]] int rank_of(int stage) const { return schedule_.stage_to_rank[static_cast<std::size_t>(stage)]; }
  void write_down(ActionKind kind, int stage, int micro_batch) {
    schedule_.ranks[static_cast<std::size_t>(rank_of(stage))].push_back(
        {.kind = kind, .stage = stage, .micro_batch = micro_batch});
  }
  void offer_backward(int stage, int micro_batch) {
    offer(pick(2) == 0 ? ActionKind::backward : ActionKind::input_gradient, stage, micro_batch);
  }
  void take(const Action& action) {
    const auto& [kind, joined, stage, micro_batch] = action;
    write_down(kind, stage, micro_batch);
    switch (kind) {
      case ActionKind::forward:
        if (stage + 1 == schedule_.stages)
          offer_backward(stage, micro_batch);
        else if (messages_ && rank_of(stage) != rank_of(stage + 1))
          offer(ActionKind::send_forward, stage, micro_batch);
        else
          offer(ActionKind::forward, stage + 1, micro_batch);
        break;
      case ActionKind::send_forward:
        write_down(ActionKind::recv_forward, stage + 1, micro_batch);
        offer(ActionKind::forward, stage + 1, micro_batch);
        break;
      case ActionKind::input_gradient:
        offer(ActionKind::weight_gradient, stage, micro_batch);
        [[fallthrough]];
      case ActionKind::backward:
        if (stage == 0) break;
        if (messages_ && rank_of(stage) != rank_of(stage - 1))
          offer(ActionKind::send_backward, stage, micro_batch);
        else
          offer_backward(stage - 1, micro_batch);
        break;
      case ActionKind::send_backward:
        write_down(ActionKind::recv_backward, stage - 1, micro_batch);
        offer_backward(stage - 1, micro_batch);
        break;
      default:
        break;
    }
  }

  bool messages_;
  std::mt19937_64 random_;
  Schedule schedule_;
  std::vector<Action> open_;  // what may happen next
};

}  // namespace plumbline::schedules::samples
