// reference/schedules/messages.hpp: who sends what to whom: the stage at a message's other end, and which way it goes.
//
// Model   Stages are a chain. A stage's output, and the shape of it, go to the next stage; the gradient of its input goes to
//         the stage before it. The stage of a message's action is that of the rank which has the action in its row.
#pragma once

#include <cstdint>

#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules {

[[nodiscard]] constexpr bool is_metadata(ActionKind kind) {
  return kind == ActionKind::send_metadata || kind == ActionKind::recv_metadata;
}
/// Of a message: 1 towards the output, -1 towards the input.
[[nodiscard]] constexpr int direction_of_message(ActionKind kind) {
  return kind == ActionKind::send_backward || kind == ActionKind::recv_backward ? -1 : 1;
}
/// Of what a computation needs of another stage and makes for another; 0 where it does neither.
[[nodiscard]] constexpr int direction_of_computation(ActionKind kind) {
  if (kind == ActionKind::forward) return 1;
  return kind == ActionKind::backward || kind == ActionKind::input_gradient ? -1 : 0;
}
/// From the stage of a message's action to that at its other end: 1 or -1.
[[nodiscard]] constexpr int distance_to_peer(ActionKind kind) {
  return is_send(kind) ? direction_of_message(kind) : -direction_of_message(kind);
}
/// The stage at the other end, which may lie outside of the chain.
[[nodiscard]] constexpr int peer_stage(const Action& message) { return message.stage + distance_to_peer(message.kind); }
[[nodiscard]] constexpr int sending_stage(const Action& message) {
  return is_send(message.kind) ? message.stage : peer_stage(message);
}
/// What the other end does.
[[nodiscard]] constexpr ActionKind partner_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::send_forward:
      return ActionKind::recv_forward;
    case ActionKind::recv_forward:
      return ActionKind::send_forward;
    case ActionKind::send_backward:
      return ActionKind::recv_backward;
    case ActionKind::recv_backward:
      return ActionKind::send_backward;
    case ActionKind::send_metadata:
      return ActionKind::recv_metadata;
    default:
      return ActionKind::send_metadata;
  }
}
[[nodiscard]] constexpr Action partner_of(const Action& message) {
  return {.kind = partner_of(message.kind), .stage = peer_stage(message), .micro_batch = message.micro_batch};
}

/// An output or a gradient on its way from stage to stage. Or none.
struct Message {
  std::int32_t micro_batch = 0;
  std::int32_t direction = 0;  // 1 forward, -1 backward; 0: there is no message
  std::int32_t receiver = 0;   // stage
  explicit constexpr operator bool() const { return direction != 0; }
  [[nodiscard]] constexpr bool forward() const { return direction > 0; }
  [[nodiscard]] constexpr std::int32_t sender() const { return receiver - direction; }
  [[nodiscard]] constexpr Action send() const {
    return {.kind = forward() ? ActionKind::send_forward : ActionKind::send_backward,
            .stage = sender(),
            .micro_batch = micro_batch};
  }
  [[nodiscard]] constexpr Action recv() const {
    return {.kind = forward() ? ActionKind::recv_forward : ActionKind::recv_backward,
            .stage = receiver,
            .micro_batch = micro_batch};
  }
};

}  // namespace plumbline::schedules
