// reference/training/detail/mixture.hpp: a layer of experts, of which each token goes through some.
//
// Model   job::Moe. Without a group all experts are this rank's: each computes the tokens that chose it, and one that
//         no token chose is not in the graph, so that it has no gradient. With a group each rank has an equal part of
//         the experts, in rank order: a token's features travel to the ranks of its experts, and their outputs back.
//         Then every rank computes all its experts, on no token, too, so that all ranks make the same calls, and the
//         gradient of an expert is the sum over the tokens of the whole group.
// Bits    An expert's outputs are added to a token's sum in the order of experts.
// Source  Lepikhin et al., GShard, arXiv:2006.16668, section 3; Jiang et al., arXiv:2401.04088, section 2.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/record/run_spec.hpp"
#include "reference/training/pipeline/stage.hpp"
#include "reference/training/tensor/layers.hpp"

namespace plumbline::training {

struct MixtureWeights {
  at::Tensor router;             // [experts, features]
  std::vector<at::Tensor> up;    // by expert, [hidden, features]; undefined where another rank has it
  std::vector<at::Tensor> down;  // by expert, [features, hidden]
};

/// x [..., features] to the same shape. With a group, collective over it: every rank calls the same layers in the same
/// order, with tokens of its own.
[[nodiscard]] at::Tensor mixture_of(const job::Moe& layer, const MixtureWeights& weights, const at::Tensor& x,
                                    const std::optional<TensorGroup>& group, const Pass& pass);

}  // namespace plumbline::training
