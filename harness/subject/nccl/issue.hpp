// harness/subject/nccl/issue.hpp: a call of call.hpp as calls of NCCL.
//
// Model   NCCL has no gather, scatter, all_to_all or barrier: the first three are sends and receives in one group call,
//         a rank's own block being copied; a barrier is the reduction of one word.
//         An all_to_all in place sends from a copy, since NCCL may write what it has not read yet.
//         A sum with a factor is a reduction by an operator of the communicator's own, made for that call.
//         A call without elements asks nothing of NCCL.
// Source  NCCL's user guide: "In-place Operations", "Point-to-point communication", "User Defined
//         Reduction Operators".
#pragma once

#include <optional>

#include "harness/subject/nccl/lane.hpp"

namespace plumbline::subject::nccl {

/// Puts one call into a lane's stream and communicator.
class Issue {
 public:
  Issue(Lane& lane, const comm::Call& call, std::optional<double> factor);
  /// Of a message: takes the lane's memory instead of the call's.
  void use_own_memory() {
    if (block_ > 0) in_ = out_ = lane_.scratch_.reserve(block_);
  }
  /// What must be in the stream before NCCL's part. Throws RuntimeFailure, OutOfMemory.
  void copies();
  /// NCCL's part, inside a group call. Returns the first result that is an error.
  [[nodiscard]] Result calls();

 private:
  [[nodiscard]] Result reduction();
  [[nodiscard]] Result reduction_by(RedOp op);
  [[nodiscard]] Result exchange(bool sends, bool receives);
  [[nodiscard]] const std::byte* in_block(int rank) const;
  [[nodiscard]] std::byte* out_block(int rank) const;

  Lane& lane_;
  const comm::Call& call_;
  const std::optional<double> factor_;
  const void* in_;
  void* out_;
  std::size_t block_;  // bytes
};

[[nodiscard]] DataType type_of(comm::DType dtype);
[[nodiscard]] RedOp op_of(comm::ReduceOp op);
/// Of several ranks, sends and receives in one group call.
[[nodiscard]] bool is_made_of_messages(comm::Operation operation);

}  // namespace plumbline::subject::nccl
