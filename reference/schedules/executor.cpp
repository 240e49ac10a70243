#include "reference/schedules/executor.hpp"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/message_calls.hpp"
#include "reference/schedules/detail/messages_under_way.hpp"
#include "reference/schedules/detail/well_formed.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

using Kind = ActionKind;

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
  if (std::int64_t{schedule.stages} * schedule.micro_batches > kMostTags / detail::kMessageDirections)
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

class Executor {
 public:
  Executor(comm::Communicator& communicator, const Schedule& schedule, const StageCallbacks& callbacks,
           const ExecutorOptions& options)
      : communicator_(communicator),
        schedule_(schedule),
        callbacks_(callbacks),
        options_(options),
        row_{schedule.ranks[static_cast<std::size_t>(communicator.rank())], {}, {}},
        messages_(communicator, schedule, callbacks, options, row_) {
    for (const Action& action : row_.actions)
      if (!has_callback(callbacks, action.kind))
        throw InvalidArgument(fmt::format("run_rank: {} has no callback", to_string(action)));
    row_.periods.resize(row_.actions.size());
  }

  std::vector<Period> run() {
    // 1. All ranks begin together.
    communicator_.barrier(options_.timeout);
    row_.begin = detail::RowInProgress::Clock::now();
    // 2. The row in its order, joined actions at once.
    for (row_.at = 0; row_.at < row_.actions.size();) {
      const std::span<const Action> joined = joined_actions();
      // 2a. Messages are started, and run beside what follows.
      if (is_message(joined.front().kind)) messages_.post(joined);
      // 2b. The schedule's own waits for sends.
      else if (is_send_wait(joined.front().kind))
        messages_.wait_until_sent(joined.front());
      // 2c. Computations wait for their inputs alone.
      else
        compute(joined);
      // 2d. Sends that are over give their memory back.
      messages_.finish_what_is_over();
      row_.at += joined.size();
    }
    // 3. What is still under way.
    row_.at = row_.actions.empty() ? 0 : row_.actions.size() - 1;
    messages_.finish_all();
    return std::move(row_.periods);
  }

 private:
  // The next one with those that are joined to it.
  [[nodiscard]] std::span<const Action> joined_actions() const {
    std::size_t end = row_.at;
    while (end + 1 < row_.actions.size() && row_.actions[end].joined) ++end;
    return {row_.actions.data() + row_.at, end + 1 - row_.at};
  }
  [[nodiscard]] bool is_here(int stage) const {
    return detail::rank_of_stage(schedule_, stage) == communicator_.rank();
  }

  void compute(std::span<const Action> group) {
    for (const Action& action : group) await_inputs(action);
    for (const Action& action : group) {
      Period& period = row_.periods[row_.at + static_cast<std::size_t>(&action - group.data())];
      period.start = row_.now();
      if (options_.around)
        options_.around(action, [&] { call_back(callbacks_, action); });
      else
        call_back(callbacks_, action);
      period.end = row_.now();
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
    const bool has_come = messages_.wait_until_here(receive);
    if (!has_come && !is_here(peer_stage(receive)))
      throw StateError(fmt::format("rank {} at position {}: {} needs {}, which is not before it", communicator_.rank(),
                                   row_.at, to_string(action), to_string(receive)));
  }
  void hand_over(const Action& action) {
    const bool up = action.kind == Kind::forward;
    if (!up && action.kind != Kind::backward && action.kind != Kind::input_gradient) return;
    const Action send{.kind = up ? Kind::send_forward : Kind::send_backward,
                      .stage = action.stage,
                      .micro_batch = action.micro_batch};
    if (callbacks_.hand_over && is_here(peer_stage(send))) callbacks_.hand_over(send);
  }

  comm::Communicator& communicator_;
  const Schedule& schedule_;
  const StageCallbacks& callbacks_;
  const ExecutorOptions& options_;
  detail::RowInProgress row_;
  detail::MessagesUnderWay messages_;
};

}  // namespace

std::vector<Period> run_rank(comm::Communicator& communicator, const Schedule& schedule,
                             const StageCallbacks& callbacks, const ExecutorOptions& options) {
  refuse_unless_fits(schedule, communicator, options);
  return Executor(communicator, schedule, callbacks, options).run();
}

}  // namespace plumbline::schedules
