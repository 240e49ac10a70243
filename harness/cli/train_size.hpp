// harness/cli/train_size.hpp: what a training run by steps takes of the machine, known before it begins.
#pragma once

#include <filesystem>
#include <string>

#include "reference/record/run_spec.hpp"

namespace plumbline::cli {

/// Throws InvalidArgument for more steps than the form of a training record can name, and RuntimeFailure where the record that the
/// ranks keep until they end, and the batches, do not fit into the memory or onto the disk of `folder`. Returns a line about a
/// run that takes a GiB or more, else nothing.
[[nodiscard]] std::string require_room(const job::RunSpec& spec, std::int64_t values_of_a_row,
                                       const std::filesystem::path& folder);

}  // namespace plumbline::cli
