// conformance/schedules/random_plans.hpp: right schedules in any order.
#pragma once

#include "conformance/support/property.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::conformance {

/// Writes down a run of up to 4 ranks, 6 stages anywhere and 4 micro-batches in which whatever may be next is next at
/// random; with messages, both ranks write them down at the same moment, one by one.
[[nodiscard]] schedules::Schedule random_plan(Random& random, bool messages);

}  // namespace plumbline::conformance
