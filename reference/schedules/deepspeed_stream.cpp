#include "reference/schedules/detail/deepspeed_stream.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::schedules {
namespace {

using Step = std::vector<std::string>;

InstructionStream empty_stream(int stage, int stages, int buffers) {
  return {.stage = stage,
          .num_pipe_buffers = buffers,
          .is_first_stage = stage == 0,
          .is_last_stage = stage == stages - 1,
          .steps = {}};
}

std::string with_buffer(std::string_view name, int buffer) { return fmt::format("{}(buffer_id={})", name, buffer); }

// What a stage is at in a step; the micro-batch may be one that does not exist.
struct Turn {
  bool forward = true;
  int micro_batch = -1;
};

// Even stages go forward in even steps, odd ones in odd steps. Forwards move up a stage each step from step 0 on,
// backwards down from step 2*stages - 1 on.
Turn turn_of(int step, int stage, int stages) {
  if (step % 2 == stage % 2) return {.forward = true, .micro_batch = (step - stage) / 2};
  const int since = step - (2 * stages - 1 - stage);
  return {.forward = false, .micro_batch = since < 0 ? -1 : since / 2};
}

class TrainStage {
 public:
  TrainStage(int stage, int stages, int micro_batches, StreamOrder order)
      : stages_(stages),
        micro_batches_(micro_batches),
        order_(order),
        stream_(empty_stream(stage, stages, buffers(stages - stage))) {}

  InstructionStream fill() {
    const int steps = 2 * (micro_batches_ + stages_ - 1);
    int previous = -1;
    for (int index = 0; index < steps; ++index) {
      const Turn turn = turn_of(index, stream_.stage, stages_);
      Step& step = stream_.steps.emplace_back();
      exchange(step, turn, previous);
      compute(step, turn);
      previous = turn.micro_batch;
    }
    if (!stream_.steps.empty())
      for (const char* last : {"ReduceTiedGrads()", "ReduceGrads()", "OptimizerStep()"})
        stream_.steps.back().emplace_back(last);
    return std::move(stream_);
  }

 private:
  // As many as are between a forward and its backward; 0.6 has one more.
  [[nodiscard]] int buffers(int ahead) const {
    return std::max(2, std::min(order_ == StreamOrder::deepspeed ? ahead : ahead + 1, micro_batches_));
  }
  [[nodiscard]] bool exists(int micro_batch) const { return micro_batch >= 0 && micro_batch < micro_batches_; }
  [[nodiscard]] std::string at_buffer(std::string_view name, int micro_batch) const {
    return with_buffer(name, micro_batch % stream_.num_pipe_buffers);
  }

  // At a forward with the stage before, at a backward with the next one: what the last step made goes, what this one
  // needs comes.
  void exchange(Step& step, const Turn& turn, int previous) const {
    if (turn.forward ? stream_.is_first_stage : stream_.is_last_stage) return;
    const auto send = [&] {
      if (exists(previous)) step.push_back(at_buffer(turn.forward ? "SendGrad" : "SendActivation", previous));
    };
    const auto receive = [&] {
      if (exists(turn.micro_batch))
        step.push_back(at_buffer(turn.forward ? "RecvActivation" : "RecvGrad", turn.micro_batch));
    };
    // 0.19 lets the two sides of a pair differ in who comes first; 0.6 has them the other way round.
    const bool send_first = turn.forward == (order_ == StreamOrder::deepspeed);
    if (send_first) send();
    receive();
    if (!send_first) send();
  }

  void compute(Step& step, const Turn& turn) const {
    if (!exists(turn.micro_batch)) return;
    if (turn.forward && (stream_.is_first_stage || stream_.is_last_stage))
      step.push_back(at_buffer("LoadMicroBatch", turn.micro_batch));
    step.push_back(at_buffer(turn.forward ? "ForwardPass" : "BackwardPass", turn.micro_batch));
  }

  int stages_;
  int micro_batches_;
  StreamOrder order_;
  InstructionStream stream_;
};

// Two buffers in turn: what one step receives the next one sends. Even stages send first.
InstructionStream inference_stage(int stage, int stages, int micro_batches) {
  InstructionStream stream = empty_stream(stage, stages, 2);
  const auto exists = [&](int micro_batch) { return micro_batch >= 0 && micro_batch < micro_batches; };
  for (int index = 0; index < micro_batches + stages - 1; ++index) {
    const int micro_batch = index - stage;
    const int receiving = (index + stage) % 2;
    Step& step = stream.steps.emplace_back();
    if ((stream.is_first_stage || stream.is_last_stage) && exists(micro_batch))
      step.push_back(with_buffer("LoadMicroBatch", receiving));
    const auto send = [&] {
      if (!stream.is_last_stage && exists(micro_batch - 1))
        step.push_back(with_buffer("SendActivation", 1 - receiving));
    };
    if (stage % 2 == 0) send();
    if (!stream.is_first_stage && exists(micro_batch)) step.push_back(with_buffer("RecvActivation", receiving));
    if (stage % 2 != 0) send();
    if (exists(micro_batch)) step.push_back(with_buffer("ForwardPass", receiving));
  }
  return stream;
}

InstructionStream data_parallel_stage(int micro_batches) {
  InstructionStream stream = empty_stream(0, 1, 1);
  for (int i = 0; i < micro_batches; ++i)
    stream.steps.push_back(
        {with_buffer("LoadMicroBatch", 0), with_buffer("ForwardPass", 0), with_buffer("BackwardPass", 0)});
  for (const char* last : {"ReduceGrads()", "OptimizerStep()"}) stream.steps.back().emplace_back(last);
  return stream;
}

}  // namespace

std::vector<InstructionStream> deepspeed_streams(StreamKind kind, int stages, int micro_batches, StreamOrder order) {
  constexpr std::int64_t kMost = std::int64_t{1} << 26;
  if (stages < 1 || micro_batches < 0 || std::int64_t{stages} * (std::int64_t{stages} + micro_batches) > kMost)
    throw InvalidArgument(
        fmt::format("instruction stream: {} stages and {} micro-batches make no streams", stages, micro_batches));
  if (kind == StreamKind::data_parallel && (stages != 1 || micro_batches < 1))
    throw InvalidArgument(fmt::format("DataParallelSchedule: one stage and at least one micro-batch, got {} and {}",
                                      stages, micro_batches));
  std::vector<InstructionStream> streams;
  for (int stage = 0; stage < stages; ++stage) {
    if (kind == StreamKind::train)
      streams.push_back(TrainStage(stage, stages, micro_batches, order).fill());
    else if (kind == StreamKind::inference)
      streams.push_back(inference_stage(stage, stages, micro_batches));
    else
      streams.push_back(data_parallel_stage(micro_batches));
  }
  return streams;
}

}  // namespace plumbline::schedules
