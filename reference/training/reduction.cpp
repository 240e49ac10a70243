#include "reference/training/reduction.hpp"

#include <ATen/ops/cat.h>

namespace plumbline::training {

void reduce_over(comm::Communicator& group, const job::RunSpec& spec, const ExecutorSteps& steps,
                 const std::vector<job::Parameter>& list, std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& gradient : gradients) flat.push_back(gradient.reshape({-1}));
  const at::Tensor memory = at::cat(flat).cpu();
  Bucket bucket{.values = {memory.data_ptr<float>(), static_cast<std::size_t>(memory.numel())}, .parts = {}};
  std::size_t begin = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto count = static_cast<std::size_t>(gradients[i].numel());
    bucket.parts.push_back({list[i], bucket.values.subspan(begin, count), !gradients[i].is_contiguous()});
    begin += count;
  }
  if (steps.reduce)
    steps.reduce(spec, group, bucket);
  else
    average(spec, group, bucket);
  std::int64_t first = 0;
  for (at::Tensor& gradient : gradients) {
    const at::Tensor reduced = memory.narrow(0, first, gradient.numel());
    first += gradient.numel();
    gradient = reduced.view(gradient.sizes()).to(gradient.device(), gradient.scalar_type(), false, true);
  }
}

}  // namespace plumbline::training
