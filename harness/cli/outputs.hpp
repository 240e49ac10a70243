// harness/cli/outputs.hpp: the files that are made from a record, beside it.
#pragma once

#include <filesystem>

#include "harness/metrics/metrics.hpp"
#include "harness/record/file.hpp"
#include "harness/record/junit.hpp"

namespace plumbline::cli {

/// junit.xml and metrics.prom. Throws RuntimeFailure.
inline void write_outputs(const std::filesystem::path& folder, const record::Run& run) {
  record::write_file(folder / "junit.xml", record::to_junit(run));
  record::write_file(folder / "metrics.prom", metrics::to_prometheus(run));
}

}  // namespace plumbline::cli
