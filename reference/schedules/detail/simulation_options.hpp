// reference/schedules/detail/simulation_options.hpp: what simulate() and its like demand of their arguments.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules::detail {

/// Of a list with one entry for each, or one for all.
template <class T>
[[nodiscard]] const T& of_each(const std::vector<T>& list, int index) {
  return list.size() == 1 ? list.front() : list[static_cast<std::size_t>(index)];
}

/// These throw InvalidArgument.
void refuse_unless_number(double value, double low, std::string_view what);
void refuse_unless_schedule(const Schedule& schedule);
void refuse_unless_options(const Schedule& schedule, const SimulationOptions& options);

}  // namespace plumbline::schedules::detail
