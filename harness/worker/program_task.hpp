// harness/worker/program_task.hpp: what the ranks of `plumbline train` do with a model that is trained by names.
#pragma once

#include "harness/worker/worker.hpp"

namespace plumbline::worker {

/// One rank's part of a training::PipelineRun, which the arguments are. Outputs on rank 0: {"log": text}, {"progress":
/// text}, and after each epoch {"epoch": training::step_of() it}. Throws Unsupported for what the user asked in vain, a
/// loss that is no number included, MachineFailure where this machine failed, and what the backend throws.
void program_task(TaskRank& rank);

}  // namespace plumbline::worker
