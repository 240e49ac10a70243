// harness/cli/measured_run.hpp: what all benchmarks do once their record is begun.
#pragma once

#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "harness/cli/outputs.hpp"
#include "harness/launch/driver.hpp"
#include "harness/record/file.hpp"
#include "harness/record/summary.hpp"

namespace plumbline::cli {

/// Makes the measurements, which `observer` writes into the record in `folder`, ends it and writes what is made from it.
/// Then calls `tell` with the seconds that all took. Returns the exit status. Throws what launching and writing throw.
inline int run_measurements(const std::vector<launch::Assignment>& assignments, const launch::Options& driver,
                            const launch::Observer& observer, record::Writer& writer, const std::string& folder,
                            const std::function<void(double seconds)>& tell) {
  std::cout.flush();
  const auto begun = std::chrono::steady_clock::now();
  const bool whole = launch::run(assignments, driver, observer);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const auto run = close_record(writer, whole, seconds);
  if (!run) return 3;  // interrupted before anything was measured: the record before this stays
  write_outputs(folder, *run);
  tell(seconds);
  return whole ? record::exit_status(*run) : 3;
}

}  // namespace plumbline::cli
