// harness/subject/mpi/staging.hpp: what MPI does not do as it is asked: averages, reduce_scatter in place.
//
// Model   An average is a sum, then a division of the result; of halves and formats of 8 bits it is a sum in f32, so
//         that it cannot overflow, divided and rounded once.
//         reduce_scatter in place leaves the other ranks' blocks of the input untouched. MPI's own in-place
//         form puts the result first and may use the rest, and its buffers may not overlap: the result is
//         made elsewhere and copied.
#pragma once

#include <cstddef>
#include <memory>

#include "reference/comm/call.hpp"

namespace plumbline::subject::mpi {

/// Memory that grows when needed and is used again.
class Scratch {
 public:
  /// At least so many bytes, aligned for any element. What was there before is lost.
  std::byte* reserve(std::size_t bytes);
  /// Never gives the memory back: MPI may still write to it.
  void abandon() noexcept { (void)memory_.release(); }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

[[nodiscard]] inline bool is_average(const comm::Call& call) {
  return is_reduction(call.operation) && call.op == comm::ReduceOp::avg;
}
/// Whether averages of the type are made in f32.
[[nodiscard]] constexpr bool is_narrow(comm::DType dtype) {
  return dtype == comm::DType::f16 || dtype == comm::DType::bf16 || is_float8(dtype);
}
[[nodiscard]] inline bool is_narrow_average(const comm::Call& call) {
  return is_average(call) && is_narrow(call.in.dtype);
}
[[nodiscard]] inline bool scatters_in_place(const comm::Call& call, int rank, int ranks) {
  if (call.operation != comm::Operation::reduce_scatter) return false;
  return call.out.data ==
         static_cast<const std::byte*>(call.in.data) + call.bytes(ranks) * static_cast<std::size_t>(rank);
}
[[nodiscard]] inline bool needs_staging(const comm::Call& call, int rank, int ranks) {
  return is_average(call) || scatters_in_place(call, rank, ranks);
}

/// The call that MPI is asked for instead; its buffers lie in `scratch` where the caller's do not serve.
[[nodiscard]] comm::Call stage(const comm::Call& call, int rank, int ranks, Scratch& scratch);
/// Turns the staged call's result into that of the call.
void unstage(const comm::Call& call, const comm::Call& staged, int rank, int ranks);

}  // namespace plumbline::subject::mpi
