// harness/cli/train_size.hpp: what a training run by steps takes of the machine, known before it begins.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "reference/record/run_spec.hpp"

namespace plumbline::cli {

/// Bytes of the training record that ranks keep until they end.
struct RecordSize {
  double of_all = 0;   // ranks together
  double of_rank = 0;  // the largest
  double header = 0;   // of the rank that names the most
};
[[nodiscard]] RecordSize record_size(const job::RunSpec& spec);

struct RunPlace {
  std::filesystem::path folder;      // of the record
  std::int64_t values_of_a_row = 0;  // of the batches; 0: they exist already
  bool on_one_host = true;           // no rank can be on another one
  std::string steps = "--steps ";    // what the user calls the number
};

/// Throws InvalidArgument for more steps than the form of a training record can name, and RuntimeFailure where the
/// record and the batches do not fit into the memory or onto the disk of `folder`. Returns a line about a run that
/// takes a GiB or more, else nothing.
[[nodiscard]] std::string require_room(const job::RunSpec& spec, const RunPlace& place);

}  // namespace plumbline::cli
