// harness/mutants/job_mutants.hpp: faults of a job's training record, planted after it was written.
#pragma once

#include <string>
#include <vector>

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// A float tensor of a record.
struct RecordedTensor {
  std::string name;  // "step2/grad/0.weight"
  job::Shape shape;
  std::vector<float> values;
};

/// A tensor of bytes: "step2/skipped".
struct RecordedBytes {
  std::string name;
  std::vector<std::uint8_t> values;
};

/// A ChangeRecord that passes each float tensor of each rank's file to `change`, which may do to it what it likes; a
/// tensor whose name it empties is left out. Tensors of bytes go to `change_bytes`, which may change their values.
/// Everything else of the files stays as it is. Ranks without a file are passed over.
[[nodiscard]] ChangeRecord with_tensors(
    std::function<void(const job::RunSpec&, int rank, RecordedTensor&)> change,
    std::function<void(const job::RunSpec&, int rank, RecordedBytes&)> change_bytes = {});

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
/// The gradients of the last step are missing.
void omit_last_gradients(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// The values before the first step are all that is recorded.
void keep_initial_values(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// Each rank's tensors are those of rank 0.
void copy_from_rank_0(const job::RunSpec& spec, const std::filesystem::path& folder);
/// Parameters keep their values from before the first step; gradients and losses stay.
void keep_initial_parameters(const job::RunSpec& spec, const std::filesystem::path& folder);

}  // namespace plumbline::mutants
