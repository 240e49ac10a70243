// conformance/training/job_mutants.hpp: faults of a job's training record, planted after it was written.
#pragma once

#include "harness/mutants/record_rewriting.hpp"

namespace plumbline::mutants {

/// The sum of the gradients is divided by two instead of by the number of data ranks.
void scale_gradients_for_two(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// Rank 2's values after each step are off by one part in a thousand.
void drift_on_rank_2(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// Values after the last step are those of an update without weight decay, but for the share of the decay of the update
/// itself, which is smaller by the learning rate.
void leave_out_last_decay(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// Matrices are written with their dimensions exchanged.
void exchange_dimensions(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// In a step in which something was written into a gradient, the other ranks record that they made the step.
void skip_by_own_gradients(const job::RunSpec& spec, int rank, RecordedBytes& bytes);
/// The gradients of the first stage are divided by the number of micro-batches.
void scale_first_stage_again(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// Each rank's file is that of the rank which has its place in the usual order of the axes.
void exchange_ranks(const job::RunSpec& spec, const std::filesystem::path& folder);
/// What lies on the second and later stages of a rank is missing.
void omit_later_chunks(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// The outputs that layers have for micro-batches are those of the whole step's first one.
void repeat_first_micro_batch(const job::RunSpec& spec, const std::filesystem::path& folder);
/// Gradients of outputs are recorded before they are divided by the number of micro-batches.
void multiply_activation_gradients(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// The gradients of the last step are missing.
void omit_last_gradients(const job::RunSpec& spec, int rank, RecordedTensor& tensor);

}  // namespace plumbline::mutants
