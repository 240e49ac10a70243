// harness/trainer/oracles/lists.hpp: models whose stages hand on lists of tensors, and copies of shared parameters, for
// what no specification says (training.hpp has them as plain values).
//
// Model   Stage s of n takes (a, b, k, …): x = a + b k, h = tanh(norm(W x)), split in two halves; it hands on the first
//         half, a linear function of the second, the row numbers k, a tensor without elements, and the row numbers as
//         floats, which no gradient reaches. The last one hands on the sum of its two activations, whose mean squared
//         distance from the labels is the loss. Where one tensor is handed on it is a linear function of h.
// Bits    list_baseline() runs the same layers without an engine: in the order of a schedule that back-propagates
//         micro-batches in theirs, the two agree in every bit.
#pragma once

#include <memory>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

/// Collective over `world`, which must outlive it. Throws as Training::list_pipeline().
[[nodiscard]] std::unique_ptr<PipelineSession> list_pipeline(const ListModel& model, comm::Communicator& world);
[[nodiscard]] ListBaseline list_baseline(const ListModel& model, int stages,
                                         const std::vector<std::vector<job::RowRange>>& calls);
/// Collective over the ranks that hold any. Throws as Training::sum_shared().
[[nodiscard]] std::vector<SharedCopy> sum_shared(const std::vector<SharedCopy>& copies, comm::Communicator& group);

}  // namespace plumbline::training
