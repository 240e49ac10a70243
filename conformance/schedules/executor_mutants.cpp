// Executors of schedules with one wrong step. Each is the smallest change that a real fault would make.
#include <algorithm>
#include <memory>
#include <optional>

#include "conformance/schedules/schedules_mutants.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::mutants {

using schedules::Action;
using schedules::ActionKind;
using schedules::DescriptionSteps;
using schedules::PipelineSteps;
using schedules::TensorDescriptions;

namespace {

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

// ---- what messages carry ----

MakeSteps telling(std::function<void(DescriptionSteps&)> change) {
  return [change = std::move(change)] {
    DescriptionSteps steps;
    change(steps);
    return suite::Steps(std::move(steps));
  };
}

TensorDescriptions all_f32(std::span<const std::int64_t> words) {
  TensorDescriptions tensors = schedules::decode(words);
  for (auto& tensor : tensors) tensor.dtype = comm::DType::f32;
  return tensors;
}

// The rank takes what it heard first for what it hears later.
void keep_the_first(DescriptionSteps& steps) {
  steps.decode = [first = std::make_shared<std::optional<TensorDescriptions>>()](std::span<const std::int64_t> words) {
    if (!*first) *first = schedules::decode(words);
    return **first;
  };
}

using Buffers = std::vector<comm::Buffer>;
using MostBytes = std::optional<std::int64_t>;

bool is_message_of_shapes(const Action& message) {
  return message.kind == ActionKind::send_metadata || message.kind == ActionKind::recv_metadata;
}

// What a tensor is split into is put into a variable of the loop, and the tensor is sent.
Buffers send_unsplit(const Action& message, std::span<const comm::Buffer> tensors, MostBytes most_bytes) {
  const bool goes_whole = is_send(message.kind) && !is_message_of_shapes(message);
  return schedules::pieces_of(message, tensors, goes_whole ? MostBytes() : most_bytes);
}

bool goes_in_pieces(const comm::Buffer& tensor, MostBytes most_bytes) {
  return most_bytes && static_cast<std::int64_t>(tensor.bytes()) > *most_bytes;
}

Buffers pieces_alone(const Action& message, std::span<const comm::Buffer> tensors, MostBytes most_bytes) {
  Buffers kept;
  std::ranges::copy_if(tensors, std::back_inserter(kept),
                       [&](const comm::Buffer& tensor) { return goes_in_pieces(tensor, most_bytes); });
  return is_message_of_shapes(message) ? schedules::pieces_of(message, tensors, most_bytes)
                                       : schedules::pieces_of(message, kept, most_bytes);
}

Buffers whole_pieces(const Action& message, std::span<const comm::Buffer> tensors, MostBytes most_bytes) {
  Buffers pieces;
  for (const comm::Buffer& tensor : tensors) {
    Buffers of_one = schedules::pieces_of(message, std::span(&tensor, 1), most_bytes);
    if (of_one.size() > 1 && of_one.back().count < of_one.front().count) of_one.pop_back();
    std::ranges::copy(of_one, std::back_inserter(pieces));
  }
  return pieces;
}

// What is posted on one group is over before anything is posted on the other.
std::vector<comm::Work> group_after_group(comm::Communicator& communicator, std::span<const comm::Call> calls,
                                          comm::Timeout timeout) {
  for (comm::Work& work : schedules::start_together(communicator, calls, timeout)) work.wait(timeout);
  return {};
}

// Sends that nobody waited for. They are, when the case is over.
class Unwaited {
 public:
  Unwaited() = default;
  ~Unwaited() {
    for (comm::Work& send : sends_) try {
        send.wait();
      } catch (const Error&) {  // nobody is left to hear of it
      }
  }
  Unwaited(const Unwaited&) = delete;
  Unwaited& operator=(const Unwaited&) = delete;
  void keep(comm::Work work) { sends_.push_back(std::move(work)); }

 private:
  std::vector<comm::Work> sends_;
};
void free_before_wait(PipelineSteps& steps) {
  steps.wait = [unwaited = std::make_shared<Unwaited>()](std::span<const Action> messages, comm::Work& work,
                                                         comm::Timeout timeout) {
    if (!std::ranges::all_of(messages, schedules::is_send, &Action::kind)) return work.wait(timeout);
    unwaited->keep(std::move(work));
  };
}

std::vector<Mutant> message_mutants() {
  const auto at = [](const char* check, const char* parameters, int world) {
    return std::string("schedules.messages.") + check + "[" + parameters + ",world=" + std::to_string(world) + "]";
  };
  return {
      {"p2p.dtype_default", "SCHED-053", "the receiver's memory is of f32, whatever comes", "P2P-01",
       at("dtypes", "dtype=f16", 3), at("dtypes", "dtype=f32", 3), "that is what comes",
       telling([](DescriptionSteps& steps) { steps.decode = all_f32; })},
      {"p2p.list_loopvar", "SCHED-054", "tensors that are received in pieces are sent whole", "P2P-02",
       at("lists", "list=mixed", 3), at("lists", "list=as_they_are", 3), "no tensor goes in pieces",
       with([](PipelineSteps& steps) { steps.split = send_unsplit; })},
      {"p2p.list_drop_unsplit", "SCHED-054", "tensors that need not go in pieces are left out", "P2P-02",
       at("lists", "list=mixed", 3), at("lists", "list=in_pieces", 3), "all do",
       with([](PipelineSteps& steps) { steps.split = pieces_alone; })},
      {"p2p.shape_of_the_first", "SCHED-055", "the receiver takes the first shapes for those of all micro-batches",
       "P2P-06", at("shapes", "schedule=1f1b,shapes=changing", 2), at("shapes", "schedule=1f1b,shapes=constant", 2),
       "they are", telling(keep_the_first)},
      {"p2p.promise_not_looked_at", "SCHED-056", "an output is sent whatever was promised", "P2P-06",
       at("promises", "told=never,promise=broken", 3), at("promises", "told=never,promise=kept", 3),
       "it is what was promised", telling([](DescriptionSteps& steps) {
         steps.is_same = [](const TensorDescriptions&, const TensorDescriptions&) { return true; };
       })},
      {"p2p.chunk_tail", "SCHED-057", "the last piece of a tensor is lost when it is shorter than the others", "P2P-07",
       at("sizes", "size=t+1", 3), at("sizes", "size=t", 3), "nothing goes in pieces",
       with([](PipelineSteps& steps) { steps.split = whole_pieces; })},
      {"p2p.two_comm_order", "SCHED-058", "what is posted on one group is over before the other's turn", "P2P-08",
       at("two_groups", "schedule=1f1b,groups=two", 3), at("two_groups", "schedule=1f1b,groups=one", 3),
       "there is one, on which all is posted together",
       with([](PipelineSteps& steps) { steps.start = group_after_group; }), "rendezvous", "rendezvous"},
      {"p2p.free_before_wait", "SCHED-059", "memory is given back when its send was posted", "P2P-05",
       at("memory", "size=small", 3), at("memory", "size=small", 3), "short messages are read when they are posted",
       with(free_before_wait), "chaos:1", "plain"},
  };
}

std::vector<Mutant> run_mutants() {
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
      {"pipe.waits_for_all_that_was_posted", "SCHED-112",
       "what is posted together is over together, for the computation that waits for one of it", "measured: idle ranks",
       "schedules.executor.waits_for_its_input_alone[posted=together,world=2]",
       "schedules.executor.waits_for_its_input_alone[posted=apart,world=2]", "each message is posted by itself",
       with([](PipelineSteps& steps) { steps.start = schedules::start_together; }), "rendezvous", "rendezvous"},
      {"pipe.keep_all", "SCHED-052", "activations are kept for weight gradients that all come at the end", "PIPE-18",
       at("keeps_no_more", "zb-h2", "2p", 3), at("keeps_no_more", "1f1b", "2p", 3), "backwards are whole",
       with([](PipelineSteps& steps) { steps.actions = weights_at_the_end; })},
  };
}

}  // namespace

std::vector<Mutant> executor_mutants() {
  std::vector<Mutant> all = run_mutants();
  std::ranges::move(message_mutants(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
