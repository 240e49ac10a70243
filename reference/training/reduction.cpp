#include "reference/training/detail/reduction.hpp"

#include <numeric>
#include <utility>

#include <ATen/ops/from_blob.h>

#include "reference/bucketing/plan.hpp"

namespace plumbline::training {

DataReduction::DataReduction(comm::Communicator& group, const job::RunSpec& spec, const ExecutorSteps& steps,
                             std::vector<job::Parameter> list, const std::vector<at::Tensor>& parameters,
                             const RankDevice& where)
    : spec_(spec),
      steps_(steps),
      // A step of the caller's takes floats on the host.
      where_(steps.reduce ? where.through_host() : reduced_on(where, steps.gradients)),
      list_(std::move(list)) {
  if (list_.empty()) return;
  std::vector<GroupedTensor> leaves;
  for (std::size_t i = 0; i < list_.size(); ++i) leaves.push_back({{list_[i].name, parameters[i].detach()}});
  bucketing::Plan plan = plan_of(group, leaves);
  bucketing::ReducerOptions reducer = options(leaves);
  reducer_ = std::make_unique<TensorReducer>(std::vector{&group}, std::move(leaves), std::move(plan),
                                             std::move(reducer), std::vector<at::Tensor>(), where_);
}

bucketing::Plan DataReduction::plan_of(comm::Communicator& group, const std::vector<GroupedTensor>& leaves) const {
  const std::vector<bucketing::Gradient> gradients = gradients_of(leaves, where_.device());
  if (steps_.reduce) return bucketing::plan_flat(gradients);
  std::vector<int> backwards(gradients.size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  return plan_by_bytes(gradients, backwards, bucket_bytes_over(group, gradients, spec_.run.bucket_bytes, where_));
}

bucketing::ReducerOptions DataReduction::options(const std::vector<GroupedTensor>& leaves) {
  bucketing::ReducerOptions options = options_of(steps_.gradients, shapes_of(leaves));
  options.unused = bucketing::Unused::zeros;
  if (!steps_.reduce) return options;
  options.wire.reset();
  options.hook = {};
  options.hook.start = [this](comm::Communicator& group, const bucketing::HookedBucket& bucket) {
    reduce_by_step(group, bucket.values);
    return comm::Work();
  };
  return options;
}

void DataReduction::reduce_by_step(comm::Communicator& group, const comm::Buffer& values) const {
  if (values.dtype != comm::DType::f32) {  // a step reduces floats
    at::Tensor own = at::from_blob(values.data, {values.count},
                                   at::TensorOptions(values.dtype == comm::DType::f16 ? at::kHalf : at::kBFloat16));
    at::Tensor wide = own.to(at::kFloat);
    reduce_by_step(group, {wide.data_ptr(), values.count, comm::DType::f32});
    own.copy_(wide);
    return;
  }
  Bucket bucket{.values = {static_cast<float*>(values.data), static_cast<std::size_t>(values.count)}, .parts = {}};
  std::size_t begin = 0;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    const auto count = static_cast<std::size_t>(job::elements_of(list_[i].shape));
    bucket.parts.push_back({list_[i], bucket.values.subspan(begin, count), copied_[i]});
    begin += count;
  }
  steps_.reduce(spec_, group, bucket);
}

void DataReduction::reduce(std::vector<at::Tensor>& gradients) {
  if (!reducer_) return;
  copied_.clear();
  for (const at::Tensor& gradient : gradients) copied_.push_back(!gradient.is_contiguous());
  reducer_->begin();
  reducer_->reduce(gradients);
}

}  // namespace plumbline::training
