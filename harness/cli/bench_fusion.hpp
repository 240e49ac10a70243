// harness/cli/bench_fusion.hpp: `plumbline bench allreduce_fusion`.
#pragma once

#include <CLI/CLI.hpp>

#include "harness/cli/program.hpp"

namespace plumbline::cli {

/// Adds the sub-command to `bench`; returns what runs it.
Command add_bench_fusion(CLI::App& bench, const Program& program);

}  // namespace plumbline::cli
