// harness/cli/bench_pipeline.hpp: `plumbline bench pipeline_bubble`.
#pragma once

#include <CLI/CLI.hpp>

#include "harness/cli/program.hpp"

namespace plumbline::cli {

/// Adds the sub-command to `bench`; returns what runs it.
Command add_bench_pipeline(CLI::App& bench, const Program& program);

}  // namespace plumbline::cli
