#include "reference/schedules/detail/operation_costs.hpp"

#include <string>

#include <fmt/format.h>

namespace plumbline::adapter {

using schedules::ActionKind;
using schedules::StageTimes;

std::vector<double> read_numbers(const Arguments& arguments, std::string_view name) {
  if (arguments.get<nlohmann::json>(name).is_array()) return arguments.get<std::vector<double>>(name);
  return {arguments.get<double>(name)};
}

void read_durations(const Arguments& arguments, std::vector<StageTimes>& stages,
                    const std::function<bool(ActionKind kind)>& needed) {
  const auto durations = arguments.get<Arguments>("durations");
  const auto read = [&](ActionKind kind, const auto& field) {
    const std::string name(name_of(kind));
    if (!durations.has(name) && (kind == ActionKind::backward || !needed(kind))) return;
    const std::vector<double> numbers = read_numbers(durations, name);
    if (numbers.size() != 1 && numbers.size() != stages.size())
      arguments.refuse(fmt::format("durations.{} has {} entries for {} stages", name, numbers.size(), stages.size()));
    for (std::size_t stage = 0; stage < stages.size(); ++stage)
      field(stages[stage]) = numbers.size() == 1 ? numbers.front() : numbers[stage];
  };
  read(ActionKind::forward, [](StageTimes& stage) -> auto& { return stage.forward; });
  read(ActionKind::backward, [](StageTimes& stage) -> auto& { return stage.backward; });
  read(ActionKind::input_gradient, [](StageTimes& stage) -> auto& { return stage.input_gradient; });
  read(ActionKind::weight_gradient, [](StageTimes& stage) -> auto& { return stage.weight_gradient; });
}

std::vector<ArgumentRow> duration_rows() {
  const std::string type = "number or list of number [s]";
  return {{"F", type, "forward pass, of every stage or of each", kOptional},
          {"B", type, "whole backward pass; null: I + W", kOptional},
          {"I", type, "input gradients of the backward pass", kOptional},
          {"W", type, "weight gradients of the backward pass", kOptional}};
}

void read_messages(const Arguments& arguments, schedules::SimulationOptions& options) {
  options.links.latency = arguments.get<double>("latency", options.links.latency);
  options.links.bandwidth = arguments.get<double>("bandwidth", options.links.bandwidth);
  if (arguments.has("message_bytes")) options.message_bytes = read_numbers(arguments, "message_bytes");
}

}  // namespace plumbline::adapter
