// reference/training/checkpoint.hpp: a run's state as files, to be continued to the last bit. Free of LibTorch.
//
// Model   Each rank writes a safetensors file of its own, folder/step-<S>/rank<R>.safetensors: parameters, buffers and
//         optimizer moments as tensors; step, epoch, batch, seed, the states of generators and the run's configuration
//         as metadata. A checkpoint is complete when all ranks' files exist; a file takes its name when it is
//         written in full, so one that is cut short is never taken for one.
// Same run A checkpoint of another configuration is rejected with InvalidArgument, with the first field that
//         differs; one whose configuration does not have the hash that was written beside it is damaged.
// Errors  InvalidArgument, NotFound, RuntimeFailure: one line with the file and what is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference/comm/dtype.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::training {

/// What decides a run's numbers, by name, in an order that is always the same; values have no line ends.
using Configuration = std::vector<std::pair<std::string, std::string>>;

/// Where a run is.
struct Position {
  int epoch = 0;
  std::int64_t batch = 0;  // of the epoch, the next to be run
  std::int64_t step = 0;   // batches trained on so far
  friend bool operator==(const Position&, const Position&) = default;
};

struct StoredTensor {
  comm::DType dtype = comm::DType::f32;
  job::Shape shape;
  std::vector<std::byte> bytes;  // row-major
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

struct Checkpoint {
  Configuration configuration;
  Position at;  // where the run continues
  std::uint64_t seed = 0;
  std::map<std::string, std::string> states;    // of generators and whatever else a program has, as texts
  std::map<std::string, StoredTensor> tensors;  // "parameter/0.weight", "buffer/…", "moment1/…"
  int rank = 0;
  int ranks = 1;
};

/// The hash of a configuration, 16 hexadecimal digits (FNV-1a of its lines).
[[nodiscard]] std::string hash_of(const Configuration& configuration);
/// "NUM_CHUNKS is 2 there and 1 here" for the first field that differs or only one has; nothing where they are equal.
[[nodiscard]] std::optional<std::string> first_difference(const Configuration& there, const Configuration& here);

/// Why no file can be made in the folder, which is created if missing; to be called before a run, not after it.
[[nodiscard]] std::error_code why_no_files(const std::filesystem::path& folder);
/// Writes a rank's file, makes the folders. Returns its path. Throws InvalidArgument for tensors whose bytes do not fit
/// their shape, and configurations or states with line ends.
std::filesystem::path write_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& folder);
/// Reads a file. Throws InvalidArgument for one that is no checkpoint, is damaged, or is of another configuration, rank
/// or number of ranks.
[[nodiscard]] Checkpoint read_checkpoint(const std::filesystem::path& file, const Configuration& configuration,
                                         int rank, int ranks);
/// folder/step-<S>/rank<R>.safetensors.
[[nodiscard]] std::filesystem::path checkpoint_file(const std::filesystem::path& folder, std::int64_t step, int rank);
/// The steps of the checkpoints that are complete for `ranks` ranks, ascending. Empty without such a folder.
[[nodiscard]] std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder, int ranks);
/// Deletes all but the last `keep` complete checkpoints, and what is incomplete before the oldest of these. Throws
/// InvalidArgument for keep below 1.
void prune_checkpoints(const std::filesystem::path& folder, int ranks, int keep);

}  // namespace plumbline::training
