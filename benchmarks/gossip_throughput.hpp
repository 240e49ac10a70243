// benchmarks/gossip_throughput.hpp: how fast do nodes gossip, and when is that faster than an all-reduce?
//
// Model   --sizes are the bytes of a model's parameters, f32. "rounds" are alone, "step" with a plain SGD step beside
//         them.
//           rounds.all_reduce, rounds.exchange   what a round is held against: an average over all; the same bytes sent
//                                                to the next rank and received from the one before, and nothing else
//           rounds.exchange_on                   the same, where each sends what it received last: values that are new
//                                                to the receiver's cache, as those of a round are
//           rounds.GRAPH.pN                      push-sum over that graph with N peers, or all neighbours ("all")
//           rounds.confirmed, rounds.skewed      of the n-peer graph: with confirmations; with uneven shares and
//                                                weights
//           step.base                            six steps of the optimizer alone
//           step.ALGORITHM                       with SlowMo's wrapper: an average every step ("all_reduce"), LocalSGD
//                                                every 3 steps, SGP, and slow momentum every 6 on top, in shards or
//                                                whole
//           network.KIND.*                       rounds over emulated links: a message leaves a rank after those
//                                                before it, at the link's bandwidth, and arrives its latency later. The
//                                                all-reduce is a ring's.
// Devices All but "network" in a device's memory as well, where the optimizer's step is a launch that subtracts the
// gradients.
// Numbers Beside the times: the bytes that a rank sends in a round.
#pragma once

#include "harness/bench/benchmark.hpp"

namespace plumbline::bench {

void add_gossip_throughput(Registry& registry);

}  // namespace plumbline::bench
