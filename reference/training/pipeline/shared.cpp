#include "reference/training/pipeline/shared.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/bucketing/plan.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/bucketing/flat_tensors.hpp"
#include "reference/training/detail/added_type.hpp"

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

}  // namespace

SharedParameters::SharedParameters(comm::Communicator& group, const std::vector<SharedParameter>& parameters,
                                   const RankDevice& where) {
  std::set<const void*> seen;
  // In the order of the keys, so that ranks that share with different ranks make their groups in one order.
  std::map<std::vector<int>, std::vector<NamedTensor>> by_holders;
  for (const SharedParameter& parameter : parameters) {
    check_shared(parameter, group);
    if (seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
      by_holders[parameter.ranks].push_back({parameter.name, parameter.tensor});
  }
  if (by_holders.empty()) return;
  std::vector<comm::Communicator*> groups;
  std::vector<GroupedTensor> leaves;
  for (const auto& [ranks, shared] : by_holders) {
    holders_.push_back(group.create_group(ranks));
    std::vector<at::Tensor> copies;
    for (const NamedTensor& one : shared) {
      leaves.push_back({one, static_cast<int>(groups.size())});
      tensors_.push_back(one.tensor);
      copies.push_back(one.tensor);
    }
    groups.push_back(holders_.back().get());
    broadcast_from_rank_0(*groups.back(), copies, where);
  }
  bucketing::Plan plan = bucketing::plan_as_colossalai(gradients_of(leaves, where.device()));
  reducer_ =
      std::make_unique<TensorReducer>(std::move(groups), std::move(leaves), std::move(plan),
                                      bucketing::ReducerOptions{.average = false}, std::vector<at::Tensor>(), where);
}

void SharedParameters::reduce() {
  if (!reducer_) return;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& tensor : tensors_) gradients.push_back(tensor.grad());
  reducer_->begin();
  (void)reducer_->reduce(gradients);
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].mutable_grad() = gradients[i];
}

}  // namespace plumbline::training
