// harness/launch/speed.hpp: how slow this machine is at the moment, so that time limits mean the same everywhere.
#pragma once

namespace plumbline::launch {

/// How many times longer than on the machine for which limits were chosen a fixed piece of work takes here and now:
/// some arithmetic, and threads that wake each other. From 1 (a faster machine keeps the limits) to kSlowest. Takes
/// some 40 ms there.
[[nodiscard]] double measure_slowness();
inline constexpr double kSlowest = 20;

}  // namespace plumbline::launch
