// conformance/training/reference_runs.hpp: runs of the reference's executor over the backend, judged by their records.
#pragma once

#include <filesystem>
#include <functional>

#include "harness/suite/suite.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::conformance {

/// Trains what rank 0 writes into a folder, and fails the check by what is found in the record. Collective over the
/// world.
void judge_reference(suite::Context& context,
                     const std::function<job::RunSpec(const std::filesystem::path& folder)>& prepared);

}  // namespace plumbline::conformance
