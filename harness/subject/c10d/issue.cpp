#include "harness/subject/c10d/issue.hpp"

#include <array>
#include <cstring>

#include <ATen/ops/from_blob.h>

// Torch 2.13 renames _reduce_scatter_base, _allgather_base and alltoall_base; older versions have these names alone.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace plumbline::subject::c10d_backend {
namespace {

using comm::Buffer;
using comm::Call;
using comm::ConstBuffer;
using comm::Operation;
using Work = c10::intrusive_ptr<::c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// Complex numbers are handed down as pairs of real ones in every operation. Of torch.distributed's functions gather,
// reduce and reduce_scatter do not do so, and hand them down as they are.
at::ScalarType scalar_of(comm::DType dtype) {
  static constexpr std::array kTypes{at::kHalf,          at::kBFloat16,    at::kFloat, at::kDouble,
                                     at::kInt,           at::kLong,        at::kByte,  at::kBool,
                                     at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kFloat, at::kDouble};
  static_assert(kTypes.size() == comm::kDTypeCount);
  return kTypes[static_cast<std::size_t>(dtype)];
}

::c10d::ReduceOp op_of(comm::ReduceOp op) {
  static constexpr std::array kOps{::c10d::ReduceOp::SUM, ::c10d::ReduceOp::AVG, ::c10d::ReduceOp::MIN,
                                   ::c10d::ReduceOp::MAX, ::c10d::ReduceOp::PRODUCT};
  static_assert(kOps.size() == comm::kAllReduceOps.size());
  return kOps[static_cast<std::size_t>(op)];
}

at::Tensor tensor_of(Buffer view) {
  return at::from_blob(view.data, {view.count * components_of(view.dtype)},
                       at::TensorOptions().dtype(scalar_of(view.dtype)));
}

::c10d::ReduceOp op_of(const Issue& issue) {
  ::c10d::ReduceOp op = op_of(issue.call.op);
  if (!issue.factor) return op;
  op.op_ = ::c10d::ReduceOp::PREMUL_SUM;
  op.supplement_ = c10::make_intrusive<::c10d::NCCLPreMulSumSupplement>(*issue.factor);
  return op;
}

// What c10d only reads: its interface has no word for that.
Buffer writable(ConstBuffer view) { return {const_cast<void*>(view.data), view.count, view.dtype, view.device}; }

Tensors blocks_of(Buffer whole, int ranks) {
  Tensors blocks;
  const std::int64_t count = whole.count / ranks;
  for (int rank = 0; rank < ranks; ++rank) blocks.push_back(tensor_of(part_of(whole, rank * count, count)));
  return blocks;
}

// A copy of the input in the call's scratch memory.
Buffer copied(const Issue& issue) {
  const ConstBuffer& in = issue.call.in;
  issue.scratch.resize(in.bytes());
  if (in.count > 0) std::memcpy(issue.scratch.data(), in.data, in.bytes());
  return {issue.scratch.data(), in.count, in.dtype, in.device};
}

// c10d reduces in place: the output begins as the input, and a rank without an output brings a copy.
at::Tensor reduced(const Issue& issue) {
  const Call& call = issue.call;
  if (!call.uses_out(issue.rank)) return tensor_of(copied(issue));
  if (call.in.count > 0 && call.in.data != call.out.data) std::memcpy(call.out.data, call.in.data, call.in.bytes());
  return tensor_of(call.out);
}

// Not the in-place form, which torch.distributed has not for this operation.
at::Tensor separate_input(const Issue& issue, bool is_in_place) {
  return tensor_of(is_in_place ? copied(issue) : writable(issue.call.in));
}

Work all_reduce(::c10d::ProcessGroup& group, const Issue& issue) {
  Tensors tensors{reduced(issue)};
  ::c10d::AllreduceOptions options;
  options.reduceOp = op_of(issue);
  options.timeout = issue.timeout;
  options.asyncOp = issue.is_async;
  return group.allreduce(tensors, options);
}

Work reduce(::c10d::ProcessGroup& group, const Issue& issue) {
  Tensors tensors{reduced(issue)};
  ::c10d::ReduceOptions options;
  options.reduceOp = op_of(issue);
  options.rootRank = issue.call.root;
  options.timeout = issue.timeout;
  options.asyncOp = issue.is_async;
  return group.reduce(tensors, options);
}

Work broadcast(::c10d::ProcessGroup& group, const Issue& issue) {
  Tensors tensors{tensor_of(issue.call.out)};
  ::c10d::BroadcastOptions options;
  options.rootRank = issue.call.root;
  options.timeout = issue.timeout;
  options.asyncOp = issue.is_async;
  return group.broadcast(tensors, options);
}

Work reduce_scatter(::c10d::ProcessGroup& group, const Issue& issue) {
  const Call& call = issue.call;
  const auto* const own_block =
      static_cast<const std::byte*>(call.in.data) + call.out.bytes() * static_cast<std::size_t>(issue.rank);
  at::Tensor out = tensor_of(call.out);
  at::Tensor in = separate_input(issue, own_block == call.out.data);
  ::c10d::ReduceScatterOptions options;
  options.reduceOp = op_of(issue);
  options.timeout = issue.timeout;
  options.asyncOp = issue.is_async;
  return group._reduce_scatter_base(out, in, options);
}

Work all_gather(::c10d::ProcessGroup& group, const Issue& issue) {
  at::Tensor out = tensor_of(issue.call.out);
  at::Tensor in = tensor_of(writable(issue.call.in));
  ::c10d::AllgatherOptions options;
  options.timeout = issue.timeout;
  options.asyncOp = issue.is_async;
  return group._allgather_base(out, in, options);
}

Work all_to_all(::c10d::ProcessGroup& group, const Issue& issue) {
  at::Tensor out = tensor_of(issue.call.out);
  at::Tensor in = separate_input(issue, issue.call.in.data == issue.call.out.data);
  ::c10d::AllToAllOptions options;
  options.timeout = issue.timeout;
  options.asyncOp = issue.is_async;
  std::vector<std::int64_t> equal_parts;
  return group.alltoall_base(out, in, equal_parts, equal_parts, options);
}

Work gather(::c10d::ProcessGroup& group, const Issue& issue) {
  std::vector<Tensors> outputs;
  if (issue.rank == issue.call.root) outputs.push_back(blocks_of(issue.call.out, issue.size));
  Tensors inputs{tensor_of(writable(issue.call.in))};
  ::c10d::GatherOptions options;
  options.rootRank = issue.call.root;
  options.timeout = issue.timeout;
  options.asyncOp = issue.is_async;
  return group.gather(outputs, inputs, options);
}

Work scatter(::c10d::ProcessGroup& group, const Issue& issue) {
  Tensors outputs{tensor_of(issue.call.out)};
  std::vector<Tensors> inputs;
  if (issue.rank == issue.call.root) inputs.push_back(blocks_of(writable(issue.call.in), issue.size));
  ::c10d::ScatterOptions options;
  options.rootRank = issue.call.root;
  options.timeout = issue.timeout;
  options.asyncOp = issue.is_async;
  return group.scatter(outputs, inputs, options);
}

Work barrier(::c10d::ProcessGroup& group, const Issue& issue) {
  ::c10d::BarrierOptions options;
  options.timeout = issue.timeout;
  options.asyncOp = issue.is_async;
  options.device = at::Device(at::kCPU);
  return group.barrier(options);
}

Work send(::c10d::ProcessGroup& group, const Issue& issue) {
  Tensors tensors{tensor_of(writable(issue.call.in))};
  return group.send(tensors, issue.call.root, issue.call.tag);
}

Work recv(::c10d::ProcessGroup& group, const Issue& issue) {
  Tensors tensors{tensor_of(issue.call.out)};
  return group.recv(tensors, issue.call.root, issue.call.tag);
}

}  // namespace

Work issue(::c10d::ProcessGroup& group, const Issue& issue) {
  constexpr std::array kIssues{all_reduce, reduce,  broadcast, reduce_scatter, all_gather, all_to_all,
                               gather,     scatter, barrier,   send,           recv};
  static_assert(kIssues.size() == comm::kOperationCount);
  return kIssues[static_cast<std::size_t>(issue.call.operation)](group, issue);
}

Work issue(::c10d::ProcessGroup& group, const UnevenIssue& issue) {
  at::Tensor out = tensor_of(issue.call.out);
  at::Tensor in = tensor_of(writable(issue.call.in));
  ::c10d::AllToAllOptions options;
  options.timeout = issue.timeout;
  options.asyncOp = false;
  return group.alltoall_base(out, in, issue.out_counts, issue.in_counts, options);
}

}  // namespace plumbline::subject::c10d_backend

#pragma GCC diagnostic pop
