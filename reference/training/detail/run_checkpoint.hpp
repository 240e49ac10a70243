// reference/training/detail/run_checkpoint.hpp: what a run by steps continues from, in whatever layout.
//
// Model   The ranks of the first replica write a file each (checkpoint.hpp): of each parameter that they hold their
//         part, with its moments, and where in the whole it lies. A rank that loads reads all files, joins the parts,
//         and takes its own: no layout needs to know the other. The position is the step, by which rows and learning
//         rate are found.
// Errors  InvalidArgument for a checkpoint of another run, which is one with other fields than those of the layout, and
//         for one that lacks a part; NotFound for none; RuntimeFailure.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/record/run_spec.hpp"
#include "reference/scaler/loss_scale.hpp"
#include "reference/training/checkpoint.hpp"
#include "reference/training/detail/optimizer.hpp"
#include "reference/training/tensor/sharding.hpp"

namespace plumbline::training {

/// A rank's part of a parameter, in float32, and of its moments.
struct SavedPart {
  job::Parameter whole;
  Shard shard{};
  at::Tensor value{};
  OptimizerState::Moments moments{};
};

struct SavedRun {
  int optimizer_steps = 0;
  std::optional<scaler::TorchScale> scale{};  // of a run with a dynamic one
  std::vector<SavedPart> parts;
};

/// What decides a run's numbers, without what only says where they are computed: its checkpoints have the same.
[[nodiscard]] Configuration configuration_of(job::RunSpec spec);

/// Writes the state after the last step of a run that ends before all are made. Every rank calls it.
void save_run(const job::RunSpec& spec, int rank, const SavedRun& run);
/// Replaces values and moments of the parts in `run`, the number of steps, and the scale where it has one, by what was
/// saved before the run's first step.
void load_run(const job::RunSpec& spec, SavedRun& run);

}  // namespace plumbline::training
