// reference/schedules/detail/operation_costs.hpp: reads what computations and messages of a schedule cost.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operation_row.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::adapter {

/// A list of numbers; a single one is a list of one.
[[nodiscard]] std::vector<double> read_numbers(const Arguments& arguments, std::string_view name);

/// What `durations` says of each stage, each of F, B, I and W a number or a list of stages; `stages` has what holds
/// where it says nothing. Throws InvalidArgument for a list of another length, and for one of F, I and W that is
/// `needed` and missing.
void read_durations(const Arguments& arguments, std::vector<schedules::StageTimes>& stages,
                    const std::function<bool(schedules::ActionKind kind)>& needed);

/// The rows of `durations`' fields.
[[nodiscard]] std::vector<ArgumentRow> duration_rows();

/// latency, bandwidth and message_bytes, as far as they are there.
void read_messages(const Arguments& arguments, schedules::SimulationOptions& options);

}  // namespace plumbline::adapter
