// benchmarks/allreduce_fusion.hpp: does it pay to reduce gradients together, and how many bytes at a time?
//
// Model   A step of the gradients of ResNet-50 or GPT-2 small. --sizes are bytes at which a bucket takes no more: 0
//         gives each gradient its own, 512Mi puts all into one.
//           per_tensor            a blocking all-reduce for each, where they lie
//           view, copy            through the reducer; gradients live in the buckets, or are copied in and out
//           copy_alone            only the copies of copy
//           backward              an emulated back-propagation that makes the gradients, and no reduction
//           overlap, serial       the same with reductions under way beside it, or after it
//         choice, beside and crossover are studies, of `plumbline bench allreduce_fusion`: all sizes in rounds, one
//         after the other; a backward with its reductions beside it and after it; and gradients of one size, reduced
//         one by one and copied together.
// Devices In a device's memory as well. The emulated back-propagation is then launches in a stream of its own, some for
//         each gradient, and the reductions' stream waits for each: what is reduced meanwhile is beside it. Times are
//         those of the latter.
// Answers All are held against known sums or means, differing from place to place and rank to rank, before the
//         timing: of each kind and size of buckets, a wrong one ends the benchmark and names rank, gradient and
//         element.
// Numbers Beside the times: launches and the bytes copied in and out, of one step.
#pragma once

#include "harness/bench/benchmark.hpp"

namespace plumbline::bench {

void add_allreduce_fusion(Registry& registry);

}  // namespace plumbline::bench
