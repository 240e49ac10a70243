#include "reference/schedules/detail/messages_under_way.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules::detail {

using Kind = ActionKind;

void MessagesUnderWay::post(std::span<const Action> messages) {
  std::vector<GroupCalls> groups;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Action& message = messages[i];
    if (message.kind == Kind::recv_forward)
      wait_until_here({.kind = Kind::recv_metadata, .stage = message.stage, .micro_batch = message.micro_batch});
    calls_.add_calls(message, i, groups);
  }
  const double time = row_.now();
  for (std::size_t i = 0; i < messages.size(); ++i) row_.periods[row_.at + i] = {time, time};
  start(messages, groups);
}

// Messages of which each has works of its own are over one by one; else all of them together.
void MessagesUnderWay::start(std::span<const Action> messages, std::vector<GroupCalls>& groups) {
  std::vector<Posted> apart;
  for (std::size_t i = 0; i < messages.size(); ++i)
    apart.push_back({row_.at + i, messages.subspan(i, 1), {}, is_send(messages[i].kind)});
  Posted whole{row_.at, messages, {}, std::ranges::all_of(messages, is_send, &Action::kind)};
  bool are_apart = true;
  for (const GroupCalls& group : groups) {
    std::vector<comm::Work> works = start_each(*group.communicator, group.calls);
    are_apart = are_apart && works.size() == group.calls.size();
    for (std::size_t i = 0; i < works.size(); ++i)
      (are_apart ? apart[group.messages[i]] : whole).works.push_back(std::move(works[i]));
  }
  if (are_apart) {
    for (Posted& one : apart) take_up(std::move(one));
    return;
  }
  for (Posted& one : apart) std::ranges::move(one.works, std::back_inserter(whole.works));
  take_up(std::move(whole));
}

void MessagesUnderWay::take_up(Posted posted) {
  posted_.push_back(std::move(posted));
  if (posted_.back().sends_alone && ++outstanding_sends_ > options_.most_outstanding_sends)
    finish(std::ranges::find(posted_, true, &Posted::sends_alone));
}

bool MessagesUnderWay::wait_until_here(const Action& receive) {
  finish_where_under_way(receive);
  return received_.contains(name_of_message(receive));
}

// What was over before has been finished.
void MessagesUnderWay::wait_until_sent(const Action& wait) {
  Action send = wait;
  send.kind = wait.kind == Kind::wait_send_forward ? Kind::send_forward : Kind::send_backward;
  row_.periods[row_.at].start = row_.now();
  finish_where_under_way(send);
  row_.periods[row_.at].end = row_.now();
}

void MessagesUnderWay::finish_where_under_way(const Action& message) {
  const auto holds = [&](const Posted& posted) {
    return std::ranges::find(posted.messages, name_of_message(message), name_of_message) != posted.messages.end();
  };
  if (const auto posted = std::ranges::find_if(posted_, holds); posted != posted_.end()) finish(posted);
}

void MessagesUnderWay::finish_all() {
  while (!posted_.empty()) finish(posted_.begin());
}

void MessagesUnderWay::finish_what_is_over() {
  for (auto posted = posted_.begin(); posted != posted_.end();) {
    if (!posted->sends_alone || !std::ranges::all_of(posted->works, [](comm::Work& work) { return work.test(); })) {
      ++posted;
      continue;
    }
    const auto next = posted - posted_.begin();
    finish(posted);
    posted = posted_.begin() + next;
  }
}

void MessagesUnderWay::finish(Place place) {
  Posted posted = std::move(*place);
  posted_.erase(place);
  if (posted.sends_alone) --outstanding_sends_;
  try {
    for (comm::Work& work : posted.works) work.wait(options_.timeout);
  } catch (const comm::TimeoutError& error) {
    throw comm::TimeoutError(describe_wait(posted) + error.what());
  }
  for (std::size_t i = 0; i < posted.messages.size(); ++i) {
    const Action& message = posted.messages[i];
    if (is_send(message.kind))
      row_.periods[posted.position + i].end = row_.now();
    else
      received_.insert(name_of_message(message));
    if (callbacks_.release) callbacks_.release(message);
  }
}

std::string MessagesUnderWay::describe_wait(const Posted& posted) const {
  std::vector<std::string> awaited;
  for (const Action& message : posted.messages)
    awaited.push_back(fmt::format("{} {} rank {}", to_string(message), is_send(message.kind) ? "to" : "from",
                                  rank_of_stage(schedule_, peer_stage(message))));
  return fmt::format("rank {} at position {} ({}) waited for {}: ", communicator_.rank(), row_.at,
                     to_string(row_.actions[row_.at]), fmt::join(awaited, ", "));
}

}  // namespace plumbline::schedules::detail
