// reference/training/pipeline/batch.hpp: a batch, and the micro-batches that it is cut into.
//
// Model   A batch is a tensor, a list of tensors, or tensors by name; the first dimension of each is the rows.
//         Micro-batch i of m is the i-th of m equal consecutive parts. The batch stays where it is: a micro-batch is
//         copied, to the device where it is used, when it is used.
// Bits    A micro-batch lies in memory of its own: kernels choose their path by alignment.
// Source  ColossalAI's pipeline schedules, which slice and move tensors and dictionaries in the same way.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

using NamedTensors = std::map<std::string, at::Tensor>;
using Batch = std::variant<at::Tensor, Tensors, NamedTensors>;

/// The batch as a list: of tensors by name those that `names` lists, in its order. Throws InvalidArgument for a name
/// that the batch does not have, with those that it has, and for tensors by name without a list: what a stage takes has
/// an order, and is not whatever comes.
[[nodiscard]] Tensors tensors_of(const Batch& batch, const std::vector<std::string>& names = {});

/// The parts of a batch, in order, as views. Throws InvalidArgument, with the numbers, for an empty list, a tensor
/// without rows, tensors of different numbers of rows, and rows that the number of micro-batches does not divide.
/// `what` stands for the batch: "inputs", "labels".
[[nodiscard]] std::vector<Tensors> micro_batches_of(const Tensors& batch, int micro_batches, const std::string& what);
/// A micro-batch on `device`, in memory of its own.
[[nodiscard]] Tensors placed_on(c10::Device device, const Tensors& micro_batch);
/// All rows of micro-batches, one after the other: of each tensor of the first.
[[nodiscard]] Tensors joined(const std::vector<Tensors>& micro_batches);

}  // namespace plumbline::training
