// reference/schedules/processor_seconds_test.hpp: how long work takes a processor, whatever else the machine does.
#pragma once

#include <ctime>

namespace plumbline::schedules {

/// Of this process so far, in seconds.
[[nodiscard]] inline double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace plumbline::schedules
