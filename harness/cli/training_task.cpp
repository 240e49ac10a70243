#include "harness/cli/training_task.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "harness/cli/cases.hpp"
#include "harness/run/case_rules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {

using nlohmann::json;

TrainingTaskEnd run_task(const TrainingTask& task, const launch::Options& given) {
  launch::Options driver = given;
  std::ranges::copy(device_options(task.device), std::back_inserter(driver.group.worker_options));
  launch::Observer observer;
  observer.before = [&](std::size_t, const json& description) -> std::optional<launch::Outcome> {
    task.described(description);
    return std::nullopt;
  };
  observer.output = [&](std::size_t, int, const json& value) { task.output(value); };
  launch::Outcome outcome;
  observer.end = [&](std::size_t, const launch::Outcome& ended) {
    outcome = ended;
    return true;
  };
  observer.log = [](const std::string& line) { std::cerr << line << '\n'; };
  const launch::Assignment assignment{.command = {{"type", "task"},
                                                  {"name", task.name},
                                                  {"arguments", task.arguments},
                                                  {"device", task.device},
                                                  {"trains", true}},
                                      .world = task.world,
                                      .isolation = task.name,
                                      .limit = std::chrono::duration<double>(task.limit_seconds),
                                      .hard_limit = std::chrono::hours(24 * 365)};
  const bool whole = launch::run({assignment}, driver, observer);
  if (!whole && outcome.reason.empty()) outcome.reason = "a signal interrupted the run";
  const run::Word word = run::excused_by_machine({outcome.verdict, outcome.reason}, outcome.ranks);
  return {
      .result = {.check = "train." + task.name,
                 .case_id = fmt::format("train.{}[{},world={}]", task.name, driver.group.subject.backend, task.world),
                 .verdict = word.verdict,
                 .reason = word.reason,
                 .ranks = outcome.ranks,
                 .seconds = outcome.seconds,
                 .limit_seconds = task.limit_seconds,
                 .output = outcome.output},
      .whole = whole};
}

void say_how_it_ended(const std::string& name, const TrainingTaskEnd& end) {
  if (end.passed()) return;
  std::cerr << (end.whole
                    ? fmt::format("plumbline: train: {} {}: {}\n", name, name_of(end.result.verdict), end.result.reason)
                    : fmt::format("plumbline: train: {}\n", end.result.reason));
}

void require_served(const std::string& device, const launch::Subject& subject) {
  if (device.starts_with("emulated") && subject.backend != "local")
    throw InvalidArgument(fmt::format("device {} with --backend {}; backend local serves memory of emulated devices",
                                      device, subject.backend));
}

std::string sparkline(const std::vector<double>& losses, std::size_t width) {
  static constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double most = losses.empty() ? 0 : std::ranges::max(losses);
  const std::size_t columns = std::min(width, losses.size());
  std::string line;
  for (std::size_t column = 0; column < columns; ++column) {
    const double share = most > 0 ? losses[column * losses.size() / columns] / most : 0;
    line += std::isfinite(share) ? kBlocks[static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * 7)] : "!";
  }
  return line;
}

}  // namespace plumbline::cli
