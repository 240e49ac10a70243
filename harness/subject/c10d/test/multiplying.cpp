// Sums with factors for gloo, which has none: what ReduceOp.PREMUL_SUM means is done here, and gloo adds. For a test of
// the way that a factor takes from a check to a process group.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // see issue.cpp

namespace {

using Group = c10::intrusive_ptr<::c10d::ProcessGroup>;
using Op = c10::intrusive_ptr<::c10d::ReduceOp>;
using Work = c10::intrusive_ptr<::c10d::Work>;

::c10d::Backend& gloo(const Group& group) { return *group->getBackend(at::kCPU); }

// Fills in what all options have. The tensor is multiplied where the op has a factor, which leaves a plain sum.
template <class Options>
Options options_of(const Op& op, const at::Tensor& tensor, std::int64_t timeout) {
  Options options;
  options.timeout = std::chrono::milliseconds(timeout);
  options.reduceOp = *op;
  if (op->op_ != ::c10d::ReduceOp::PREMUL_SUM) return options;
  tensor.mul_(static_cast<const ::c10d::NCCLPreMulSumSupplement&>(*op->supplement_).double_factor);
  options.reduceOp = ::c10d::ReduceOp::SUM;
  return options;
}

std::tuple<std::vector<at::Tensor>, Work> all_reduce(at::TensorList given, const Group& group, const Op& op,
                                                     const std::optional<at::Tensor>&, bool, std::int64_t timeout) {
  std::vector<at::Tensor> tensors = given.vec();
  const auto options = options_of<::c10d::AllreduceOptions>(op, tensors.front(), timeout);
  Work work = gloo(group).allreduce(tensors, options);
  return {tensors, work};
}

Work reduce(at::TensorList given, const Group& group, const Op& op, std::int64_t root, std::int64_t, bool,
            std::int64_t timeout) {
  std::vector<at::Tensor> tensors = given.vec();
  auto options = options_of<::c10d::ReduceOptions>(op, tensors.front(), timeout);
  options.rootRank = root;
  return gloo(group).reduce(tensors, options);
}

// The input is the caller's, and stays as it is.
std::tuple<at::Tensor, Work> reduce_scatter(at::Tensor& out, at::Tensor& in, const Group& group, const Op& op, bool,
                                            std::int64_t timeout) {
  at::Tensor own = in.clone();
  const auto options = options_of<::c10d::ReduceScatterOptions>(op, own, timeout);
  Work work = gloo(group)._reduce_scatter_base(out, own, options);
  return {out, work};
}

}  // namespace

TORCH_LIBRARY_IMPL(c10d, CPU, library) {
  library.impl("allreduce_", all_reduce);
  library.impl("reduce_", reduce);
  library.impl("_reduce_scatter_base_", reduce_scatter);
}

#pragma GCC diagnostic pop
