// benchmarks/pipeline_bubble.hpp: how long do the devices of a pipeline stand idle, and does the simulator say so?
//
// Model   pipeline_bubble.emulated runs a schedule, with its real messages, on devices that wait for as long as they
//         would compute. pipeline_bubble.libtorch trains a perceptron whose stages compute. Both run the schedule's
//         executor, and repeat a step; of each repetition they tell the figures of bubble_figures.hpp.
// Devices LibTorch's stages may compute on GPUs: computations are then timed by events of the stream that they are put
//         into, set by the machine's clock (stream_clock.hpp). Ranks that share a GPU share its default stream, and
//         take turns there: bubbles are a pipeline's where each has one of its own. The emulated stages have no memory.
// Units   seconds, bytes.
#pragma once

#include "harness/bench/benchmark.hpp"

namespace plumbline::bench {

/// Of "emulated": {"schedule","micro_batches","chunks","forward","input_gradient","weight_gradient": seconds of a
/// stage, "message_bytes","repetitions"}. Result: {"repetitions":[figures…]}.
/// Of "libtorch": {"schedule","micro_batches","chunks","width","rows": of a micro-batch,"folder": where the run's files
/// go,"device": what LibTorch computes on, "cpu" or the name of the place's kind,"repetitions"}. Result: the same; in
/// the figures of each repetition "stages":[{"forward","backward","input_gradient","weight_gradient"}…], the seconds
/// that computations took; "clock_uncertainty", the seconds by which a rank's events may be set wrong; and
/// "clocks_apart", by which those of two ranks may be; on the host 0. Throws NotAvailable where LibTorch is absent.
void add_pipeline_bubble(Registry& registry);

}  // namespace plumbline::bench
