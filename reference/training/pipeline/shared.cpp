#include "reference/training/pipeline/shared.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/bucketing/in_order.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

std::optional<comm::DType> type_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return comm::DType::f16;
    case at::kBFloat16:
      return comm::DType::bf16;
    case at::kFloat:
      return comm::DType::f32;
    case at::kDouble:
      return comm::DType::f64;
    default:
      return {};
  }
}

comm::Buffer buffer_of(const at::Tensor& memory) {
  return {memory.data_ptr(), memory.numel(), *type_of(memory.scalar_type())};
}

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
  if (!type_of(parameter.tensor.scalar_type()))
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
                                   const PipelineTrainingSteps& steps) {
  const c10::AutoGradMode without_gradients(false);
  std::set<const void*> seen;
  // In the order of the keys, so that ranks that share with different ranks make their groups, and reduce, in one order.
  std::map<std::pair<std::vector<int>, at::ScalarType>, std::vector<SharedParameter>> sets;
  for (const SharedParameter& parameter : parameters) {
    check_shared(parameter, group);
    if (seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
      sets[{parameter.ranks, parameter.tensor.scalar_type()}].push_back(parameter);
  }
  std::vector<bucketing::Gradient> gradients;
  bucketing::ReducerOptions options{.memory = bucketing::GradientMemory::copies, .average = false};
  for (const auto& [key, shared] : sets) {
    const auto number = static_cast<int>(groups_.size());
    groups_.push_back(group.create_group(key.first));
    std::vector<at::Tensor> tensors;
    for (const SharedParameter& parameter : shared) {
      tensors.push_back(parameter.tensor);
      gradients.push_back({.elements = parameter.tensor.numel(), .dtype = *type_of(key.second), .group = number});
      options.names.push_back(parameter.name);
    }
    const at::Tensor memory = flattened(tensors);
    groups_.back()->broadcast(buffer_of(memory), 0);
    Parts parts(memory);
    for (const at::Tensor& tensor : tensors) tensor.detach().copy_(parts.next(tensor));
    tensors_.insert(tensors_.end(), tensors.begin(), tensors.end());
  }
  if (groups_.empty()) return;
  options.hook.start = [&steps](comm::Communicator& of_bucket, int, comm::Buffer values) {
    steps.reduce_shared(of_bucket, values);
    return comm::Work();
  };
  std::vector<comm::Communicator*> all;
  for (const auto& one : groups_) all.push_back(one.get());
  std::vector<int> order(gradients.size());
  std::iota(order.begin(), order.end(), 0);
  const bucketing::Plan plan = bucketing::buckets_in_order(gradients, order, std::array{bucketing::kNoLimit});
  reducer_ = std::make_unique<bucketing::Reducer>(std::move(all), std::move(gradients), plan, std::move(options));
}

void SharedParameters::reduce() {
  if (!reducer_) return;
  const c10::AutoGradMode without_gradients(false);
  std::vector<at::Tensor> gradients, row_major;
  reducer_->begin();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& gradient = tensors_[i].grad();
    gradients.push_back(gradient.defined() ? gradient : at::zeros_like(tensors_[i]));
    row_major.push_back(gradients[i].detach().contiguous().cpu());
    reducer_->ready(static_cast<int>(i), buffer_of(row_major[i]));
  }
  (void)reducer_->finish();
  reducer_->clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (gradients[i].data_ptr() != row_major[i].data_ptr()) gradients[i].copy_(row_major[i]);
    tensors_[i].mutable_grad() = gradients[i];
  }
}

}  // namespace plumbline::training
