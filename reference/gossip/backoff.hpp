// reference/gossip/backoff.hpp: how long to wait before a round of gossip that was interrupted is made again.
//
// Model   1 ms, then each time twice as long, 1 s at most: what passes soon costs little time, and what lasts little work.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace plumbline::gossip {

class Backoff {
 public:
  /// The pause before the next try.
  std::chrono::milliseconds next() {
    constexpr std::chrono::milliseconds longest{1000};
    return std::exchange(pause_, std::min(2 * pause_, longest));
  }

 private:
  std::chrono::milliseconds pause_{1};
};

}  // namespace plumbline::gossip
