#include "reference/training/detail/reduction.hpp"

#include <numeric>
#include <utility>

#include "reference/bucketing/plan.hpp"

namespace plumbline::training {

DataReduction::DataReduction(comm::Communicator& group, const job::RunSpec& spec, const RunSettings& settings,
                             const std::vector<job::Parameter>& list, const std::vector<at::Tensor>& parameters,
                             const RankDevice& rank, comm::Communicator* expert_data_group) {
  if (list.empty()) return;
  const RankDevice where = reduced_on(rank, settings.gradients);
  std::vector<GroupedTensor> leaves;
  const auto group_of = [&](std::size_t i) { return expert_data_group != nullptr && list[i].expert >= 0 ? 1 : 0; };
  for (std::size_t i = 0; i < list.size(); ++i) leaves.push_back({{list[i].name, parameters[i].detach()}, group_of(i)});
  const std::vector<bucketing::Gradient> gradients = gradients_of(leaves, where.device());
  std::vector<int> backwards(gradients.size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  bucketing::Plan plan =
      plan_by_bytes(gradients, backwards, bucket_bytes_over(group, gradients, spec.run.bucket_bytes, where));
  bucketing::ReducerOptions options = options_of(settings.gradients, shapes_of(leaves));
  options.unused = bucketing::Unused::zeros;
  std::vector<comm::Communicator*> groups{&group};
  if (expert_data_group != nullptr) {
    groups.push_back(expert_data_group);
    options.divisors.assign(2, group.size());
  }
  reducer_ = std::make_unique<TensorReducer>(std::move(groups), std::move(leaves), std::move(plan), std::move(options),
                                             std::vector<at::Tensor>(), where);
}

void DataReduction::reduce(std::vector<at::Tensor>& gradients) {
  if (!reducer_) return;
  reducer_->begin();
  reducer_->reduce(gradients);
}

}  // namespace plumbline::training
