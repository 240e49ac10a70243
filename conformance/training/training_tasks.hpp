// conformance/training/training_tasks.hpp: what the ranks of `plumbline train` do: run a specification, judge the
// record.
#pragma once

#include "harness/worker/worker.hpp"

namespace plumbline::conformance {

/// One rank's part of a run. Arguments {"spec": file, "record": folder}. Outputs, on rank 0 first, {"accumulator",
/// "rank_order"}: how the backend reduces float32 averages; then, of each step, {"step", "loss"} (the mean over this
/// rank's rows). Throws what training::Training::run() throws.
void train_task(worker::TaskRank& rank);

/// Judges a record against the single device; for one rank. Arguments {"spec", "record", "device", "accumulator",
/// "rank_order"}: the last two as train_task() said. Outputs {"step": {"step", "loss", "difference", "bound",
/// "update_difference", "update_bound"}} of each step, {"finding": {"requirement", "text"}} of each finding, and last
/// {"judged": [requirement ids]}, with "digits": true also "accuracy" on the held-out digits.
void judge_task(worker::TaskRank& rank);

}  // namespace plumbline::conformance
