// reference/training/executor.hpp: one rank of a run, data-parallel or a pipeline's.
#pragma once

#include <filesystem>

#include "reference/comm/communicator.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::training {

/// Throws what Training::run() throws before it does anything.
void require_runnable(const job::RunSpec& spec, const comm::Communicator& world, const ExecutorSteps& steps);

/// As Training::run().
void run_specification(const job::RunSpec& spec, comm::Communicator& world, const std::filesystem::path& folder,
                       const Progress& progress, const ExecutorSteps& steps);

}  // namespace plumbline::training
