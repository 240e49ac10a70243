// reference/training/reduction.hpp: gradients over the data group.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/comm/communicator.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::training {

/// Makes of the rank's own gradients those that it uses, as steps.reduce says, their average where it is empty: all of them as one bucket, through host
/// memory. `list` names them.
void reduce_over(comm::Communicator& group, const job::RunSpec& spec, const ExecutorSteps& steps,
                 const std::vector<job::Parameter>& list, std::vector<at::Tensor>& gradients);

}  // namespace plumbline::training
