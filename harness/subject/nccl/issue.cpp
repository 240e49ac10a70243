#include "harness/subject/nccl/issue.hpp"

#include <array>
#include <cstring>

namespace plumbline::subject::nccl {

using comm::Call;
using comm::Operation;

DataType type_of(comm::DType dtype) {
  // NCCL has no complex numbers: they are not claimed, and so are rejected before this.
  constexpr std::array<DataType, 10> types{
      DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64,    DataType::int32,
      DataType::int64,   DataType::uint8,    DataType::uint8,   DataType::float8e4m3, DataType::float8e5m2};
  static_assert(static_cast<int>(comm::DType::f16) == 0 && static_cast<int>(comm::DType::f8_e5m2) == 9);
  return types.at(static_cast<std::size_t>(dtype));
}

RedOp op_of(comm::ReduceOp op) {
  switch (op) {
    case comm::ReduceOp::sum:
      return RedOp::sum;
    case comm::ReduceOp::avg:
      return RedOp::avg;
    case comm::ReduceOp::min:
      return RedOp::min;
    case comm::ReduceOp::max:
      return RedOp::max;
    case comm::ReduceOp::product:
      break;
  }
  return RedOp::product;
}

bool is_made_of_messages(Operation operation) {
  return operation == Operation::gather || operation == Operation::scatter || operation == Operation::all_to_all;
}

namespace {

// As NCCL reads a factor: one element, of which it takes as many bytes as the type has.
std::array<std::byte, sizeof(double)> element_of(comm::DType dtype, double factor) {
  std::array<std::byte, sizeof(double)> bytes{};
  const auto put = [&](auto element) { std::memcpy(bytes.data(), &element, sizeof element); };
  const auto narrow = static_cast<float>(factor);
  if (dtype == comm::DType::f16)
    put(comm::to_float16(narrow));
  else if (dtype == comm::DType::bf16)
    put(comm::to_bfloat16(narrow));
  else if (dtype == comm::DType::f32)
    put(narrow);
  else
    put(factor);
  return bytes;
}

}  // namespace

Issue::Issue(Lane& lane, const Call& call, std::optional<double> factor)
    : lane_(lane),
      call_(call),
      factor_(factor),
      in_(call.in.data),
      out_(call.out.data),
      block_(call.bytes(lane.size_)) {}

const std::byte* Issue::in_block(int rank) const {
  return static_cast<const std::byte*>(in_) + static_cast<std::size_t>(rank) * block_;
}

std::byte* Issue::out_block(int rank) const {
  return static_cast<std::byte*>(call_.out.data) + static_cast<std::size_t>(rank) * block_;
}

void Issue::copies() {
  const Process& process = lane_.process_;
  const device::Stream stream = lane_.stream_.get();
  if (call_.operation == Operation::barrier) {
    in_ = lane_.scratch_.reserve(sizeof(std::int32_t));
    return;
  }
  if (!is_made_of_messages(call_.operation) || block_ == 0) return;
  const auto copy = [&](void* to, const void* from, std::size_t bytes) {
    if (to != from) process.runtime->copy(process.device, to, from, bytes, stream);
  };
  const int rank = lane_.rank_;
  const bool is_root = rank == call_.root;
  if (call_.operation == Operation::gather && is_root) copy(out_block(rank), in_, block_);
  if (call_.operation == Operation::scatter && is_root) copy(call_.out.data, in_block(rank), block_);
  if (call_.operation != Operation::all_to_all) return;
  if (in_ != call_.out.data) return copy(out_block(rank), in_block(rank), block_);
  const std::size_t all = block_ * static_cast<std::size_t>(lane_.size_);
  std::byte* const sent = lane_.scratch_.reserve(all);
  copy(sent, in_, all);
  in_ = sent;
}

Result Issue::calls() {
  const Library& nccl = lane_.process_.library;
  const Comm comm = lane_.comm_;
  const device::Stream stream = lane_.stream_.get();
  if (call_.operation == Operation::barrier) {
    void* const word = const_cast<void*>(in_);
    return nccl->AllReduce(word, word, 1, DataType::int32, RedOp::max, comm, stream);
  }
  if (block_ == 0) return Result::success;
  if (is_reduction(call_.operation)) return reduction();
  const auto count = static_cast<std::size_t>(call_.elements(lane_.size_));
  const DataType type = type_of(call_.dtype());
  const bool is_root = lane_.rank_ == call_.root;
  void* const out = out_;
  switch (call_.operation) {
    case Operation::broadcast:
      return nccl->Broadcast(out, out, count, type, call_.root, comm, stream);
    case Operation::all_gather:
      return nccl->AllGather(in_, out, count, type, comm, stream);
    case Operation::send:
      return nccl->Send(in_, count, type, call_.root, comm, stream);
    case Operation::recv:
      return nccl->Recv(out, count, type, call_.root, comm, stream);
    case Operation::all_to_all:
      return exchange(true, true);
    case Operation::gather:
      return is_root ? exchange(false, true) : nccl->Send(in_, count, type, call_.root, comm, stream);
    case Operation::scatter:
      return is_root ? exchange(true, false) : nccl->Recv(out, count, type, call_.root, comm, stream);
    default:
      return Result::success;
  }
}

// NCCL reads the factor at once, and lets go of the operator when the last call that was given it returns.
Result Issue::reduction() {
  if (!factor_) return reduction_by(op_of(call_.op));
  const Library& nccl = lane_.process_.library;
  auto factor = element_of(call_.dtype(), *factor_);
  RedOp op{};
  const Result made = nccl->RedOpCreatePreMulSum(&op, factor.data(), type_of(call_.dtype()),
                                                 ScalarResidence::host_immediate, lane_.comm_);
  // There is no operator yet to reduce by, and nothing that says when there will be.
  if (made == Result::in_progress) return Result::internal_error;
  if (made != Result::success) return made;
  const Result result = reduction_by(op);
  const Result destroyed = nccl->RedOpDestroy(op, lane_.comm_);
  return is_error(result) ? result : destroyed;
}

Result Issue::reduction_by(RedOp op) {
  const Library& nccl = lane_.process_.library;
  const auto count = static_cast<std::size_t>(call_.elements(lane_.size_));
  const DataType type = type_of(call_.dtype());
  const device::Stream stream = lane_.stream_.get();
  if (call_.operation == Operation::all_reduce) return nccl->AllReduce(in_, out_, count, type, op, lane_.comm_, stream);
  if (call_.operation == Operation::reduce_scatter)
    return nccl->ReduceScatter(in_, out_, count, type, op, lane_.comm_, stream);
  void* const out = lane_.rank_ == call_.root ? out_ : nullptr;
  return nccl->Reduce(in_, out, count, type, op, call_.root, lane_.comm_, stream);
}

Result Issue::exchange(bool sends, bool receives) {
  const Library& nccl = lane_.process_.library;
  const auto count = static_cast<std::size_t>(call_.elements(lane_.size_));
  const DataType type = type_of(call_.dtype());
  Result result = Result::success;
  const auto note = [&result](Result one) {
    if (one != Result::success && one != Result::in_progress) result = one;
  };
  for (int peer = 0; peer < lane_.size_ && result == Result::success; ++peer) {
    if (peer == lane_.rank_) continue;
    if (sends) note(nccl->Send(in_block(peer), count, type, peer, lane_.comm_, lane_.stream_.get()));
    if (receives) note(nccl->Recv(out_block(peer), count, type, peer, lane_.comm_, lane_.stream_.get()));
  }
  return result;
}

}  // namespace plumbline::subject::nccl
