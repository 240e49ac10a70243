// Executors of schedules with one wrong step. Each is the smallest change that a real fault would make.
#include <algorithm>

#include "harness/mutants/kinds.hpp"
#include "reference/schedules/executor.hpp"

namespace plumbline::mutants {

using schedules::Action;
using schedules::ActionKind;
using schedules::PipelineSteps;

namespace {

/// Steps that are right but for what `change` does to them.
MakeSteps with(std::function<void(PipelineSteps&)> change) {
  return [change = std::move(change)] {
    PipelineSteps steps;
    change(steps);
    return suite::Steps(std::move(steps));
  };
}

int tag_of_nothing(const Action&, int) { return 0; }
// Sends first; receives in an order of their own.
std::vector<comm::Work> gradients_before_activations(comm::Communicator& communicator,
                                                     std::span<const comm::Call> calls, comm::Timeout timeout) {
  std::vector<comm::Call> ordered(calls.begin(), calls.end());
  const auto receives = std::stable_partition(
      ordered.begin(), ordered.end(), [](const comm::Call& call) { return call.operation == comm::Operation::send; });
  std::reverse(receives, ordered.end());
  return schedules::start_together(communicator, ordered, timeout);
}

void forget_to_wait(std::span<const Action> messages, comm::Work& work, comm::Timeout timeout) {
  if (std::ranges::none_of(messages, [](const Action& message) { return message.kind == ActionKind::recv_backward; }))
    work.wait(timeout);
}

void other_micro_batch(const schedules::StageCallbacks& callbacks, Action action) {
  const bool is_backward = action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient;
  if (is_backward && action.micro_batch == 1) action.micro_batch = 0;
  schedules::call_back(callbacks, action);
}

// Each call is over before the next one is made, sends first.
std::vector<comm::Work> one_by_one(comm::Communicator& communicator, std::span<const comm::Call> calls,
                                   comm::Timeout timeout) {
  for (const bool sends : {true, false})
    for (const comm::Call& call : calls)
      if ((call.operation == comm::Operation::send) == sends) communicator.run(call, timeout);
  return {};
}

std::vector<Action> weights_at_the_end(const schedules::Schedule& schedule, int rank) {
  std::vector<Action> actions = schedules::actions_of_row(schedule, rank);
  std::stable_partition(actions.begin(), actions.end(),
                        [](const Action& action) { return action.kind != ActionKind::weight_gradient; });
  return actions;
}

}  // namespace

std::vector<Mutant> executor_mutants() {
  const auto at = [](const char* check, const char* schedule, const char* micro_batches, int world) {
    return std::string("schedules.executor.") + check + "[schedule=" + schedule + ",micro_batches=" + micro_batches +
           ",world=" + std::to_string(world) + "]";
  };
  return {
      {"pipe.match_by_peer", "SCHED-050", "messages are told apart by their peer and their order alone", "PIPE-04",
       at("sums_of_one_device", "interleaved", "2p", 2), at("sums_of_one_device", "interleaved", "2p", 3),
       "each neighbour is on one side only", with([](PipelineSteps& steps) {
         steps.tag = tag_of_nothing;
         steps.start = gradients_before_activations;
       })},
      {"sch.gradient_not_waited_for", "SCHED-050", "a backward begins before its gradient has come",
       "P2P-05: a buffer used before its wait", at("sums_of_one_device", "1f1b", "2p", 3), "",
       "every schedule on several ranks receives gradients",
       with([](PipelineSteps& steps) { steps.wait = forget_to_wait; })},
      {"sch.weight_of_the_first", "SCHED-050", "the second micro-batch is back-propagated as the first",
       "a closure that keeps its first value", at("sums_of_one_device", "1f1b", "2p", 2),
       at("sums_of_one_device", "1f1b", "1", 2), "there is one",
       with([](PipelineSteps& steps) { steps.compute = other_micro_batch; })},
      {"pipe.waits_for_each_send", "SCHED-051", "a send is over before the receive beside it is posted", "PIPE-05",
       at("comes_to_its_end", "1f1b", "2p", 3), at("comes_to_its_end", "1f1b", "2p", 3), "the messages are buffered",
       with([](PipelineSteps& steps) { steps.start = one_by_one; }), "rendezvous", "plain"},
      {"pipe.keep_all", "SCHED-052", "activations are kept for weight gradients that all come at the end", "PIPE-18",
       at("keeps_no_more", "zb-h2", "2p", 3), at("keeps_no_more", "1f1b", "2p", 3), "backwards are whole",
       with([](PipelineSteps& steps) { steps.actions = weights_at_the_end; })},
  };
}

}  // namespace plumbline::mutants
