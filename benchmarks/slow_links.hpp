// benchmarks/slow_links.hpp: messages that take as long as they would over slower links.
//
// Model   A rank has one way out: its messages leave it one after the other, each in bytes / bandwidth, and arrive a
//         latency later. A send is complete when its message has left, a receive when it has arrived. Sender and
//         receiver read one clock, so both are on one machine; a message's time of arrival travels beside it.
// Limits  Messages alone; other calls are as fast as they are. Waits sleep: what is emulated is to be well above what
//         the machine itself takes.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "reference/comm/communicator.hpp"

namespace plumbline::bench {

struct SlowLink {
  std::string_view name;
  double latency = 0;    // seconds
  double bandwidth = 1;  // bytes a second
};

/// The group with such links.
[[nodiscard]] std::unique_ptr<comm::Communicator> over_slow_links(std::unique_ptr<comm::Communicator> group,
                                                                  SlowLink link);

/// The mean over the group, in place, of f32: a ring's reduce-scatter and all-gather, by messages. Works on 2 (n - 1)
/// messages of a rank, each of count / n elements, `space` being memory of as many as the largest has.
void ring_all_reduce_mean(comm::Communicator& group, std::span<float> values, std::span<float> space);
/// What that takes by the links alone, and a round of gossip with so many peers. Seconds.
[[nodiscard]] double ring_all_reduce_seconds(SlowLink link, int ranks, double bytes);
[[nodiscard]] double gossip_seconds(SlowLink link, int peers, double bytes);

}  // namespace plumbline::bench
