#include "reference/training/detail/flat_shards.hpp"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "reference/training/detail/added_type.hpp"
#include "reference/training/detail/rank_groups.hpp"

namespace plumbline::training {
namespace {

at::Tensor on_host(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous().view(-1); }

// The elements, and zeros after them.
at::Tensor with_padding(const at::Tensor& elements, std::int64_t count) {
  at::Tensor padded = at::zeros({count}, elements.scalar_type());
  padded.narrow(0, 0, elements.numel()).copy_(elements);
  return padded;
}

}  // namespace

FlatShards::FlatShards(const job::RunSpec& spec, comm::Communicator& world)
    : spec_(spec), whole_(job::parameters_of(spec)), groups_(world, groups_plan(spec.parallel)) {
  const std::int64_t ranks = spec.parallel.shard, own = world.rank() % ranks;
  for (const job::Parameter& parameter : whole_) {
    const std::int64_t count = job::elements_of(parameter.shape), each = (count + ranks - 1) / ranks;
    const std::int64_t begin = std::min(own * each, count);
    padded_.push_back(each);
    extents_.push_back({.begin = begin, .size = std::min(each, count - begin)});
    parts_.push_back({.name = parameter.name + "@flat", .layer = parameter.layer, .shape = {extents_.back().size}});
  }
}

at::Tensor FlatShards::cut(std::size_t i, const at::Tensor& whole) const {
  return whole.detach().contiguous().view(-1).narrow(0, extents_[i].begin, extents_[i].size).clone();
}

at::Tensor FlatShards::gathered(std::size_t i, const at::Tensor& part) {
  const at::Tensor own = with_padding(on_host(part), padded_[i]);
  const at::Tensor all = at::empty({padded_[i] * spec_.parallel.shard}, own.options());
  groups_.communicator("shard").all_gather(buffer_of(own), buffer_of(all));
  return all.narrow(0, 0, job::elements_of(whole_[i].shape)).view(whole_[i].shape).to(part.device());
}

at::Tensor FlatShards::reduced(std::size_t i, const at::Tensor& gradient) {
  const at::Tensor own = with_padding(on_host(gradient), padded_[i] * spec_.parallel.shard);
  const at::Tensor part = at::empty({padded_[i]}, own.options());
  groups_.communicator("shard").reduce_scatter(buffer_of(own), buffer_of(part), comm::ReduceOp::sum);
  at::Tensor sum = at::empty_like(part);
  groups_.communicator("replicate").all_reduce(buffer_of(part), buffer_of(sum), comm::ReduceOp::sum);
  return sum.div_(spec_.parallel.data).narrow(0, 0, extents_[i].size).to(gradient.device());
}

}  // namespace plumbline::training
