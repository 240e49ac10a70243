// harness/launch/flight_compare.hpp: what the flight rings of several ranks say together.
#pragma once

#include <string>
#include <vector>

#include "harness/launch/flight.hpp"

namespace plumbline::launch {

/// The first collective of a group on which ranks disagree, as far as their rings go back; empty where there is none:
/// "collective #2 on world: ranks 0, 2 all_reduce(f32 x 5, sum), rank 1 barrier()". A rank that has not come so far
/// does not disagree. logs[r] is rank r's.
enum class Compared { all, completed };  // or only collectives that failed on no rank
[[nodiscard]] std::string first_difference(const std::vector<FlightLog>& logs, Compared compared = Compared::all);

/// Where two ranks entered blocking collectives of two groups, of which both are members, in different orders: each may
/// wait for the other, whether it came to that this time or not. Empty where there is none: "ranks 0 and 1 enter
/// blocking collectives of two groups in different orders: rank 0 barrier() #3 on world, rank 1 all_reduce(f32 x 5,
/// sum) #1 on [0 1]". A call that one of them only started, or that failed, is left out, and so is what a ring no
/// longer holds.
[[nodiscard]] std::string crossed_order(const std::vector<FlightLog>& logs);

/// Of a hang: two ranks that stand in blocking collectives of two groups, of which both are members, and neither of
/// which has been where the other stands. Empty where there are none: "ranks 0 and 1 wait for each other in two groups:
/// rank 0 barrier() #1 on world, rank 1 all_reduce(f32 x 5, sum) #1 on [0 1]".
[[nodiscard]] std::string crosswise_wait(const std::vector<FlightLog>& logs);

}  // namespace plumbline::launch
