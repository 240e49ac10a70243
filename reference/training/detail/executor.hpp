// reference/training/detail/executor.hpp: one rank of a run, data-parallel or a pipeline's.
#pragma once

#include <filesystem>
#include <memory>

#include "reference/comm/communicator.hpp"
#include "reference/device/runtime.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::training {

/// Throws what Training::run() throws before it does anything.
void require_runnable(const job::RunSpec& spec, const comm::Communicator& world, const RunSettings& settings);

/// As Training::run(), with the devices of Training::use_devices().
void run_specification(const job::RunSpec& spec, comm::Communicator& world, const std::filesystem::path& folder,
                       const Progress& progress, const RunSettings& settings,
                       const std::shared_ptr<device::Runtime>& devices);

}  // namespace plumbline::training
