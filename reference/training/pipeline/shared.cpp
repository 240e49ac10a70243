#include "reference/training/pipeline/shared.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/training/added_type.hpp"

namespace plumbline::training {
namespace {

void check_shared(const SharedParameter& parameter, const comm::Communicator& group) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(
        fmt::format("shared parameter '{}' on ranks [{}]: {}", parameter.name, fmt::join(parameter.ranks, ", "), why));
  };
  if (parameter.ranks.size() < 2) refuse("it takes two ranks to share");
  if (std::ranges::adjacent_find(parameter.ranks, std::greater_equal<>()) != parameter.ranks.end())
    refuse("they must ascend");
  if (parameter.ranks.front() < 0 || parameter.ranks.back() >= group.size())
    refuse(fmt::format("the group has ranks 0 to {}", group.size() - 1));
  if (!std::ranges::binary_search(parameter.ranks, group.rank())) refuse(fmt::format("rank {} gave it", group.rank()));
  if (!added_type_of(parameter.tensor.scalar_type()))
    refuse(fmt::format("type {} is not added", c10::toString(parameter.tensor.scalar_type())));
}

// All of them, row-major, in host memory of their own.
at::Tensor flattened(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.detach().contiguous().view({-1}));
  return at::cat(flat).cpu();
}

// The part of `memory` that is a tensor's, in its shape.
class Parts {
 public:
  explicit Parts(const at::Tensor& memory) : memory_(memory) {}
  at::Tensor next(const at::Tensor& like) {
    const at::Tensor part = memory_.narrow(0, begin_, like.numel()).view(like.sizes());
    begin_ += like.numel();
    return part;
  }

 private:
  const at::Tensor& memory_;
  std::int64_t begin_ = 0;
};

}  // namespace

SharedParameters::SharedParameters(comm::Communicator& group, const std::vector<SharedParameter>& parameters,
                                   const PipelineTrainingSteps& steps)
    : steps_(steps) {
  const c10::AutoGradMode without_gradients(false);
  std::set<const void*> seen;
  // In the order of the keys, so that ranks that share with different ranks make their groups in one order.
  std::map<std::pair<std::vector<int>, at::ScalarType>, std::vector<at::Tensor>> buckets;
  for (const SharedParameter& parameter : parameters) {
    check_shared(parameter, group);
    if (seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
      buckets[{parameter.ranks, parameter.tensor.scalar_type()}].push_back(parameter.tensor);
  }
  for (auto& [key, tensors] : buckets) {
    buckets_.push_back({group.create_group(key.first), std::move(tensors)});
    const Bucket& bucket = buckets_.back();
    const at::Tensor memory = flattened(bucket.tensors);
    bucket.group->broadcast(buffer_of(memory), 0);
    Parts parts(memory);
    for (const at::Tensor& tensor : bucket.tensors) tensor.detach().copy_(parts.next(tensor));
  }
}

void SharedParameters::reduce() {
  const c10::AutoGradMode without_gradients(false);
  for (const Bucket& bucket : buckets_) {
    std::vector<at::Tensor> parameters, gradients;
    for (const at::Tensor& tensor : bucket.tensors) {
      const bool has_gradient = tensor.grad().defined();
      if (!steps_.takes_part(has_gradient)) continue;
      parameters.push_back(tensor);
      gradients.push_back(has_gradient ? tensor.grad() : at::zeros_like(tensor));
    }
    const at::Tensor memory = flattened(gradients);
    steps_.reduce_shared(*bucket.group, buffer_of(memory));
    Parts parts(memory);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i].copy_(parts.next(gradients[i]));
      parameters[i].mutable_grad() = gradients[i];
    }
  }
}

}  // namespace plumbline::training
