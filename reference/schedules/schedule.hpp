// reference/schedules/schedule.hpp: what each rank of a pipeline does, in which order: a plain value.
//
// Model   A model is cut into stages, numbered from the input to the output; stage s is on rank stage_to_rank[s], and a
//         rank with several stages (chunks, virtual stages) has them in ascending order. A Schedule is a list of
//         actions for each rank, which it takes one after the other; nothing else orders them but that a stage's
//         forward needs the stage before it, its backward the stage after it and its own forward, and its weight
//         gradient its input gradient. A compute schedule has only computations; lowering (lowering.hpp) puts the
//         messages in between.
// Text    PyTorch's notation: <stage><action><micro-batch>, "0F3", "1SEND_B2", "0UNSHARD"; an empty cell is an idle
//         step; "(0F5;7B0)OVERLAP_F_B" are two computations at once, and "(0SEND_F1;0RECV_B0)P2P", which PyTorch does
//         not have, messages that are posted together. One row per rank, cells separated by commas.
// Cost    Text: O(length), about 10 ns an action; a million actions in well under a second.
// Source  torch.distributed.pipelining.schedules (the notation, the lowering's actions); Narayanan et al.,
//         arXiv:2104.04473.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::schedules {

enum class ActionKind : std::uint8_t {
  idle,
  forward,            // F
  backward,           // B: of input and weights
  input_gradient,     // I
  weight_gradient,    // W
  send_forward,       // of the stage's output, to the next stage
  recv_forward,       // of the stage's input, from the stage before it
  send_backward,      // of the gradient of the stage's input, to the stage before it
  recv_backward,      // of the gradient of the stage's output, from the next stage
  unshard,            // the stage's parameters are gathered
  reshard,            // and given up again
  reduce_gradients,   // over data-parallel ranks
  send_metadata,      // the shape of the stage's output, to the next stage, before the output itself
  recv_metadata,      // the shape of the stage's input, from the stage before it
  wait_send_forward,  // until the send of the stage's output is over, and its memory free
  wait_send_backward  // as wait_send, for its gradient
};
[[nodiscard]] std::string_view name_of(ActionKind kind);  // "F", "SEND_F", "REDUCE_GRAD", "" for idle
/// F, B, I, W.
[[nodiscard]] constexpr bool is_compute(ActionKind kind) {
  return kind >= ActionKind::forward && kind <= ActionKind::weight_gradient;
}
/// The three of sending.
[[nodiscard]] constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward || kind == ActionKind::send_metadata;
}
/// The six of sending and receiving.
[[nodiscard]] constexpr bool is_message(ActionKind kind) {
  return (kind >= ActionKind::send_forward && kind <= ActionKind::recv_backward) || kind == ActionKind::send_metadata ||
         kind == ActionKind::recv_metadata;
}

/// The two of waiting for a send.
[[nodiscard]] constexpr bool is_send_wait(ActionKind kind) {
  return kind == ActionKind::wait_send_forward || kind == ActionKind::wait_send_backward;
}

inline constexpr int kNoMicroBatch = -1;
/// More than any pipeline has, so that an action is eight bytes: a plan has millions of them.
inline constexpr int kMostStages = 1 << 22;

struct Action {
  ActionKind kind = ActionKind::idle;
  /// With the next action of the rank: two computations at once, or messages that are posted together.
  bool joined : 1 = false;
  std::int32_t stage : 23 = 0;  // below kMostStages
  std::int32_t micro_batch = kNoMicroBatch;
  bool operator==(const Action&) const = default;
};
static_assert(sizeof(Action) == 8);
/// "0F3".
[[nodiscard]] std::string to_string(const Action& action);

struct Schedule {
  int stages = 1;
  int micro_batches = 1;
  std::vector<int> stage_to_rank;          // of each stage
  std::vector<std::vector<Action>> ranks;  // what each does
  bool operator==(const Schedule&) const = default;
};

/// Where stages lie: in a loop (0, 1, 0, 1), or there and back (0, 1, 1, 0).
enum class Placement { loop, v };
/// The rank of each stage. Throws InvalidArgument for fewer than one rank or stage, and for there and back unless the
/// ranks divide the stages. Source: torch.distributed.pipelining's generate_stage_to_rank_mapping.
[[nodiscard]] std::vector<int> stage_to_rank(int ranks, int stages, Placement placement);

/// A row of cells, without end of line.
[[nodiscard]] std::string to_csv(std::span<const Action> actions);
/// All rows, a line each.
[[nodiscard]] std::string to_csv(const Schedule& schedule);
/// The actions of a row; of an empty one, none. Blanks around a cell are ignored. Throws InvalidArgument with line,
/// column (of cells, from 1), the cell and what it may be.
[[nodiscard]] std::vector<Action> parse_row(std::string_view row, int line = 1);
/// A schedule in CSV: a line a rank; an empty line is a rank that does nothing. Stages and micro-batches are counted
/// from the cells; stage_to_rank follows from who computes what. Throws InvalidArgument with line and column; also for
/// a stage that two ranks compute, or that none does, and for no lines at all.
[[nodiscard]] Schedule parse_csv(std::string_view text);

}  // namespace plumbline::schedules
