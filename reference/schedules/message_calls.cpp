#include "reference/schedules/detail/message_calls.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace detail {

using Kind = ActionKind;

int rank_of_stage(const Schedule& schedule, int stage) {
  return stage < 0 || stage >= schedule.stages ? -1 : schedule.stage_to_rank[static_cast<std::size_t>(stage)];
}

void MessageCalls::add_calls(const Action& message, std::size_t number, std::vector<GroupCalls>& groups) const {
  const bool is_gradient = message.kind == Kind::send_backward || message.kind == Kind::recv_backward;
  comm::Communicator* const over = is_gradient && options_.gradients ? options_.gradients : &communicator_;
  const bool sends = is_send(message.kind);
  for (const comm::Buffer& piece : pieces_of(memory_of(message), options_.most_bytes_a_call)) {
    comm::Call call{.operation = sends ? comm::Operation::send : comm::Operation::recv,
                    .root = rank_of_stage(schedule_, peer_stage(message)),
                    .tag = tag_of(message, schedule_.stages)};
    if (sends)
      call.in = piece;
    else
      call.out = piece;
    const auto known = std::ranges::find(groups, over, &GroupCalls::communicator);
    GroupCalls& group = known != groups.end() ? *known : groups.emplace_back(GroupCalls{over, {}, {}});
    group.calls.push_back(call);
    group.messages.push_back(number);
  }
}

std::vector<comm::Buffer> MessageCalls::memory_of(const Action& message) const {
  if (callbacks_.tensors) return callbacks_.tensors(message);
  return {callbacks_.buffer(message)};
}

std::vector<comm::Work> start_together(comm::Communicator& communicator, std::span<const comm::Call> calls) {
  std::vector<comm::Work> works;
  works.push_back(communicator.start(calls));
  return works;
}

std::vector<comm::Work> start_each(comm::Communicator& communicator, std::span<const comm::Call> calls) {
  const auto on_host = [](const comm::Call& call) {
    return call.in.device.kind == comm::Device::Kind::cpu && call.out.device.kind == comm::Device::Kind::cpu;
  };
  // Where start() lasts until a call is over, one after another could wait for a rank that does so, too.
  if (!communicator.capabilities().has(comm::Capability::nonblocking) || !std::ranges::all_of(calls, on_host))
    return start_together(communicator, calls);
  std::vector<comm::Work> works;
  for (const comm::Call& call : calls) works.push_back(communicator.start(call));
  return works;
}

}  // namespace detail

int tag_of(const Action& message, int stages) {
  const int direction = is_metadata(message.kind) ? 2 : direction_of_message(message.kind) > 0 ? 0 : 1;
  return (message.micro_batch * stages + sending_stage(message)) * detail::kMessageDirections + direction;
}

std::vector<comm::Buffer> pieces_of(std::span<const comm::Buffer> tensors, std::optional<std::int64_t> most_bytes) {
  std::vector<comm::Buffer> pieces;
  for (const comm::Buffer& tensor : tensors) {
    const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
    const std::int64_t most = most_bytes ? std::max<std::int64_t>(1, *most_bytes / size) : tensor.count;
    std::int64_t done = 0;
    do {
      pieces.push_back(comm::part_of(tensor, done, std::min(most, tensor.count - done)));
      done += pieces.back().count;
    } while (done < tensor.count);
  }
  return pieces;
}

}  // namespace plumbline::schedules
