#include "reference/training/bucketing/tensors.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/tuning.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/bucketing/flat_tensors.hpp"
#include "reference/training/detail/added_type.hpp"

namespace plumbline::training {

std::vector<GroupedTensor> in_one_group(const std::vector<NamedTensor>& leaves) {
  std::vector<GroupedTensor> grouped;
  for (const NamedTensor& leaf : leaves) grouped.push_back({leaf});
  return grouped;
}

std::vector<bucketing::Gradient> gradients_of(const std::vector<GroupedTensor>& leaves, comm::Device device) {
  std::vector<bucketing::Gradient> gradients;
  for (const auto& [leaf, group] : leaves) {
    const std::optional<comm::DType> dtype = added_type_of(leaf.tensor.scalar_type());
    if (!dtype)
      throw Unsupported(
          fmt::format("leaf '{}': gradients of {} are not added", leaf.name, c10::toString(leaf.tensor.scalar_type())));
    gradients.push_back({.elements = leaf.tensor.numel(), .dtype = *dtype, .device = device, .group = group});
  }
  return gradients;
}

std::vector<bucketing::MatrixShape> shapes_of(const std::vector<GroupedTensor>& leaves) {
  std::vector<bucketing::MatrixShape> shapes;
  for (const auto& [leaf, group] : leaves) {
    const std::int64_t elements = leaf.tensor.numel();
    const std::int64_t rows = elements == 0 ? 0 : leaf.tensor.dim() == 0 ? 1 : leaf.tensor.size(0);
    shapes.push_back({.rows = rows, .columns = elements == 0 ? 0 : elements / rows});
  }
  return shapes;
}

RankDevice reduced_on(const RankDevice& rank, const GradientSettings& settings) {
  return has_hook(settings) ? rank.through_host() : rank;
}

bucketing::Plan plan_by_bytes(std::span<const bucketing::Gradient> gradients, std::span<const int> order,
                              std::int64_t bucket_bytes, std::span<const int> delayed) {
  return bucketing::buckets_in_order(gradients, order,
                                     std::array{std::min(kFirstBucketBytes, bucket_bytes), bucket_bytes}, delayed);
}

std::int64_t bucket_bytes_over(comm::Communicator& group, std::span<const bucketing::Gradient> gradients,
                               std::int64_t bucket_bytes, const RankDevice& where) {
  if (bucket_bytes > 0) return bucket_bytes;
  return std::max<std::int64_t>(
      1, bucketing::fastest_limit(group, gradients, {.place = where.bucket_memory()}).limit_bytes);
}

class TensorReducer::Impl {
 public:
  Impl(std::vector<comm::Communicator*> groups, std::vector<GroupedTensor> leaves, bucketing::Plan plan,
       bucketing::ReducerOptions options, const std::vector<at::Tensor>& buffers, const RankDevice& where)
      : where_(where), leaves_(std::move(leaves)), buffers_(buffers, where) {
    options.place = where_.bucket_memory();
    options.memory = bucketing::GradientMemory::views;
    options.unused = bucketing::Unused::zeros;
    options.results = bucketing::Results::everywhere;
    options.reduced = nullptr;
    options.names.clear();
    for (const GroupedTensor& leaf : leaves_) options.names.push_back(leaf.named.name);
    options.buffers = buffers_.buffers();
    reducer_.emplace(std::move(groups), gradients_of(leaves_, where_.device()), std::move(plan), std::move(options));
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const at::Tensor& leaf = leaves_[i].named.tensor;
      views_.push_back(
          at::from_blob(reducer_->view(static_cast<int>(i)).data, leaf.sizes(), where_.options(leaf.scalar_type())));
    }
    where_.settle();  // buckets are zero by then
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void begin() {
    buffers_.gather();
    reducer_->begin();
    buffers_.scatter();
  }
  void reduce(std::vector<at::Tensor>& gradients) {
    const c10::AutoGradMode without_gradients(false);
    for (const bucketing::Member& member : reducer_->plan().members) {
      const auto i = static_cast<std::size_t>(member.gradient);
      if (!gradients.at(i).defined()) {
        reducer_->mark_unused(member.gradient);
        continue;
      }
      views_[i].copy_(gradients[i]);
      reducer_->ready(member.gradient);
    }
    (void)reducer_->finish();
    take(gradients);
    reducer_->clear();
  }
  bool join_step(std::vector<at::Tensor>& gradients) {
    const c10::AutoGradMode without_gradients(false);
    buffers_.gather();
    const bool joined = reducer_->join_step();
    buffers_.scatter();
    if (joined) take(gradients);
    reducer_->clear();
    return joined;
  }

 private:
  void take(std::vector<at::Tensor>& gradients) const {
    where_.settle();
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!gradients.at(i).defined()) gradients[i] = at::empty_like(leaves_[i].named.tensor);
      gradients[i].copy_(views_[i]);
    }
  }

  RankDevice where_;
  std::vector<GroupedTensor> leaves_;
  FlatTensors buffers_;
  std::optional<bucketing::Reducer> reducer_;
  std::vector<at::Tensor> views_;
};

TensorReducer::TensorReducer(std::vector<comm::Communicator*> groups, std::vector<GroupedTensor> leaves,
                             bucketing::Plan plan, bucketing::ReducerOptions options,
                             const std::vector<at::Tensor>& buffers, const RankDevice& where)
    : impl_(std::make_unique<Impl>(std::move(groups), std::move(leaves), std::move(plan), std::move(options), buffers,
                                   where)) {}
TensorReducer::~TensorReducer() = default;
void TensorReducer::begin() { impl_->begin(); }
void TensorReducer::reduce(std::vector<at::Tensor>& gradients) { impl_->reduce(gradients); }
bool TensorReducer::join_step(std::vector<at::Tensor>& gradients) { return impl_->join_step(gradients); }

}  // namespace plumbline::training
