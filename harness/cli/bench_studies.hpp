// harness/cli/bench_studies.hpp: the sub-commands of `plumbline bench`.
#pragma once

#include <CLI/CLI.hpp>

#include "harness/cli/program.hpp"

namespace plumbline::cli {

// Each is written in benchmarks/, beside what it measures, and reports in its own way. Adds itself to `bench`; returns
// what runs it.
Command add_bench_fusion(CLI::App& bench, const Program& program);
Command add_bench_pipeline(CLI::App& bench, const Program& program);

}  // namespace plumbline::cli
