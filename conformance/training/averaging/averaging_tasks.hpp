// conformance/training/averaging/averaging_tasks.hpp: what the ranks of `plumbline train --averaging` do.
#pragma once

#include "harness/worker/worker.hpp"

namespace plumbline::conformance {

/// A list of runs, one after the other. Arguments {"runs": [{"spec": file, "settings", "record": folder or "",
/// "checkpoints": {"folder": folder or "", "steps", "resume"}}]}: where a folder is named, what each rank had is
/// written there. Checkpoints are written every so many steps and, unless gossip lags, after the last, each with what
/// ranks had since the one before; with "resume" a run goes on from the last complete one, says {"run", "resumed":
/// step}, and tells of the steps before it again. Throws InvalidArgument for checkpoints that nobody asked to go on
/// from, and for those of another run. Outputs of each run, on rank 0, {"run", "step", "loss", "largest", "mean"} of
/// each step: the mean loss of the ranks, their distances to their mean after the step; then {"run", "accuracy",
/// "accuracies", "slow_bytes"}: of the mean of the ranks' parameters and of each rank's, on the held-out digits; the
/// slow buffers of rank 0.
void average_task(worker::TaskRank& rank);

/// The same specifications on one device, Training::alone(); for one rank. Arguments {"runs": [{"spec",
/// "rate_decay"}]}. Outputs {"run", "step", "loss"} of each step, then {"run", "accuracy"}.
void alone_task(worker::TaskRank& rank);

/// Judges what average_task() wrote; for one rank. Arguments {"runs": [{"spec", "settings", "record", "world"}],
/// "rank_order"}. Outputs {"run", "step"} of each step when it has been judged, of each run {"run", "judged": [ids]},
/// and {"run", "finding": {"requirement", "text"}}.
void judge_averaging_task(worker::TaskRank& rank);

}  // namespace plumbline::conformance
