// harness/mutants/record_rewriting.hpp: the ways in which a job's training record is rewritten after it was written.
#pragma once

#include <string>
#include <vector>

#include "harness/mutants/mutants.hpp"
#include "reference/record/training_record.hpp"

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

[[nodiscard]] bool is_of(const RecordedTensor& tensor, job::Moment moment);

/// The values before the first step are all that is recorded.
void keep_initial_values(const job::RunSpec& spec, int rank, RecordedTensor& tensor);
/// Each rank's tensors are those of rank 0.
void copy_from_rank_0(const job::RunSpec& spec, const std::filesystem::path& folder);
/// Parameters keep their values from before the first step; gradients and losses stay.
void keep_initial_parameters(const job::RunSpec& spec, const std::filesystem::path& folder);

}  // namespace plumbline::mutants
