#include "reference/schedules/executor.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/well_formed.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = ActionKind;

constexpr int kDirections = 3;  // outputs, gradients, metadata

void refuse_unless_fits(const Schedule& schedule, const comm::Communicator& communicator,
                        const ExecutorOptions& options) {
  if (static_cast<std::size_t>(communicator.size()) != schedule.ranks.size())
    throw InvalidArgument(fmt::format("run_rank: the schedule has {} ranks, the communicator {}", schedule.ranks.size(),
                                      communicator.size()));
  if (options.gradients &&
      (options.gradients->size() != communicator.size() || options.gradients->rank() != communicator.rank()))
    throw InvalidArgument(fmt::format("run_rank: this is rank {} of {}, and rank {} of {} in the gradients' group",
                                      communicator.rank(), communicator.size(), options.gradients->rank(),
                                      options.gradients->size()));
  if (options.most_bytes_a_call.value_or(1) < 1)
    throw InvalidArgument(
        fmt::format("run_rank: most_bytes_a_call must be 1 or more, got {}", *options.most_bytes_a_call));
  constexpr std::int64_t kMostTags = std::numeric_limits<int>::max();
  if (std::int64_t{schedule.stages} * schedule.micro_batches > kMostTags / kDirections)
    throw InvalidArgument(fmt::format("run_rank: {} stages x {} micro-batches have more messages than there are tags",
                                      schedule.stages, schedule.micro_batches));
  if (detail::flaw_of(schedule) != detail::Flaw::none)
    throw InvalidArgument(fmt::format("run_rank: {} stages need a rank of {} each, {} are given", schedule.stages,
                                      communicator.size(), schedule.stage_to_rank.size()));
}

bool has_callback(const StageCallbacks& callbacks, ActionKind kind) {
  switch (kind) {
    case Kind::forward:
      return callbacks.forward != nullptr;
    case Kind::backward:
      return callbacks.backward != nullptr;
    case Kind::input_gradient:
      return callbacks.input_gradient != nullptr;
    case Kind::weight_gradient:
      return callbacks.weight_gradient != nullptr;
    default:
      return !is_message(kind) || callbacks.buffer != nullptr || callbacks.tensors != nullptr;
  }
}

void call_back(const StageCallbacks& callbacks, const Action& action) {
  const auto of_stage = [&](const StageCallbacks::OfStage& callback) {
    if (callback) callback(action.stage);
  };
  switch (action.kind) {
    case Kind::forward:
      return callbacks.forward(action.stage, action.micro_batch);
    case Kind::backward:
      return callbacks.backward(action.stage, action.micro_batch);
    case Kind::input_gradient:
      return callbacks.input_gradient(action.stage, action.micro_batch);
    case Kind::weight_gradient:
      return callbacks.weight_gradient(action.stage, action.micro_batch);
    case Kind::unshard:
      return of_stage(callbacks.unshard);
    case Kind::reshard:
      return of_stage(callbacks.reshard);
    case Kind::reduce_gradients:
      return of_stage(callbacks.reduce_gradients);
    default:
      return;
  }
}

// Starts all calls as one.
std::vector<comm::Work> start_together(comm::Communicator& communicator, std::span<const comm::Call> calls) {
  std::vector<comm::Work> works;
  works.push_back(communicator.start(calls));
  return works;
}

// Starts each call by itself, without waiting in between: a handle for each. As one where one would go behind the
// other: on the memory of devices, and over communicators without Capability::nonblocking.
std::vector<comm::Work> start_each(comm::Communicator& communicator, std::span<const comm::Call> calls) {
  const auto on_host = [](const comm::Call& call) {
    return call.in.device.kind == comm::Device::Kind::cpu && call.out.device.kind == comm::Device::Kind::cpu;
  };
  // Where start() lasts until a call is over, one behind another could wait for a rank that does so, too.
  if (!communicator.capabilities().has(comm::Capability::nonblocking) || !std::ranges::all_of(calls, on_host))
    return start_together(communicator, calls);
  std::vector<comm::Work> works;
  for (const comm::Call& call : calls) works.push_back(communicator.start(call));
  return works;
}

bool is_same(const Action& message, const Action& other) {
  return message.kind == other.kind && message.stage == other.stage && message.micro_batch == other.micro_batch;
}

class Executor {
 public:
  Executor(comm::Communicator& communicator, const Schedule& schedule, const StageCallbacks& callbacks,
           const ExecutorOptions& options)
      : communicator_(communicator),
        schedule_(schedule),
        callbacks_(callbacks),
        options_(options),
        actions_(schedule.ranks[static_cast<std::size_t>(communicator.rank())]) {
    for (const Action& action : actions_)
      if (!has_callback(callbacks, action.kind))
        throw InvalidArgument(fmt::format("run_rank: {} has no callback", to_string(action)));
    periods_.resize(actions_.size());
  }

  std::vector<Period> run() {
    // 1. All ranks begin together.
    communicator_.barrier(options_.timeout);
    begin_ = Clock::now();
    // 2. The row in its order, joined actions at once.
    for (at_ = 0; at_ < actions_.size();) {
      const std::span<const Action> joined = joined_actions();
      // 2a. Messages are started, and go on beside what follows.
      if (is_message(joined.front().kind)) post(joined);
      // 2b. The schedule's own waits for sends.
      else if (is_send_wait(joined.front().kind))
        wait_until_sent(joined.front());
      // 2c. Computations wait for their inputs alone.
      else
        compute(joined);
      // 2d. Sends that are over give their memory back.
      finish_what_is_over();
      at_ += joined.size();
    }
    // 3. What is still under way.
    at_ = actions_.empty() ? 0 : actions_.size() - 1;
    while (!posted_.empty()) finish(posted_.begin());
    return std::move(periods_);
  }

 private:
  // What is started together.
  struct GroupCalls {
    comm::Communicator* communicator;
    std::vector<comm::Call> calls;
    std::vector<std::size_t> messages;  // of each call, its message among the joined ones
  };
  // A message, or messages that are over together.
  struct Posted {
    std::size_t position = 0;  // of the first
    std::span<const Action> messages;
    std::vector<comm::Work> works;
    bool sends_alone = false;
  };
  using Place = std::deque<Posted>::iterator;

  // The next one with those that are joined to it.
  [[nodiscard]] std::span<const Action> joined_actions() const {
    std::size_t end = at_;
    while (end + 1 < actions_.size() && actions_[end].joined) ++end;
    return {actions_.data() + at_, end + 1 - at_};
  }
  [[nodiscard]] double now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  [[nodiscard]] int rank_of(int stage) const {
    return stage < 0 || stage >= schedule_.stages ? -1 : schedule_.stage_to_rank[static_cast<std::size_t>(stage)];
  }

  void post(std::span<const Action> messages) {
    std::vector<GroupCalls> groups;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Action& message = messages[i];
      if (message.kind == Kind::recv_forward)
        wait_until_here({.kind = Kind::recv_metadata, .stage = message.stage, .micro_batch = message.micro_batch});
      add_calls(message, i, groups);
    }
    const double time = now();
    for (std::size_t i = 0; i < messages.size(); ++i) periods_[at_ + i] = {time, time};
    start(messages, groups);
  }
  // Messages of which each has works of its own are over one by one; else all of them together.
  void start(std::span<const Action> messages, std::vector<GroupCalls>& groups) {
    std::vector<Posted> apart;
    for (std::size_t i = 0; i < messages.size(); ++i)
      apart.push_back({at_ + i, messages.subspan(i, 1), {}, is_send(messages[i].kind)});
    Posted whole{at_, messages, {}, std::ranges::all_of(messages, is_send, &Action::kind)};
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
  void take_up(Posted posted) {
    posted_.push_back(std::move(posted));
    if (posted_.back().sends_alone && ++outstanding_sends_ > options_.most_outstanding_sends)
      finish(std::ranges::find(posted_, true, &Posted::sends_alone));
  }
  void add_calls(const Action& message, std::size_t number, std::vector<GroupCalls>& groups) {
    const bool is_gradient = message.kind == Kind::send_backward || message.kind == Kind::recv_backward;
    comm::Communicator* const over = is_gradient && options_.gradients ? options_.gradients : &communicator_;
    const bool sends = is_send(message.kind);
    for (const comm::Buffer& piece : pieces_of(memory_of(message), options_.most_bytes_a_call)) {
      comm::Call call{.operation = sends ? comm::Operation::send : comm::Operation::recv,
                      .root = rank_of(peer_stage(message)),
                      .tag = tag_of(message, schedule_.stages)};
      if (sends)
        call.in = piece;
      else
        call.out = piece;
      auto group = std::ranges::find(groups, over, &GroupCalls::communicator);
      if (group == groups.end()) group = groups.insert(groups.end(), {over, {}, {}});
      group->calls.push_back(call);
      group->messages.push_back(number);
    }
  }
  [[nodiscard]] std::vector<comm::Buffer> memory_of(const Action& message) const {
    if (callbacks_.tensors) return callbacks_.tensors(message);
    return {callbacks_.buffer(message)};
  }

  void compute(std::span<const Action> group) {
    for (const Action& action : group) await_inputs(action);
    for (const Action& action : group) {
      Period& period = periods_[at_ + static_cast<std::size_t>(&action - group.data())];
      period.start = now();
      if (options_.around)
        options_.around(action, [&] { call_back(callbacks_, action); });
      else
        call_back(callbacks_, action);
      period.end = now();
      hand_over(action);
    }
  }
  void await_inputs(const Action& action) {
    if (action.kind == Kind::forward && action.stage > 0)
      await_from(action, {.kind = Kind::recv_forward, .stage = action.stage, .micro_batch = action.micro_batch});
    if ((action.kind == Kind::backward || action.kind == Kind::input_gradient) && action.stage + 1 < schedule_.stages)
      await_from(action, {.kind = Kind::recv_backward, .stage = action.stage, .micro_batch = action.micro_batch});
  }
  void await_from(const Action& action, const Action& receive) {
    const bool has_come = wait_until_here(receive);
    if (!has_come && rank_of(peer_stage(receive)) != communicator_.rank())
      throw StateError(fmt::format("rank {} at position {}: {} needs {}, which is not before it", communicator_.rank(),
                                   at_, to_string(action), to_string(receive)));
  }
  // Finishes the message where it is under way. Returns whether it has come.
  bool wait_until_here(const Action& receive) {
    for (auto posted = posted_.begin(); posted != posted_.end(); ++posted)
      if (std::ranges::any_of(posted->messages, [&](const Action& message) { return is_same(message, receive); })) {
        finish(posted);
        break;
      }
    return received_.contains(name_of_message(receive));
  }
  // What was over before has been finished.
  void wait_until_sent(const Action& wait) {
    Action send = wait;
    send.kind = wait.kind == Kind::wait_send_forward ? Kind::send_forward : Kind::send_backward;
    periods_[at_].start = now();
    for (auto posted = posted_.begin(); posted != posted_.end(); ++posted)
      if (std::ranges::any_of(posted->messages, [&](const Action& message) { return is_same(message, send); })) {
        finish(posted);
        break;
      }
    periods_[at_].end = now();
  }
  using Name = std::tuple<Kind, int, int>;
  static Name name_of_message(const Action& message) { return {message.kind, message.stage, message.micro_batch}; }

  void hand_over(const Action& action) {
    const bool up = action.kind == Kind::forward;
    if (!up && action.kind != Kind::backward && action.kind != Kind::input_gradient) return;
    const Action send{.kind = up ? Kind::send_forward : Kind::send_backward,
                      .stage = action.stage,
                      .micro_batch = action.micro_batch};
    if (callbacks_.hand_over && rank_of(peer_stage(send)) == communicator_.rank()) callbacks_.hand_over(send);
  }

  void finish_what_is_over() {
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
  void finish(Place place) {
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
        periods_[posted.position + i].end = now();
      else
        received_.insert(name_of_message(message));
      if (callbacks_.release) callbacks_.release(message);
    }
  }
  [[nodiscard]] std::string describe_wait(const Posted& posted) const {
    std::string words =
        fmt::format("rank {} at position {} ({}) waited for", communicator_.rank(), at_, to_string(actions_[at_]));
    for (const Action& message : posted.messages)
      words += fmt::format("{} {} {} rank {}", &message == posted.messages.data() ? "" : ",", to_string(message),
                           is_send(message.kind) ? "to" : "from", rank_of(peer_stage(message)));
    return words + ": ";
  }

  comm::Communicator& communicator_;
  const Schedule& schedule_;
  const StageCallbacks& callbacks_;
  const ExecutorOptions& options_;
  std::span<const Action> actions_;
  std::vector<Period> periods_;
  Clock::time_point begin_;
  std::size_t at_ = 0;
  std::deque<Posted> posted_;
  std::size_t outstanding_sends_ = 0;
  std::set<Name> received_;
};

}  // namespace

int tag_of(const Action& message, int stages) {
  const int direction = is_metadata(message.kind) ? 2 : direction_of_message(message.kind) > 0 ? 0 : 1;
  return (message.micro_batch * stages + sending_stage(message)) * kDirections + direction;
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

std::vector<Period> run_rank(comm::Communicator& communicator, const Schedule& schedule,
                             const StageCallbacks& callbacks, const ExecutorOptions& options) {
  refuse_unless_fits(schedule, communicator, options);
  return Executor(communicator, schedule, callbacks, options).run();
}

}  // namespace plumbline::schedules
