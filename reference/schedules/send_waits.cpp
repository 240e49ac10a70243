#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

bool is_waited_for(const Action& action) {
  return action.kind == ActionKind::send_forward || action.kind == ActionKind::send_backward;
}

Action wait_for_send(const Action& send) {
  return {
      .kind = send.kind == ActionKind::send_forward ? ActionKind::wait_send_forward : ActionKind::wait_send_backward,
      .stage = send.stage,
      .micro_batch = send.micro_batch};
}

std::vector<Action> row_with_waits(const std::vector<Action>& actions, std::size_t most_outstanding) {
  std::vector<Action> row;
  std::deque<Action> under_way;
  const auto wait = [&] {
    row.push_back(wait_for_send(under_way.front()));
    under_way.pop_front();
  };
  for (auto first = actions.begin(); first != actions.end();) {
    auto end = std::find_if(first, actions.end(), [](const Action& action) { return !action.joined; });
    if (end != actions.end()) ++end;
    const auto sends = static_cast<std::size_t>(std::count_if(first, end, is_waited_for));
    while (sends > 0 && !under_way.empty() && under_way.size() + sends > most_outstanding) wait();
    row.insert(row.end(), first, end);
    std::copy_if(first, end, std::back_inserter(under_way), is_waited_for);
    first = end;
  }
  while (!under_way.empty()) wait();
  return row;
}

}  // namespace

Schedule add_send_waits(const Schedule& schedule, int most_outstanding) {
  if (most_outstanding < 1)
    throw InvalidArgument(fmt::format("add_send_waits: at least one send may be under way, got {}", most_outstanding));
  Schedule result = schedule;
  for (std::vector<Action>& actions : result.ranks) {
    if (const auto wait = std::ranges::find_if(actions, is_send_wait, &Action::kind); wait != actions.end())
      throw InvalidArgument(fmt::format("add_send_waits: {} exists already", to_string(*wait)));
    actions = row_with_waits(actions, static_cast<std::size_t>(most_outstanding));
  }
  return result;
}

}  // namespace plumbline::schedules
