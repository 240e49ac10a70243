// reference/gossip/backoff.hpp: whether a round of gossip that was interrupted is made again, and how long to wait before that.
//
// Model   1 ms, then each time twice as long: what passes soon costs little time, and what lasts little work. At most 1 s, and
//         a fourth of the heartbeat time, so that there are several tries in it.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "reference/comm/errors.hpp"

namespace plumbline::gossip {

/// Whether it may go better the next time: a wire may hold again, but no memory comes back by itself, and no device.
[[nodiscard]] inline bool may_pass(const RuntimeFailure& error) {
  return dynamic_cast<const DeviceFailure*>(&error) == nullptr;
}

class Backoff {
 public:
  explicit Backoff(std::chrono::nanoseconds heartbeat)
      : longest_(std::min(std::chrono::duration_cast<std::chrono::milliseconds>(heartbeat / 4),
                          std::chrono::milliseconds(1000))) {}

  /// The pause before the next try.
  std::chrono::milliseconds next() { return std::min(std::exchange(pause_, std::min(2 * pause_, longest_)), longest_); }

 private:
  std::chrono::milliseconds longest_, pause_{1};
};

}  // namespace plumbline::gossip
