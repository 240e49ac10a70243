// reference/training/tensor/steps.hpp: what decides the numbers of layers that are cut over tensor ranks, as functions. Free of
// LibTorch.
//
// Model   The layers call these. A value made without arguments has the right ones; a program with another one in place of
//         one of them is wrong in one known way, which is how the checks are tested.
#pragma once

#include <functional>

#include "reference/comm/communicator.hpp"

namespace plumbline::training {

/// Adds up over the group, in place.
void sum_over(comm::Communicator& group, const comm::Buffer& values);

struct TensorSteps {
  /// Of the products of row-parallel layers, forward.
  std::function<void(comm::Communicator& group, const comm::Buffer& products)> sum_outputs = sum_over;
  /// Of the input's gradient of column-parallel layers, backward.
  std::function<void(comm::Communicator& group, const comm::Buffer& gradient)> sum_input_gradients = sum_over;
  /// Whether a row-parallel layer adds its bias to what is added up; else once, to the sum.
  bool adds_bias_on_every_rank = false;
};

}  // namespace plumbline::training
