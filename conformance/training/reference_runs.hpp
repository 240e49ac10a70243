// conformance/training/reference_runs.hpp: runs of the reference's executor over the backend, judged by their records.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "conformance/training/finding.hpp"
#include "conformance/training/judge.hpp"
#include "harness/suite/suite.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::conformance {

/// Gives findings the requirements of a check, where they have others than the judge's.
using NamedFindings = std::function<std::vector<Finding>(const job::RunSpec& spec, std::vector<Finding> findings)>;

/// Trains what rank 0 writes into a folder, over the check's world or a copy of it, and fails the check by what is
/// found in the record, as `named` names it. Returns what was trained. Collective over the world.
job::RunSpec judge_reference(suite::Context& context, comm::Communicator& world,
                             const std::function<job::RunSpec(const std::filesystem::path& folder)>& prepared,
                             const NamedFindings& named = {});
job::RunSpec judge_reference(suite::Context& context,
                             const std::function<job::RunSpec(const std::filesystem::path& folder)>& prepared);

/// How the reference's executor over the check's backend is judged.
[[nodiscard]] JudgeOptions options_of_reference(suite::Context& context);

}  // namespace plumbline::conformance
