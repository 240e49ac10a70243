// reference/training/executor.hpp: one rank of a data-parallel run.
#pragma once

#include <filesystem>

#include "reference/comm/communicator.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::training {

/// As Training::run().
void run_data_parallel(const job::RunSpec& spec, comm::Communicator& world, const std::filesystem::path& folder,
                       const Progress& progress, const ExecutorSteps& steps);

}  // namespace plumbline::training
