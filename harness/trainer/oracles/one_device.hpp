// harness/trainer/oracles/one_device.hpp: the digits' run on one device, which averaged runs are compared with.
//
// Model   A plain loop of LibTorch's own: forward, loss, backward() and a step of torch::optim, in float32, over all
//         rows of each batch. No ranks, no messages, and nothing of reference/slowmo, whose faults it would share.
#pragma once

#include <functional>

#include "reference/record/run_spec.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

/// The parameters after the last step. Step S has the specification's learning rate times rate_decay^S; run.dtype and
/// the numbers of ranks say nothing here, micro-batches are cut of the whole batch. `told` gets each step's mean loss.
/// Throws InvalidArgument and NotFound for a specification's files.
[[nodiscard]] Values train_on_one_device(const job::RunSpec& spec, double rate_decay,
                                         const std::function<void(int step, double loss)>& told);

}  // namespace plumbline::training
