// reference/training/detail/checkpoint_tensors.hpp: tensors into a checkpoint, and back where they were.
//
// Bits    What comes back has the bits that went in, and the layout in memory of the tensor into which it is copied.
#pragma once

#include <string>
#include <vector>

#include "reference/training/checkpoint.hpp"
#include "reference/training/detail/optimizer.hpp"
#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

/// Adds copies under "<kind>/<name>". Throws InvalidArgument for a name that is there, Unsupported for element types
/// that no file has.
void add_tensors(Checkpoint& checkpoint, const std::string& kind, const std::vector<NamedTensor>& tensors);
/// Copies the values of "<kind>/<name>" into each tensor, leaves that require a gradient included. Throws
/// InvalidArgument, before anything is changed, for a tensor that is not there or of another shape or type, and for one
/// of that kind that nobody asks for.
void restore_tensors(const Checkpoint& checkpoint, const std::string& kind, const std::vector<NamedTensor>& tensors);

/// Parameters, buffers, the optimizer's moments of the parameters and its number of steps. The parameters are in the
/// optimizer's order.
void add_training(Checkpoint& checkpoint, const std::vector<NamedTensor>& parameters,
                  const std::vector<NamedTensor>& buffers, const OptimizerState& optimizer);
/// Throws as restore_tensors().
void restore_training(const Checkpoint& checkpoint, const std::vector<NamedTensor>& parameters,
                      const std::vector<NamedTensor>& buffers, OptimizerState& optimizer);

}  // namespace plumbline::training
