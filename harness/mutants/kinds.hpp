// harness/mutants/kinds.hpp: the mutants by what is wrong; together the rows of all_mutants().
#pragma once

#include <vector>

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Wrong results, and what an operation does to its buffers.
[[nodiscard]] std::vector<Mutant> result_mutants();
/// Wrong members, wrong ranks, groups that meet.
[[nodiscard]] std::vector<Mutant> group_mutants();
/// Started calls, batches and messages.
[[nodiscard]] std::vector<Mutant> work_mutants();
/// The barrier, time limits, failures and misuse.
[[nodiscard]] std::vector<Mutant> failure_mutants();
/// Memory of devices: order of streams, kernels, addresses.
[[nodiscard]] std::vector<Mutant> device_mutants();
/// Training with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> training_mutants();
/// Training whose ranks average parameters, with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> averaging_mutants();
/// Training records of jobs.
[[nodiscard]] std::vector<Mutant> job_mutants();
/// Parallel contexts with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> context_mutants();
/// Answers of adapters about groups.
[[nodiscard]] std::vector<Mutant> group_answer_mutants();
/// Answers of adapters.
[[nodiscard]] std::vector<Mutant> answer_mutants();
/// Answers of adapters about topologies.
[[nodiscard]] std::vector<Mutant> topology_mutants();
/// Answers of adapters about partitions.
[[nodiscard]] std::vector<Mutant> schedule_mutants();
[[nodiscard]] std::vector<Mutant> partition_mutants();
/// Answers of adapters about gradient buckets.
[[nodiscard]] std::vector<Mutant> bucket_mutants();
/// Answers of adapters about programs.
[[nodiscard]] std::vector<Mutant> pass_mutants();
/// Answers of adapters about plans: schedules, their messages, what is checked and simulated.
[[nodiscard]] std::vector<Mutant> plan_mutants();
/// The same, where most plans are answered right.
[[nodiscard]] std::vector<Mutant> judgement_mutants();
/// Answers of adapters about gossip, and push-sum with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> gossip_mutants();
/// Executors of schedules with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> executor_mutants();
/// Training over tensor ranks and in 16 bits with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> mixed_mutants();
/// Pipelines that train with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> pipeline_mutants();
/// Answers of adapters about races and passes of programs, and interpreters with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> race_mutants();
/// Gradients that travel as bytes or as products with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> compression_mutants();
/// Reducers of gradients with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> reducer_mutants();
/// Answers of adapters about loss scales, who skips, and norms.
[[nodiscard]] std::vector<Mutant> scaler_mutants();
/// Optimizers with 16-bit parameters with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> scaler_step_mutants();

/// SlowMo with another step in place of a right one, and answers of adapters about it.
[[nodiscard]] std::vector<Mutant> slowmo_mutants();

/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> size_mutants();

}  // namespace plumbline::mutants
