// benchmarks/pipeline_bubble.hpp: how long do the devices of a pipeline stand idle, and does the simulator say so?
//
// Model   pipeline_bubble.emulated runs a schedule, with its real messages, on devices that wait for as long as they would
//         compute. pipeline_bubble.libtorch trains a perceptron whose stages compute. Both run the schedule's executor, and
//         repeat a step; of each repetition they tell the figures of bubble_figures.hpp.
// Units   seconds, bytes.
#pragma once

#include "harness/bench/benchmark.hpp"

namespace plumbline::bench {

/// Of "emulated": {"schedule","micro_batches","chunks","forward","input_gradient","weight_gradient": seconds of a stage,
/// "message_bytes","repetitions"}. Result: {"repetitions":[figures…]}.
/// Of "libtorch": {"schedule","micro_batches","chunks","width","rows": of a micro-batch,"folder": where the run's files
/// go,"repetitions"}. Result: the same, and in the figures of each repetition "stages":[{"forward","backward",
/// "input_gradient","weight_gradient"}…], the seconds that computations took. Throws NotAvailable where LibTorch is absent.
void add_pipeline_bubble(Registry& registry);

}  // namespace plumbline::bench
