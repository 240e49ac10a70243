// harness/cli/training_task.hpp: what the runs of `plumbline train` share: a task in the workers, losses as a picture.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/launch/driver.hpp"
#include "harness/record/result.hpp"

namespace plumbline::cli {

struct TrainingTask {
  std::string name;  // of the worker's task
  int world = 1;
  std::string device = "cpu";  // that ranks compute on
  nlohmann::json arguments;
  double limit_seconds = 0;  // without an output, until it counts as hung
  std::function<void(const nlohmann::json& description)> described = [](const nlohmann::json&) {};
  std::function<void(const nlohmann::json& value)> output;
};

struct TrainingTaskEnd {
  record::Result result;
  bool whole = true;  // no signal ended it
  [[nodiscard]] bool passed() const { return whole && result.verdict == record::Verdict::pass; }
};

/// Runs it, with the driver's log on standard error; what the machine is to blame for is an error
/// (run::excused_by_machine). Throws what launch::run() throws.
TrainingTaskEnd run_task(const TrainingTask& task, const launch::Options& driver);

/// A line on standard error for a task that has not passed.
void say_how_it_ended(const std::string& name, const TrainingTaskEnd& end);

/// Throws InvalidArgument for an emulated device and a backend that does not serve its memory.
void require_served(const std::string& device, const launch::Subject& subject);

/// Losses as a row of blocks, the largest the tallest; at most `width` of them.
std::string sparkline(const std::vector<double>& losses, std::size_t width);

}  // namespace plumbline::cli
