// harness/cli/measured_run.hpp: what all benchmarks do once their record is begun.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/cli/outputs.hpp"
#include "harness/launch/driver.hpp"
#include "harness/record/file.hpp"
#include "harness/run/summary.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {

/// What the subject and its machine can do is known once it runs: `description`. Throws RuntimeFailure where the
/// machine lacks the device, InvalidArgument where the backend does not take its memory.
inline void require_device(const std::string& device, const std::string& backend, const nlohmann::json& description) {
  if (device == "cpu") return;
  if (description.contains("device_missing")) throw RuntimeFailure(description.at("device_missing").get<std::string>());
  const auto kinds = description.at("capabilities").at("devices").get<std::vector<std::string>>();
  if (std::ranges::count(kinds, device.substr(0, device.find(':'))) == 0)
    throw InvalidArgument(
        fmt::format("--device {}: backend {} moves memory of {} alone", device, backend, fmt::join(kinds, ", ")));
}

/// Makes the measurements, which `observer` writes into the record in `folder`, until `budget` seconds are over where
/// that is not 0, ends it and writes what is made from it. Calls `heading` when ranks have started, or the first could
/// not, so that a device that is missing is an error without a table; in the end `tell` with the seconds that all took.
/// Returns the exit status. `before_end` may write what is left, before the record ends.
/// Throws what launching and writing throw.
inline int run_measurements(const std::vector<launch::Assignment>& assignments, const launch::Options& driver,
                            const launch::Observer& observer, record::Writer& writer, const std::string& folder,
                            double budget, const std::function<void()>& heading,
                            const std::function<void(double seconds)>& tell,
                            const std::function<void()>& before_end = {}) {
  std::cout.flush();
  const auto begun = std::chrono::steady_clock::now();
  launch::Options limited = driver;
  if (budget > 0)
    limited.until =
        begun + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(budget));
  std::set<std::size_t> ended;
  launch::Observer counting = observer;
  bool has_heading = false;
  const auto head = [&] {
    if (std::exchange(has_heading, true)) return;
    heading();
    std::cout.flush();
  };
  counting.before = [&](std::size_t index, const nlohmann::json& description) {
    auto outcome = observer.before(index, description);
    head();
    return outcome;
  };
  counting.end = [&](std::size_t index, const launch::Outcome& outcome) {
    head();  // ranks that do not start have no `before`
    ended.insert(index);
    return observer.end(index, outcome);
  };
  const bool uninterrupted = launch::run(assignments, limited, counting);
  std::size_t left = 0;
  for (std::size_t index = 0; index < assignments.size(); ++index)
    if (!ended.contains(index) && (!observer.wanted || observer.wanted(index))) ++left;
  if (before_end) before_end();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  std::string stopped;
  if (!uninterrupted)
    stopped = "a signal interrupted the run";
  else if (left > 0)
    stopped = fmt::format("the budget of {} s is spent: {} of {} launches were made", budget, ended.size(),
                          ended.size() + left);
  if (!stopped.empty() && writer.in_place()) writer.stopped(stopped);
  const auto run = close_record(writer, stopped.empty(), seconds);
  if (!run) throw RuntimeFailure(stopped + "; nothing was measured");  // the record before this stays
  write_outputs(folder, *run);
  tell(seconds);
  if (!stopped.empty()) std::cerr << "plumbline: " << stopped << '\n';
  return run::exit_status(*run, !uninterrupted);
}

}  // namespace plumbline::cli
