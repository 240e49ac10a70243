// harness/launch/slow_calls.hpp: calls that took far longer than others like them, as the flight rings of all ranks
// tell it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "harness/launch/flight.hpp"

namespace plumbline::launch {

/// A call is slow when it takes this many times its own median.
inline constexpr int kSlowFactor = 1000;
/// A call that is faster than this is never slow: a machine that stops a rank for some milliseconds says nothing of a
/// backend.
inline constexpr std::chrono::nanoseconds kSlowFloor = std::chrono::seconds(1);

/// A line for each slow blocking call: "rank 1: all_reduce(f32 x 5, sum) #20 on world took 1.42 s, 20286 times the
/// median of 19 such calls (0.000070 s)". logs[r] is rank r's. A call's time begins when the last of its members has
/// come to it, so that who waits for a late member is not slow; of a message, when a member of the group last came to a
/// call before its end. Its median is that of the rank's other calls of the operation with as many elements or more, of
/// which there must be eight. What the rings no longer hold is not judged, nor is anything where a rank's log is on
/// another host.
[[nodiscard]] std::vector<std::string> slow_calls(const std::vector<FlightLog>& logs,
                                                  std::chrono::nanoseconds floor = kSlowFloor);

}  // namespace plumbline::launch
