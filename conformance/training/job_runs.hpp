// conformance/training/job_runs.hpp: whole training programs, run by a check and judged by the records that they leave.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "conformance/training/finding.hpp"
#include "harness/suite/suite.hpp"
#include "reference/record/run_spec.hpp"
#include "reference/record/training_record.hpp"

namespace plumbline::conformance {

/// What is found in the record of a run.
using JudgeOfRecord = std::function<std::vector<Finding>(const job::RunSpec& spec, const job::TrainingRecord& record)>;

/// Has the job run what `prepared` writes into a folder, as so many ranks as the case says, and judges its record;
/// without a judge of its own by judge.hpp.
/// Throws as suite::Job::run(), and MachineFailure where the files cannot be written.
[[nodiscard]] std::vector<Finding> findings_of_job(
    suite::Context& context, const std::function<job::RunSpec(const std::filesystem::path& folder)>& prepared,
    const JudgeOfRecord& judged = {});

/// A run of the job, and its specification from files of our own.
struct RunOfJob {
  job::RunSpec spec;
  std::filesystem::path record;
};
/// Has the job run what `prepared` writes, as `world` ranks, in folder `name` of the check's own. Throws as
/// findings_of_job().
[[nodiscard]] RunOfJob run_job(suite::Context& context,
                               const std::function<job::RunSpec(const std::filesystem::path& folder)>& prepared,
                               int world, const std::string& name);
/// Makes a folder. Throws MachineFailure where it cannot be made.
void provide_folder(const std::filesystem::path& folder);

}  // namespace plumbline::conformance
