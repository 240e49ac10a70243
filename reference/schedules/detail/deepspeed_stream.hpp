// reference/schedules/detail/deepspeed_stream.hpp: DeepSpeed's instruction streams.
//
// Model   A stage does the instructions of a step one after the other; steps are the same on all stages. Instructions
//         name buffers, not micro-batches: micro-batch k is in buffer k mod num_pipe_buffers. In a training step a
//         stage is at a forward or at a backward, by the parity of step and stage, and exchanges what the neighbours
//         made in the step before.
// Cost    O(steps) a stage.
// Source  DeepSpeed runtime/pipe/schedule.py, 0.19.8 and 0.6.3, which differ in the order of an exchange and by a
//         buffer.
#pragma once

#include <string>
#include <vector>

namespace plumbline::schedules {

struct InstructionStream {
  int stage = 0;
  int num_pipe_buffers = 0;
  bool is_first_stage = false;
  bool is_last_stage = false;
  std::vector<std::vector<std::string>> steps;  // as DeepSpeed prints them: "ForwardPass(buffer_id=0)"
};

enum class StreamKind {
  train,         // TrainSchedule: 1F1B
  inference,     // InferenceSchedule: forwards, with two buffers
  data_parallel  // DataParallelSchedule: one stage, gradient accumulation
};
/// 0.19 sends a gradient before it receives an activation, and receives a gradient before sending an activation; 0.6
/// the other way round, and it has a buffer more in training, if there are micro-batches for it.
enum class StreamOrder { deepspeed, deepspeed06 };

/// Of each stage. Throws InvalidArgument for stages < 1, micro_batches < 0, more than 2^26 of both together, and for
/// data_parallel with more than one stage or without micro-batches.
[[nodiscard]] std::vector<InstructionStream> deepspeed_streams(StreamKind kind, int stages, int micro_batches,
                                                               StreamOrder order = StreamOrder::deepspeed);

}  // namespace plumbline::schedules
