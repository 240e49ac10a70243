#include "harness/subject/mpi/staging.hpp"

#include <cstring>

#include "harness/subject/mpi/arithmetic.hpp"

namespace plumbline::subject::mpi {

using comm::Call;
using comm::DType;
using comm::Operation;

namespace {

// In scratch: the input in f32; for reduce_scatter the result after it, for others in its place.
Call stage_narrow_average(const Call& call, int rank, Scratch& scratch) {
  const std::int64_t given = call.in.count;
  const std::int64_t after = call.operation == Operation::reduce_scatter ? call.out.count : 0;
  auto* wide = reinterpret_cast<float*>(scratch.reserve(static_cast<std::size_t>(given + after) * sizeof(float)));
  widen(call.in.dtype, static_cast<const std::byte*>(call.in.data), wide, static_cast<std::size_t>(given));
  Call staged = call;
  staged.op = comm::ReduceOp::sum;
  staged.in = {wide, given, DType::f32};
  if (call.operation == Operation::reduce_scatter)
    staged.out = {wide + given, after, DType::f32};
  else if (call.operation == Operation::all_reduce || rank == call.root)
    staged.out = {wide, given, DType::f32};
  return staged;
}

}  // namespace

std::byte* Scratch::reserve(std::size_t bytes) {
  if (bytes > bytes_ || memory_ == nullptr) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return memory_.get();
}

Call stage(const Call& call, int rank, int ranks, Scratch& scratch) {
  if (is_narrow_average(call)) return stage_narrow_average(call, rank, scratch);
  Call staged = call;
  if (is_average(call)) staged.op = comm::ReduceOp::sum;
  if (scatters_in_place(call, rank, ranks)) staged.out.data = scratch.reserve(call.out.bytes());
  return staged;
}

void unstage(const Call& call, const Call& staged, int rank, int ranks) {
  if (call.operation == Operation::reduce && rank != call.root) return;
  auto* out = static_cast<std::byte*>(call.out.data);
  const auto count = static_cast<std::size_t>(call.out.count);
  if (count == 0) return;
  if (is_narrow_average(call))
    return narrow_mean(call.in.dtype, static_cast<const float*>(staged.out.data), ranks, out, count);
  if (staged.out.data != out) std::memcpy(out, staged.out.data, call.out.bytes());
  if (is_average(call)) divide(call.in.dtype, out, ranks, count);
}

}  // namespace plumbline::subject::mpi
